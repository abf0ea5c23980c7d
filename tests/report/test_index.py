"""The page that lists several reports: file names that lead nowhere, and columns that find the slow one."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from multitracer.recording.read import read
from multitracer.report.index import HEADS, Input, file_name, write_reports
from tests.conftest import SAMPLES
from tests.report.test_markup import parsed

if TYPE_CHECKING:
    from pathlib import Path

    from tests.report.chromium import Browser


@pytest.mark.parametrize(
    ("title", "name"),
    [
        ("traces/up.pcap", "up.pcap.html"),
        ("../../etc/passwd", "passwd.html"),
        ("..", "report.html"),
        ("C:\\traces\\a b.pcap", "a-b.pcap.html"),
        ("-", "report.html"),
        (".hidden", "hidden.html"),
        ("Größe.pcap", "Gr-e.pcap.html"),
        ("folder/", "folder.html"),
        ("index", "index-2.html"),
        ('"><script>alert(1)</script>', "script.html"),
    ],
)
def test_a_report_is_named_after_its_input(title: str, name: str) -> None:
    assert file_name(title, set()) == name


@given(st.lists(st.text(max_size=120), max_size=30))
def test_any_names_give_different_plain_names(titles: list[str]) -> None:
    taken: set[str] = set()
    names = [file_name(title, taken) for title in titles]
    assert len({name.lower() for name in names}) == len(names)
    assert all(re.fullmatch(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,90}\.html", name) for name in names)
    assert "index.html" not in names


def test_inputs_of_one_name_get_a_number() -> None:
    taken: set[str] = set()
    assert [file_name(f"{folder}/tcp.pcap", taken) for folder in "abc"] == [
        "tcp.pcap.html",
        "tcp.pcap-2.html",
        "tcp.pcap-3.html",
    ]


@pytest.fixture(scope="module")
def index(tmp_path_factory: pytest.TempPathFactory) -> Path:
    names = ("download", "fig4-slow-start", "rehearsal")
    inputs = [Input(name, read(SAMPLES / name)) for name in names]
    return write_reports(inputs, tmp_path_factory.mktemp("several") / "out")


def test_the_slowest_report_comes_first_and_what_has_no_rate_last(index: Path) -> None:
    links = re.findall(r'href="([^"]*)"', index.read_text("utf-8"))
    assert links == ["fig4-slow-start.html", "download.html", "rehearsal.html"]


def test_iperf3_is_sorted_by_its_data_and_not_by_the_connection_that_controls_it(tmp_path: Path) -> None:
    names = ("load/lo.pcap.gz", "fig4-slow-start")
    inputs = [Input(name, read(SAMPLES / name)) for name in names]
    page = write_reports(inputs, tmp_path / "out").read_text("utf-8")
    assert re.findall(r'href="([^"]*)"', page) == ["fig4-slow-start.html", "lo.pcap.gz.html"]
    assert re.search(r'title="of connection [23]"[^>]*>1(\.\d+)? Mbit/s', page)


def test_a_row_tells_limit_rate_delay_loss_and_where(index: Path) -> None:
    page = index.read_text("utf-8")
    row = page[page.index("fig4-slow-start.html") :]
    row = row[: row.index("</tr>")]
    said = parsed(f"<tr><td>{row}</tr>").text
    assert re.search(r"link \d+ %", said)
    assert "kbit/s" in said
    assert "→" in said
    assert 'class="spark"' in row
    cells = dict(re.findall(r'data-name="([^"]+)"[^>]*>([^<]*)', row))
    assert (cells["Utilization"], cells["Link limit"], cells["Efficiency"]) == ("70.9 %", "70.8 %", "100.0 %")
    assert row.count("<td") == len(HEADS) - 1
    assert "<td></td>" not in row


def test_a_column_of_which_no_report_knows_anything_is_left_out(index: Path, tmp_path: Path) -> None:
    alone = write_reports([Input("a", read(SAMPLES / "fig4-slow-start"))], tmp_path / "alone")
    heads = [re.findall(r'<th scope="col"[^>]*><button type="button">([^<]*)', page.read_text("utf-8"))
             for page in (index, alone)]  # fmt: skip
    assert heads[0] == [name for name, _ in HEADS]
    assert set(heads[0]) - set(heads[1]) == {"Radio", "Place"}


@pytest.mark.browser
def test_a_desktop_shows_every_column_and_whole_labels(browser: Browser, tmp_path: Path) -> None:
    """The trust lay behind the edge, and a label ended in the middle of a letter."""
    names = ("download", "cellular_upload", "rehearsed-drive", "rehearsal")
    page = write_reports([Input(name, read(SAMPLES / name)) for name in names], tmp_path)
    browser.resize(1280, 900)
    browser.open(page)
    wide, room = browser.evaluate(
        "(() => {const s = document.querySelector('.scroll'); return [s.scrollWidth, s.clientWidth]})()"
    )
    assert wide <= room


@pytest.mark.browser
def test_what_is_missing_comes_last_in_either_order(browser: Browser, index: Path) -> None:
    browser.open(index)
    goodput = [name for name, _ in HEADS].index("Goodput")
    names = "[...document.querySelectorAll('tbody a')].map((a) => a.textContent)"
    for expected in (["download", "fig4-slow-start"], ["fig4-slow-start", "download"]):
        browser.evaluate(f"document.querySelectorAll('th button')[{goodput}].click()")
        assert browser.evaluate(names) == [*expected, "rehearsal"]
    assert browser.complaints == []
