"""The page of a campaign's report: complete, harmless, and clear where a campaign lacks something."""

from __future__ import annotations

import re
import shlex
import shutil
from typing import TYPE_CHECKING

import pytest

from multitracer.campaign import schemas
from multitracer.campaign.committer import write_part
from multitracer.campaign.run import run
from multitracer.campaign.store import Snapshot, Store, StoreGroup, write_snapshot
from tests.campaign.sessions import make_session
from tests.campaign.synthetic import make_catalogue
from tests.cli.program import call

if TYPE_CHECKING:
    from pathlib import Path

    from multitracer.tables import Row

HOSTILE = "<script>alert(1)</script>\u202e'\""
MOST_BYTES = 20_000_000


def report(campaign: Path, folder: Path, *options: str) -> str:
    done = call("campaign", "report", campaign, "-o", folder, *options)
    assert done.stdout == f"{folder / 'index.html'}\n"
    return (folder / "index.html").read_text("utf-8")


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("page")
    report(make_catalogue(folder / "drives", 6_000, length_s=150), folder / "report")
    return folder / "report" / "index.html"


def test_a_page_is_small_and_loads_nothing(page: Path) -> None:
    text = page.read_text("utf-8")
    assert len(text) < MOST_BYTES
    assert "default-src 'none'" in text
    assert not re.search(r'(?:src|href)="(?!reports/)', text)
    headings = re.findall("<h2>(.*?)</h2>", text)
    assert headings == [
        "How good is it?", "Where is it bad?", "Which cells, hours and devices?", "Why?",
        "The worst stretches", "Trend over days", "How it was counted",
    ]  # fmt: skip


def test_a_stretch_without_a_report_has_the_command_that_makes_it(page: Path) -> None:
    command = re.search(r"<code>(multitracer report .*?)</code>", page.read_text("utf-8"))
    assert command is not None
    assert "&lt;b&gt;" in command[1], "the path of a session is text"
    words = shlex.split(command[1].replace("&lt;", "<").replace("&gt;", ">").replace("&#x27;", "'"))
    assert words[3].startswith(str(page.parent / "reports" / "drive-"))
    assert words[4].startswith("/drives/<b>")


# --- what a campaign lacks ---


def test_one_session_without_positions_and_radio_explains_each_empty_part(tmp_path: Path) -> None:
    run([str(make_session(tmp_path / "drive", segments=5))], tmp_path / "campaign")
    text = report(tmp_path / "campaign", tmp_path / "report")
    for sentence in (
        "no session has positions",
        "no session has a log of the radio",
        "No trend: all seconds are from the same day",
        "All sessions have the same technology, hosts and labels.",
        "1 session, but no second can be judged as good or bad",
        "Not known: no second of the recordings can be judged.",
    ):
        assert sentence in text
    assert "<canvas" not in text
    assert "What could not be read" not in text


def test_an_empty_campaign_explains_each_empty_part(tmp_path: Path) -> None:
    (tmp_path / "logs").mkdir()
    run([str(tmp_path / "logs")], tmp_path / "campaign")
    text = report(tmp_path / "campaign", tmp_path / "report")
    for sentence in (
        "The campaign has no session: `campaign run` has found none.",
        "the throughput is unknown in every second",
        "no second has an RTT sample",
        "no transfer could be explained",
        "the campaign has no complete second",
    ):
        assert sentence in text
    assert "Nowhere" not in text, "where nothing can be judged nothing is known to be good"


def test_a_campaign_of_failures_says_why_each_input_could_not_be_read(tmp_path: Path) -> None:
    for number in range(2):
        session = make_session(tmp_path / "logs" / f"day{number}", number)
        (session / "phone" / "capture.pcap").write_bytes(b"\0" * 100)
    run([str(tmp_path / "logs")], tmp_path / "campaign")
    text = report(tmp_path / "campaign", tmp_path / "report")
    assert "The campaign has no session: 2 inputs could not be read." in text
    for number in range(2):
        assert f"<li>{tmp_path / 'logs' / f'day{number}'}: " in text


