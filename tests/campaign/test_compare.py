"""Two sides of sessions are compared from the shell; what cannot be compared is a sentence."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import jsonschema
import pytest

import multitracer as mt
from multitracer.campaign.run import run
from multitracer.manifest import Host, Manifest, Variables, write_manifest
from tests.campaign.sessions import HOUR_NS, make_session, make_sessions
from tests.cli.program import call
from tests.recording.captures import MS, START_NS, Conversation, write_conversations


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a campaign of twelve sessions of operators a and b, by turns."""
    folder = tmp_path_factory.mktemp("compare")
    run([str(make_sessions(folder / "drives", 12))], folder / "campaign")
    return folder / "campaign"


def compared(*args: str | Path, status: int = 0) -> dict[str, Any]:
    document = json.loads(call("compare", *args, "--json", status=status).stdout)
    assert isinstance(document, dict)
    jsonschema.Draft202012Validator(json.loads(call("schema", "compare").stdout)).validate(document)
    return document


def test_the_sessions_of_a_label_are_two_sides(place: Path) -> None:
    document = compared(place, "--by", "operator")
    assert document["schema"] == "multitracer.compare/1"
    assert document["sides"] == [{"name": "operator a", "sessions": 6}, {"name": "operator b", "sessions": 6}]
    of = {each["name"]: each for each in document["quantities"]}
    assert of["throughput"]["sessions"] == [6, 6]
    assert of["throughput"]["difference_is"] == "relative"
    assert of["throughput"]["low"] <= of["throughput"]["value"] <= of["throughput"]["high"]
    assert not any(each["shown"] for each in document["quantities"])


def test_the_answer_comes_first_and_claims_nothing_of_sessions_that_are_alike(place: Path) -> None:
    lines = call("compare", place, "--by", "operator=b,a").stdout.splitlines()
    assert re.match(r"These \d+ sessions neither show nor|operator a and operator b do not differ", lines[0])
    assert "operator b: 6 sessions" in lines


def test_python_gives_what_the_command_prints(place: Path) -> None:
    document = compared(place, "--by", "operator")
    of = mt.compare(mt.open_campaign(place), by="operator")
    assert of.headline == document["headline"]
    assert of.notes == document["notes"]
    assert of.sides == {"operator a": 6, "operator b": 6}
    table = of.table.set_index("name")
    for each in document["quantities"]:
        row = table.loc[each["name"]]
        assert [row["first_mean"], row["second_mean"]] == each["means"]
        assert (row["unit"], row["shown"]) == (each["unit"], each["shown"])
    assert table.loc["throughput", "unit"] == "bit/s"
    assert set(of.table.attrs["columns"]) == set(of.table.columns)
    assert "<th>mean, operator a</th>" in of._repr_html_()
    assert re.search(r"<td>throughput</td><td>[\d.]+ .?bit/s</td>", of._repr_html_()), "with its unit"


def test_python_takes_what_the_command_takes(place: Path) -> None:
    with pytest.raises(mt.MultiTracerError, match="one campaign or folder and by=LABEL"):
        mt.compare(place)
    with pytest.raises(mt.MultiTracerError, match="both inputs are the same"):
        mt.compare(mt.open_campaign(place), place)


def test_two_folders_are_analysed_and_compared(tmp_path: Path) -> None:
    for name, first in (("before", 0), ("after", 3)):
        for number in range(first, first + 2):
            make_session(tmp_path / name / f"drive{number}", number, segments=200 if first else 5)
    document = compared(tmp_path / "before", tmp_path / "after")
    assert [each["sessions"] for each in document["sides"]] == [2, 2]
    assert document["headline"] == (
        "Whether after's goodput of transfers differs from before's cannot be told: it needs 6 sessions per side, and "
        "one side has 2."
    )


