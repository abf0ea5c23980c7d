"""A recording that was killed, cut and robbed of a log: every command reads it and says what is missing."""

from __future__ import annotations

import csv
import io
import itertools
import json
import re
import shutil
import struct
from html.parser import HTMLParser
from typing import TYPE_CHECKING
from xml.etree import ElementTree as ET

import pytest

import multitracer
from multitracer.manifest import CollectorRun, Host, Manifest, Variables, read_manifest, write_manifest
from tests.cli.program import analyze, call, run
from tests.conftest import SAMPLES
from tests.parsers.frames import block, ethernet, interface, ipv4, option, section
from tests.recording.captures import Conversation

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

DAMAGED = SAMPLES / "damaged"
CUT = "damaged after 79 whole packets"


def test_inspect_says_what_never_ended() -> None:
    done = run("inspect", DAMAGED)
    assert "how this collector ended is not recorded" in done.stdout
    assert CUT in done.stderr


def test_analyze_counts_what_is_whole_and_trusts_it_less() -> None:
    document = analyze(DAMAGED)
    assert document["trust"]["verdict"] == "caution"
    assert [each["forward"]["packets"] for each in document["connections"]] == [46, 36]


def test_diagnosis_makes_do_with_one_side_of_the_link() -> None:
    document = json.loads(run("diagnose", "--json", DAMAGED).stdout)
    account = document["account"]
    assert account["outcome"] == "dropped"
    assert account["inferred"] is False
    assert sum(account["seconds"].values()) == pytest.approx(account["total_s"], abs=1e-4)
    assert "header-decompressor-failure" not in {finding["kind"] for finding in document["findings"]}


@pytest.mark.parametrize("command", [("report",), ("plot",), ("export", "series")])
def test_pages_and_series_are_made_of_what_is_there(tmp_path: Path, command: tuple[str, ...]) -> None:
    output = tmp_path / ("series" if command[0] == "export" else "page.html")
    done = run(*command, DAMAGED, "-o", output)
    assert CUT in done.stderr
    assert output.exists()
    if command[0] == "export":
        assert (output / "RlpSnd_data.csv").exists()
        assert not (output / "RlpRcv_data.csv").exists()


# --- a session in which every text is an attack: on a page, a terminal, a spreadsheet, SQL ---

EVIL = "</script></title><img src=x onerror=alert(1)><b id=evil>'; DROP TABLE sessions; --\x1b]0;mine\x07\x1b[2J\u202e"
FORMULA = '=HYPERLINK("http://192.0.2.1/","evil")'
CONTROL = re.compile(r"[\x00-\x09\x0b-\x1f\x7f-\x9f\u202e]")
START_NS, STEP_NS = 1_795_000_000_000_000_000, 1_000_000_000


def _pcapng_of(path: Path, texts: Iterator[bytes]) -> None:
    """Write a connection and a GSMTAP message, with every text option of each block."""
    conversation = Conversation(start_ns=START_NS, segments=40, lost=(7,))
    message = bytes.fromhex("02040d0000000000000000000000000000") + next(texts)
    gsmtap = ethernet(ipv4(struct.pack(">4H", 4729, 4729, 8 + len(message), 0) + message, protocol=17))
    packets = [*conversation.packets, (START_NS + STEP_NS, gsmtap)]
    blocks = [
        section(options=b"".join(option(code, next(texts)) for code in (1, 2, 3, 4))),
        interface(options=b"".join(option(code, next(texts)) for code in (2, 3, 1)) + option(11, b"\0" + next(texts))),
        block(4, struct.pack("<HH", 1, 4 + len(name := next(texts)[:60])) + bytes(4) + name),
    ]
    for time_ns, packet in packets:
        ticks = time_ns // 1000
        head = struct.pack("<5I", 0, ticks >> 32, ticks & 0xFFFFFFFF, len(packet), len(packet))
        blocks.append(block(6, head + packet + bytes(-len(packet) % 4) + option(1, next(texts)) + option(0, b"")))
    path.write_bytes(b"".join(blocks))