def test_hostile_text_is_shown_and_not_run(tmp_path: Path) -> None:
    store = Store(tmp_path / "campaign")
    store.make()
    session = {"session": HOSTILE, "name": HOSTILE, "path": HOSTILE, "hosts": HOSTILE}
    sessions = [{**session, "session": f"{HOSTILE}{n}", "labels": [(HOSTILE, f"{HOSTILE}{n % 2}")]} for n in range(4)]
    seconds = [
        {
            "session": f"{HOSTILE}{n % 4}", "time_ns": (n // 4) * 10**9,
            "throughput_bps": 1e6 if n < 60 else 1.0, "limited_by": HOSTILE,
            "rat": f"{HOSTILE}{n % 4}", "plmn": HOSTILE, "cell_id": 1, "lat_deg": 50.0, "lon_deg": 14.0,
        }
        for n in range(80)
    ]  # fmt: skip
    finding = {"session": f"{HOSTILE}0", "kind": HOSTILE, "sentence": HOSTILE, "cost_s": 1.0}
    rows: dict[str, list[Row]] = {"sessions": sessions, "seconds": seconds, "findings": [finding]}
    parts = {name: write_part(store, name, schemas.of_rows(name, each)) for name, each in rows.items()}
    write_snapshot(store, Snapshot(1, (StoreGroup(1, parts),)))
    text = report(tmp_path / "campaign", tmp_path / "report")
    assert "alert(1)" in text
    assert "<script>alert" not in text
    assert "\u202e" not in text
    assert text.count("<td>&lt;script&gt;") >= 6


# --- reports of sessions ---


@pytest.mark.slow
def test_with_reports_each_stretch_leads_to_the_report_of_its_session(tmp_path: Path, sample_drive: Path) -> None:
    drive = shutil.copytree(sample_drive, tmp_path / "a drive & more")
    run([str(drive)], tmp_path / "campaign")
    text = report(tmp_path / "campaign", tmp_path / "report", "--with-reports")
    links = set(re.findall(r'href="(reports/[^"]*)"', text))
    assert links
    for link in links:
        assert "<h1>" in (tmp_path / "report" / link).read_text("utf-8")
    (drive / "manifest.json").unlink()
    done = call("campaign", "report", tmp_path / "campaign", "-o", tmp_path / "second", "--with-reports")
    assert "the session has changed since the last `campaign run`" in done.stderr
    assert "the session has changed since the last `campaign run`" in (tmp_path / "second" / "index.html").read_text(
        "utf-8"
    )


@pytest.fixture
def sample_drive(sample_session: Path) -> Path:
    return sample_session.parent / "rehearsed-drive"


def test_a_folder_inside_the_campaign_is_refused(tmp_path: Path) -> None:
    (tmp_path / "logs").mkdir()
    run([str(tmp_path / "logs")], tmp_path / "campaign")
    for folder in (tmp_path / "campaign", tmp_path / "campaign" / "parts" / "report"):
        done = call("campaign", "report", tmp_path / "campaign", "-o", folder, status=1)
        assert "this folder is inside the campaign; choose a folder outside the campaign" in done.stderr


def test_what_is_no_campaign_is_refused(tmp_path: Path) -> None:
    done = call("campaign", "report", tmp_path, "-o", tmp_path / "report", status=1)
    assert "this folder contains no campaign" in done.stderr
    assert not (tmp_path / "report").exists()


def test_a_link_to_another_folder_is_refused(tmp_path: Path) -> None:
    (tmp_path / "logs").mkdir()
    run([str(tmp_path / "logs")], tmp_path / "campaign")
    (tmp_path / "elsewhere" / "mine").mkdir(parents=True)
    link = tmp_path / "report"
    link.symlink_to(tmp_path / "elsewhere" / "mine")
    assert "this is a link to" in call("campaign", "report", tmp_path / "campaign", "-o", link, status=1).stderr
    assert list((tmp_path / "elsewhere" / "mine").iterdir()) == []
