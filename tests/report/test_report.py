"""A whole report, from a real capture to what a reader sees, and from a hostile one to what nobody should."""

from __future__ import annotations

import hashlib
import os
import re
import stat
import struct
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from multitracer.errors import InputError
from multitracer.recording.read import read
from multitracer.report.index import Input, write_reports
from multitracer.report.write import FIRST_BYTES, FURTHER_BYTES, Request, write_report
from tests.report.test_markup import parsed

if TYPE_CHECKING:
    from multitracer.recording.recording import Recording
    from tests.report.chromium import Browser

SAMPLE = Path(__file__).parents[2] / "sample_traces" / "cellular_upload"
MOBILE = SAMPLE / "mobile" / "tcp-0.pcap.gz"


@pytest.fixture(scope="module")
def mobile() -> Recording:
    return read(MOBILE)


@pytest.fixture(scope="module")
def report(mobile: Recording, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("report") / "report.html"
    noted = replace(mobile, notes=["a note"])
    write_report(noted, path, Request(command="multitracer report tcp-0.pcap.gz"))
    return path


def text_of(path: Path) -> str:
    """Return what a reader sees without the scripts."""
    return parsed(re.sub(r"<(script|style)\b.*?</\1>", "", path.read_text("utf-8"), flags=re.DOTALL)).text


def test_the_report_says_in_a_sentence_what_happened(report: Path) -> None:
    said = text_of(report)
    assert re.search(
        r"10\.0\.3\.2:\d+ sent 6\.0 MB to 10\.0\.1\.2:5001 in 27\.?\d? s \(1\.\d+ Mbit/s acknowledged\); "
        r"[12]\.\d+ % of it sent more than once; median RTT \d+ ms, worst 2\.\d+ s at 18\.\d s\.",
        said,
    )


def test_trust_comes_before_all_numbers(report: Path) -> None:
    said = text_of(report)
    assert said.index("Trust:") < said.index("Summary") < said.index("TCP connections") < said.index("comes from")


def test_the_report_says_where_it_comes_from(report: Path) -> None:
    said = text_of(report)
    assert hashlib.sha256(MOBILE.read_bytes()).hexdigest() in said
    assert "6,766 packets" in said
    assert "multitracer report tcp-0.pcap.gz" in said
    assert "a note" in said


def test_a_report_has_the_size_that_a_mail_takes(report: Path) -> None:
    assert report.stat().st_size < 2_000_000
    assert FIRST_BYTES + FURTHER_BYTES < 27_000_000


def test_a_part_of_the_time_is_drawn_in_full_detail(mobile: Recording, report: Path, tmp_path: Path) -> None:
    begin = mobile.captures[0].tables.first_ns or 0
    second = 10**9
    write_report(mobile, tmp_path / "cut.html", Request(from_ns=begin + 17 * second, to_ns=begin + 20 * second))
    assert (tmp_path / "cut.html").stat().st_size < report.stat().st_size
    assert re.search(r'"span":\[17\.\d+,(19\.\d+|20\.0)\]', (tmp_path / "cut.html").read_text("utf-8"))


def test_another_connection_can_be_asked_for(mobile: Recording, tmp_path: Path) -> None:
    write_report(mobile, tmp_path / "two.html", Request(connection=2))
    assert "Its number in the table below, which has all of them, is 2" in text_of(tmp_path / "two.html")


def test_a_connection_that_is_not_there_is_an_error(mobile: Recording, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no connection 4"):
        write_report(mobile, tmp_path / "four.html", Request(connection=4))
    assert list(tmp_path.iterdir()) == []


def test_a_place_that_cannot_be_written_is_an_error(mobile: Recording, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="cannot write this file"):
        write_report(mobile, tmp_path / "missing" / "report.html")


def test_what_cannot_replace_its_target_leaves_nothing_behind(mobile: Recording, tmp_path: Path) -> None:
    (tmp_path / "report.html").mkdir()
    with pytest.raises(InputError, match="this output is a folder; name a file"):
        write_report(mobile, tmp_path / "report.html")
    assert [path.name for path in tmp_path.iterdir()] == ["report.html"]


@pytest.mark.root
def test_a_device_is_written_to_and_never_replaced(mobile: Recording, tmp_path: Path) -> None:
    null, full = tmp_path / "null", tmp_path / "full"
    os.mknod(null, 0o600 | stat.S_IFCHR, os.makedev(1, 3))
    os.mknod(full, 0o600 | stat.S_IFCHR, os.makedev(1, 7))
    write_report(mobile, null)
    with pytest.raises(InputError, match="No space left"):
        write_report(mobile, full)
    assert null.is_char_device()
    assert full.is_char_device()


def test_both_ends_of_a_session_are_in_one_report(tmp_path: Path) -> None:
    write_report(read(SAMPLE), tmp_path / "both.html", Request(title="cellular_upload"))
    said = text_of(tmp_path / "both.html")
    assert "captured at mobile" in said
    assert "captured at fixed" in said
    assert "3 TCP connections at 2 capture points" in said
    assert (tmp_path / "both.html").stat().st_size < 8_000_000


def test_several_inputs_get_a_report_each_and_an_index(mobile: Recording, tmp_path: Path) -> None:
    inputs = [Input("a/up.pcap", mobile), Input("../b/up.pcap", mobile)]
    index = write_reports(inputs, tmp_path / "out")
    assert index == tmp_path / "out" / "index.html"
    assert sorted(p.name for p in (tmp_path / "out").iterdir()) == ["index.html", "up.pcap-2.html", "up.pcap.html"]
    assert re.findall(r'href="([^"]*)"', index.read_text("utf-8")) == ["up.pcap.html", "up.pcap-2.html"]
    assert index.stat().st_size < 100_000


HOSTILE = "</script><script>window.bad = 1</script><img src=x onerror='window.bad = 2'>"


def block(kind: int, body: bytes) -> bytes:
    body += b"\0" * (-len(body) % 4)
    return struct.pack("<II", kind, len(body) + 12) + body + struct.pack("<I", len(body) + 12)


def option(code: int, value: bytes) -> bytes:
    return struct.pack("<HH", code, len(value)) + value + b"\0" * (-len(value) % 4)


def hostile_capture(packet: bytes) -> bytes:
    """Return a pcapng file of raw IP whose every text is HTML."""
    text = HOSTILE.encode()
    section = struct.pack("<IHHq", 0x1A2B3C4D, 1, 0, -1) + option(1, text) + option(4, text) + b"\0" * 4
    interface = struct.pack("<HHI", 101, 0, 0) + option(2, text) + option(11, b"\0" + text) + b"\0" * 4
    enhanced = struct.pack("<IIIII", 0, 0, 1_000_000, len(packet), len(packet)) + packet
    return block(0x0A0D0D0A, section) + block(1, interface) + block(6, enhanced)


def syn() -> bytes:
    ip = struct.pack(">BBHHHBBH4s4s", 0x45, 0, 40, 1, 0, 64, 6, 0, bytes([10, 0, 0, 1]), bytes([10, 0, 0, 2]))
    return ip + struct.pack(">HHIIBBHHH", 1, 2, 0, 0, 0x50, 2, 1024, 0, 0)


@pytest.fixture
def hostile(tmp_path: Path) -> Path:
    name = HOSTILE.replace("/", "\u2215") + "\u202e\x1b[31m.pcapng"
    (tmp_path / name).write_bytes(hostile_capture(syn()))
    return tmp_path / name


def test_what_a_capture_says_of_itself_is_only_text(hostile: Path, tmp_path: Path) -> None:
    write_report(read(hostile), tmp_path / "r.html", Request(title=hostile.name, command=str(hostile)))
    html = (tmp_path / "r.html").read_text("utf-8")
    assert HOSTILE not in html
    tags = parsed(html).tags
    assert tags.count("script") == 2  # the data, and our own
    assert "img" not in tags
    assert HOSTILE in text_of(tmp_path / "r.html")
    assert "\x1b" not in html
    assert "\u202e" not in html


def test_a_file_name_that_is_no_text_is_shown_escaped(mobile: Recording, tmp_path: Path) -> None:
    write_report(mobile, tmp_path / "r.html", Request(title="up\udcff.pcap"))
    assert r"up\udcff.pcap" in text_of(tmp_path / "r.html")


def test_a_capture_without_tcp_has_a_report_too(tmp_path: Path) -> None:
    udp = syn()[:9] + b"\x11" + syn()[10:20] + struct.pack(">HHHH", 1, 2, 8, 0)
    (tmp_path / "udp.pcapng").write_bytes(hostile_capture(udp))
    write_report(read(tmp_path / "udp.pcapng"), tmp_path / "udp.html")
    said = text_of(tmp_path / "udp.html")
    assert "There is no TCP connection in this capture." in said
    assert (tmp_path / "udp.html").stat().st_size < 300_000  # nothing to draw


@pytest.mark.browser
def test_a_hostile_report_runs_nothing_and_fetches_nothing(browser: Browser, hostile: Path, tmp_path: Path) -> None:
    write_report(read(hostile), tmp_path / "r.html", Request(title=hostile.name))
    browser.open(tmp_path / "r.html")
    browser.evaluate("window.report.then(() => true)")
    assert browser.evaluate("window.bad") is None
    assert browser.complaints == []
    assert {r for r in browser.requests if not r.startswith(("data:", "blob:"))} == {(tmp_path / "r.html").as_uri()}


def numbers(browser: Browser) -> list[str]:
    return browser.evaluate("[...document.querySelectorAll('tr[data-figure]')].map((r) => r.cells[0].textContent)")


@pytest.mark.browser
@pytest.mark.parametrize("width", [1400, 1000])
def test_the_button_of_each_connection_is_seen_at_every_width(browser: Browser, report: Path, width: int) -> None:
    browser.resize(width, 900)
    browser.open(report)
    seen, ends = browser.evaluate(
        "[document.querySelector('.scroll').getBoundingClientRect().right, "
        "[...document.querySelectorAll('tr[data-figure] td:last-child button')]"
        ".map((b) => b.getBoundingClientRect().right)]"
    )
    assert ends
    assert max(ends) <= seen


@pytest.mark.browser
def test_the_table_sorts_filters_and_shows_a_figure(browser: Browser, report: Path) -> None:
    browser.open(report)
    browser.evaluate("window.report.then(() => true)")
    assert numbers(browser) == ["1", "2", "3"]
    browser.evaluate("document.querySelectorAll('th button')[6].click()")  # bytes back
    assert browser.evaluate("document.querySelectorAll('th')[6].ariaSort") == "descending"
    assert numbers(browser)[-1] == "1"
    box = "document.getElementById('filter')"
    browser.evaluate(f"{box}.value = '43648'; {box}.dispatchEvent(new Event('input'))")
    assert browser.evaluate("document.getElementById('filter-told').textContent") == "1 of 3 rows match"
    browser.evaluate("document.querySelector('tbody tr:not([hidden]) button').click()")
    assert browser.evaluate("document.querySelector('tr.current').cells[0].textContent") == "3"
    chosen = browser.evaluate("document.querySelector('select').selectedOptions[0].text")
    assert "10.0.1.2:5001 → 10.0.3.2:43648" in chosen
    assert browser.complaints == []


@pytest.mark.browser
def test_on_paper_the_figure_is_light_and_fits(browser: Browser, report: Path) -> None:
    browser.prefer("dark")
    browser.open(report)
    browser.evaluate("window.report.then(() => true)")
    browser.evaluate("window.dispatchEvent(new Event('beforeprint'))")
    browser.wait("document.querySelector('.plot canvas').clientWidth === 680")
    corner = "document.querySelector('.plot canvas').getContext('2d').getImageData(0, 0, 1, 1).data"
    assert browser.evaluate(f"[...{corner}]") == [255, 255, 255, 255]
    browser.evaluate("window.dispatchEvent(new Event('afterprint'))")
    browser.wait("document.querySelector('.plot canvas').clientWidth > 900")


CONTRASTS = """(() => {
  const channel = (v) => ((v /= 255) <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4);
  const light = (colour) => {
    const [r, g, b] = colour.match(/[\\d.]+/g).map(Number);
    return 0.2126 * channel(r) + 0.7152 * channel(g) + 0.0722 * channel(b);
  };
  const ground = (element) => {
    const colour = element ? getComputedStyle(element).backgroundColor : "rgb(255, 255, 255)";
    return /, 0\\)$/.test(colour) ? ground(element.parentElement) : colour;
  };
  const ratio = (element) => {
    const pair = [light(getComputedStyle(element).color), light(ground(element))].sort((x, y) => x - y);
    return (pair[1] + 0.05) / (pair[0] + 0.05);
  };
  return [...document.querySelectorAll("h1, h2, p, th, td, dt, dd, small, button, summary, a, code, span")]
    .filter((element) => element.textContent.trim() && element.offsetParent && !element.closest(".plot"))
    .map((element) => [element.textContent.slice(0, 30), ratio(element)]);
})()"""


@pytest.mark.browser
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_keeps_a_contrast_of_four_and_a_half_to_one(browser: Browser, report: Path, scheme: str) -> None:
    browser.prefer(scheme)
    browser.open(report)
    found = browser.evaluate(CONTRASTS)
    assert len(found) > 100
    assert [each for each in found if each[1] < 4.5] == []


def test_a_nameless_recording_has_a_title_and_a_policy(mobile: Recording, tmp_path: Path) -> None:
    write_report(mobile, tmp_path / "r.html", Request(title=" "))
    text = (tmp_path / "r.html").read_text("utf-8")
    assert "<title>tcp-0.pcap.gz</title>" in text
    assert "<title> </title>" not in text
    assert re.search(r"Content-Security-Policy\" content=\"default-src 'none'; script-src 'sha256-", text)