@pytest.fixture(scope="module")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Make a session whose names, comments, labels and cells are all attacks."""
    folder = tmp_path_factory.mktemp("hostile") / EVIL.replace("/", "\u2215")
    host = folder / f"phone {EVIL}".replace("/", "\u2215")
    host.mkdir(parents=True)
    texts = itertools.cycle([EVIL.encode(), FORMULA.encode()])
    _pcapng_of(host / f"{EVIL}.pcapng".replace("/", "\u2215"), texts)
    cell = iter(itertools.cycle([EVIL.replace(",", ";"), FORMULA.replace(",", ";").replace('"', "")]))
    radio, position = (
        ["time_ns,source,role,rat,operator,band,rsrp_dbm,cell_id,modem"],
        ["time_ns,source,lat_deg,lon_deg,fix"],
    )
    for second in range(30):
        at = START_NS + second * STEP_NS
        words = [next(cell) for _ in range(5)]
        radio.append(f"{at},{words[0]},serving,{','.join(words[1:4])},-{80 + second},{second // 10},{words[4]}")
        position.append(f"{at},{next(cell)},{40 + second / 1e4},-83.0,3")
    (host / "radio.csv").write_text("\n".join(radio) + "\n")
    (host / "position.csv").write_text("\n".join(position) + "\n")
    times = {"monotonic_before_ns": 1, "realtime_ns": START_NS + STEP_NS, "monotonic_after_ns": 2}
    markers = [json.dumps({"kind": "marker", "note": each} | times) for each in (EVIL, FORMULA)]
    (host / "markers.jsonl").write_text("\n".join(markers) + "\n")
    variables = Variables(title=EVIL, scenario=FORMULA, more={EVIL: EVIL, "operator": FORMULA, FORMULA: EVIL})
    run_ = CollectorRun(EVIL, host.name, [EVIL], EVIL, START_NS, START_NS + STEP_NS, EVIL)
    about = Manifest(
        EVIL, START_NS, {host.name: Host(kernel=EVIL, machine=EVIL, more={"node": EVIL})}, [run_], variables
    )
    write_manifest(folder, about)
    return folder


@pytest.fixture(scope="module")
def hostile_campaign(hostile: Path) -> Path:
    """Return the path of a campaign of the session; its name is an attack, too."""
    campaign, other = hostile.parent / f"campaign {hostile.name}", hostile.parent / "other"
    shutil.copytree(hostile, other)
    manifest = read_manifest(other)
    assert manifest is not None
    manifest.variables.more["operator"] = EVIL
    write_manifest(other, manifest)
    call("campaign", "run", hostile, other, "-o", campaign)
    return campaign


def _pages(hostile: Path, campaign: Path, folder: Path) -> Iterator[str]:
    """Yield each page, and each view of a notebook, that shows the session."""
    commands: dict[str, list[str | Path]] = {
        "report": ["report", hostile],
        "plot": ["plot", hostile],
        "compare": ["compare", campaign, "--by", "operator"],
    }
    for name, command in commands.items():
        call(*command, "-o", folder / f"{name}.html")
        yield (folder / f"{name}.html").read_text()
    call("campaign", "report", campaign, "-o", folder / "campaign")
    yield (folder / "campaign" / "index.html").read_text()
    session = multitracer.open(hostile)
    for shown in (session, session.diagnose(), session.align(), multitracer.open_campaign(campaign)):
        assert not CONTROL.search(repr(shown))
        yield shown._repr_html_()


class _Evil(HTMLParser):
    """Counts elements and attributes that only a text of the session could make."""

    def __init__(self) -> None:
        super().__init__()
        self.evil: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if dict(attrs).get("id") == "evil" or "onerror" in dict(attrs):
            self.evil.append(tag)


@pytest.mark.slow
def test_no_text_of_a_session_becomes_markup(hostile: Path, hostile_campaign: Path, tmp_path: Path) -> None:
    pages = list(_pages(hostile, hostile_campaign, tmp_path))
    for page in pages:
        parser = _Evil()
        parser.feed(page)
        assert parser.evil == []
        assert "\x1b" not in page
    assert sum("DROP TABLE" in page for page in pages) >= 4, "the texts are shown"
    for ending in ("kml", "gpx"):
        route = tmp_path / f"route.{ending}"
        call("export", "route", hostile, "-o", route)
        assert not [each for each in ET.parse(route).iter() if each.tag.endswith(("img", "b"))]


@pytest.mark.slow
def test_no_text_of_a_session_reaches_a_terminal_or_is_a_formula(
    hostile: Path, hostile_campaign: Path, tmp_path: Path
) -> None:
    texts = [
        call("inspect", hostile), call("analyze", hostile), call("diagnose", hostile),
        call("export", "series", "-o", tmp_path / "series", hostile),
        call("campaign", "query", hostile_campaign, "FROM sessions"), call("campaign", "status", hostile_campaign),
    ]  # fmt: skip
    for done in texts:
        assert not CONTROL.search(done.stdout + done.stderr), done.args
    assert sum("DROP TABLE" in done.stdout for done in texts) >= 2, "the texts are shown"
    tables = [
        call("analyze", "--csv", hostile).stdout,
        call("campaign", "query", "--csv", hostile_campaign, "FROM sessions").stdout,
    ]
    call("export", "tables", "--format", "csv", "-o", tmp_path / "tables", hostile)
    tables += [path.read_text() for path in (*tmp_path.glob("tables/*"), *tmp_path.glob("series/*"))]
    cells = [cell for table in tables for row in csv.reader(io.StringIO(table)) for cell in row]
    assert sum("HYPERLINK" in cell for cell in cells) >= 3, "the texts are shown"
    assert not [cell for cell in cells if re.match(r"[=+@\t\r]|-[^0-9i]", cell)]


@pytest.mark.slow
def test_no_text_of_a_session_is_sql(hostile_campaign: Path) -> None:
    names = multitracer.open_campaign(hostile_campaign).query("SELECT name FROM sessions")["name"]
    assert names.to_list() == [EVIL, EVIL]
    assert call("campaign", "forget", hostile_campaign, "x' OR '1'='1", status=1).stderr.count("no session")
    assert call("campaign", "verify", hostile_campaign).stdout.count("no damage")