def test_transfers_that_take_less_time_are_faster_whatever_else_was_recorded(tmp_path: Path) -> None:
    """After the change no segment is lost, but the capture goes on: its seconds are slower on average."""
    for name, first, lost in (("before", 0, 10), ("after", 20, 0)):
        for number in range(first, first + 7):
            start_ns = START_NS + number * HOUR_NS
            transfer = Conversation(start_ns=start_ns, segments=20 + number % 3, lost=tuple(range(lost)))
            rest = Conversation(sport=40001, start_ns=start_ns + 20_000 * MS, segments=1, handshake=False)
            folder = make_session(tmp_path / name / f"day{number}", number)
            write_conversations(folder / "phone" / "capture.pcap", transfer, *([] if lost else [rest]))
    document = compared(tmp_path / "before", tmp_path / "after", "--fail-if", "completion < -20%", status=3)
    assert re.fullmatch(
        r"after's transfers are \d+ % \(\d+ to \d+ %\) faster than before's(, and .*)?\. after's transfers take \d+ % "
        r"\(\d+ to \d+ %\) less time\. after's throughput over the whole measurement is \d+ % \(.*\) lower\.( .*)?",
        document["headline"],
    ), document["headline"]
    assert any(each.startswith("after: 7 of 14 transfers are complete") for each in document["notes"])
    rows = {each["name"]: each for each in document["quantities"]}
    assert next(iter(rows)) == "goodput of transfers"
    assert rows["completion time"]["value"] == document["conditions"][0]["value"]


def test_without_transfers_two_operators_are_compared_by_the_radio_at_the_same_places(tmp_path: Path) -> None:
    """Each drives 1.8 km in two minutes; in the last quarter operator b has a weak signal."""
    for number in range(14):
        host = tmp_path / "drives" / f"day{number}" / "phone"
        host.mkdir(parents=True)
        is_b = number % 2
        rows = ["time_ns,source,role,rat,rsrp_dbm,cell_id"]
        track = []
        for second in range(120):
            time_ns = START_NS + number * 24 * HOUR_NS + second * 1000 * MS
            at = second // 30
            level = -90 - 4 * at - (5 + 6 * (at == 3)) * is_b - number % 3
            rows.append(f"{time_ns},scat,serving,LTE,{level},7")
            stamp = datetime.fromtimestamp(time_ns / 1e9, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
            track.append(f'<trkpt lat="{52 + second * 15 / 111_195:.6f}" lon="13.4"><time>{stamp}</time></trkpt>')
        (host / "radio.csv").write_text("\n".join(rows) + "\n")
        (host / "track.gpx").write_text(f"<gpx><trk><trkseg>{''.join(track)}</trkseg></trk></gpx>")
        variables = Variables(more={"operator": "ab"[is_b]})
        write_manifest(host.parent, Manifest(f"day {number}", hosts={"phone": Host()}, variables=variables))
    run([str(tmp_path / "drives")], tmp_path / "campaign")
    page = tmp_path / "operators.html"
    printed = call("compare", tmp_path / "campaign", "--by", "operator", "-o", page).stdout
    assert "matched difference" in printed
    assert 'data-name="matched difference"' in page.read_text("utf-8"), "a card on a phone"
    document = compared(tmp_path / "campaign", "--by", "operator", "--fail-if", "rsrp.median < -3dB", status=3)
    assert re.fullmatch(
        r"operator b's RSRP is 6\.\d dB \(\d\.\d to \d\.\d dB\) lower than operator a's at the same places\. "
        r"operator b has a weak signal in 2\d \(\d+ to \d+\) more of 100 seconds\.",
        document["headline"],
    ), document["headline"]
    assert document["matched_by"] == "place and hour"
    (rsrp,) = [each for each in document["quantities"] if each["name"] == "RSRP"]
    assert (rsrp["unit"], rsrp["difference_is"]) == ("dBm", "absolute")
    call("compare", tmp_path / "campaign", "--by", "operator", "-o", tmp_path / "page.html")
    assert "<td>RSRP</td>" in (tmp_path / "page.html").read_text("utf-8"), "though it has no distribution"
    assert rsrp["value"] == document["conditions"][0]["value"] == pytest.approx(-6.9, abs=0.3)


def test_a_side_without_a_complete_transfer_says_why_it_has_no_goodput() -> None:
    traces = Path(__file__).parents[2] / "sample_traces"
    why = "no transfer of damaged is complete, captured from the handshake to both FINs"
    bounds = "--fail-if", "goodput < 1kbit/s", "--fail-if", "completion.p95 > +10%"
    document = compared(traces / "download", traces / "damaged", *bounds, status=4)
    assert (
        "damaged: none of 1 transfer is complete, captured from the handshake to both FINs; "
        "goodput and completion time are not known"
    ) in document["notes"]
    assert [each["reason"] for each in document["conditions"]] == [why, why]


def test_of_two_sessions_nothing_is_claimed(tmp_path: Path) -> None:
    sessions = [make_session(tmp_path / name, number) for number, name in enumerate(("one", "two"))]
    document = compared(*sessions)
    assert "it needs 6 sessions per side, and one side has 1" in document["headline"]
    assert "%" not in document["headline"]
    assert not any(each["shown"] for each in document["quantities"])


def test_the_page_is_one_safe_file(place: Path, tmp_path: Path) -> None:
    call("compare", place, "--by", "operator", "-o", tmp_path / "page.html")
    page = (tmp_path / "page.html").read_text("utf-8")
    assert "default-src 'none'" in page
    assert page.count("</title><path d=") == 4  # both distributions of both sides
    assert "operator a" in page
    assert "http" not in page.replace("http-equiv", "")


def test_a_name_is_text_on_the_page(tmp_path: Path) -> None:
    evil = "<script>alert(1)</script>"
    sessions = [make_session(tmp_path / name.replace("/", "_"), 0 if name == "x" else 1) for name in ("x", evil)]
    call("compare", *sessions, "-o", tmp_path / "page.html")
    assert "<script>alert" not in (tmp_path / "page.html").read_text("utf-8")


@pytest.fixture(scope="module")
def places(place: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Return the campaign, and places that it cannot be compared with."""
    folder = tmp_path_factory.mktemp("places")
    (folder / "empty").mkdir()
    (folder / "broken").mkdir()
    (folder / "broken" / "capture.pcap").write_bytes(b"\xd4\xc3\xb2\xa1" + b"\x01" * 9)
    run([str(place.parent / "drives" / "car0")], folder / "copy")
    run([str(place.parent / "drives" / "car1")], folder / "newer")
    newest = max((folder / "newer" / "snapshots").iterdir())
    newest.write_text(newest.read_text().replace('"version": 1', '"version": 9'))
    return {"place": place} | {each: folder / each for each in ("empty", "gone", "broken", "copy", "newer")}


@pytest.mark.parametrize(
    ("args", "sentence"),
    [
        (("{place}", "{place}"), "both inputs are the same; name two different inputs"),
        (("{place}", "--by", "colour"), "no session has a label 'colour'; the labels are operator"),
        (("{place}", "--by", "operator=a,c"), "no session has operator 'c'; the values are a, b"),
        (("{place}", "--by", "operator=a"), "operator has 2 values: a, b; choose two with --by operator=A,B"),
        (("{place}", "{copy}"), "both sides contain"),
        (("{place}", "{empty}"), "no session found; name a folder with captures or logs"),
        (("{place}", "{gone}"), "gone"),
        (("{place}", "{broken}"), "no session that can be compared: "),
        (("{place}", "{newer}"), "newer"),
    ],
)
def test_what_cannot_be_compared_is_one_sentence(args: tuple[str, ...], sentence: str, places: dict[str, Path]) -> None:
    done = call("compare", *(each.format(**places) for each in args), status=1)
    assert sentence in done.stderr


def test_one_side_without_a_label_is_wrong_usage(place: Path) -> None:
    call("compare", place, status=2)
    call("compare", place, place, "--by", "operator", status=2)


def test_the_next_comparison_removes_the_folder_of_a_killed_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sides = [make_session(tmp_path / name, number).parent for number, name in enumerate(("a/0", "b/0"))]
    temporary = tmp_path / "tmp"
    temporary.mkdir()
    environment = os.environ | {"TMPDIR": str(temporary), "PYTHONUNBUFFERED": "1"}
    child = subprocess.Popen([sys.executable, "-m", "multitracer", "compare", *map(str, sides)], env=environment)
    while not any(each.is_dir() for each in temporary.iterdir()) and child.poll() is None:
        time.sleep(0.001)  # Python first tries the folder with a file
    child.kill()
    assert child.wait() == -signal.SIGKILL
    (left,) = (each for each in temporary.iterdir() if each.is_dir())
    os.utime(left, (0, 0))  # a folder of less than a minute may belong to a program that just begins
    monkeypatch.setattr(tempfile, "tempdir", str(temporary))
    call("compare", *sides)
    assert list(temporary.iterdir()) == []
