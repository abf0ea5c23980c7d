"""Load programs as people run them: UDP, both ways, lists, cut files and text; what a user sees."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

import parsers
from parsers import iperf3
from tests.cli.program import call
from tests.narrowed import parsed

if TYPE_CHECKING:
    from pathlib import Path

ENDS = {"local_host": "fd00::1", "local_port": 9, "remote_host": "fd00::2", "remote_port": 5201}
OPTIONS = {"protocol": "UDP", "blksize": 1000}
START: dict[str, Any] = {
    "connected": [{"socket": 5, **ENDS}],
    "cookie": "x", "timestamp": {"timesecs": 1770113472}, "test_start": OPTIONS,
}  # fmt: skip


def udp_test(*, reverse: bool = False) -> dict[str, Any]:
    """Return a test in which 1,000 datagrams of 1,000 bytes were sent, and 250 lost."""
    own = {"socket": 5, "seconds": 1.0, "bits_per_second": 4e6, "sender": not reverse}
    seen = {"jitter_ms": 0.5, "lost_packets": 125, "packets": 500} if reverse else {"packets": 500}
    size = 375_000 if reverse else 500_000
    intervals = [{"streams": [{**own, "start": n, "end": n + 1, "bytes": size, **seen}]} for n in range(2)]
    end = {
        **own, "start": 0, "end": 2, "seconds": 2.0, "bytes": 1_000_000, "jitter_ms": 0.5,
        "lost_packets": 250, "packets": 1000, "lost_percent": 25.0,
    }  # fmt: skip
    start = {**START, "test_start": {**OPTIONS, "reverse": int(reverse)}}
    return {"start": start, "intervals": intervals, "end": {"streams": [{"udp": end}]}}


@pytest.mark.parametrize("reverse", [False, True])
def test_udp_tells_what_was_received_and_lost_and_the_jitter(tmp_path: Path, reverse: bool) -> None:
    (tmp_path / "udp.json").write_text(json.dumps(udp_test(reverse=reverse)))
    shown = call("inspect", str(tmp_path / "udp.json")).stdout
    assert "1,000,000      750,000" in shown
    assert "250 of 1,000 (25.0 %)  500 µs" in shown
    rates = parsed(iperf3.FORMAT, json.dumps(udp_test(reverse=reverse)).encode())["application_rate"]
    assert rates["packets"].tolist() == [500, 500]
    assert rates["lost_packets"].tolist() == ([125, 125] if reverse else [-1, -1])


def test_a_server_that_knows_nothing_of_the_sender_does_not_say_0() -> None:
    test = udp_test(reverse=True)
    test["end"]["streams"][0]["udp"]["bytes"] = 0
    sums = parsed(iperf3.FORMAT, json.dumps(test).encode())["application_sums"]
    assert [(row["reporter"], row["bytes"]) for row in sums.rows()] == [("receiver", 750_000)]


def test_lists_and_byte_order_marks_are_read() -> None:
    data = b"\xef\xbb\xbf[\n" + json.dumps(udp_test()).encode() + b",\n" + json.dumps(udp_test()).encode() + b"]\n"
    assert parsers.recognise(data[:4096], path="x").name == "iperf3"
    assert parsed(iperf3.FORMAT, data)["application_sums"].provenance["tests"] == 2


def test_nan_is_a_missing_value() -> None:
    data = json.dumps(udp_test(reverse=True)).replace('"jitter_ms": 0.5', '"jitter_ms": -nan').encode()
    sums = parsed(iperf3.FORMAT, data)["application_sums"]
    assert [row["jitter_s"] for row in sums.rows()] == [None, None]
    assert sums["bytes"].tolist() == [1_000_000, 750_000]


@pytest.mark.parametrize("share", [0.1, 0.3, 0.5, 0.7, 0.9, 0.99])
def test_a_cut_file_gives_what_it_has_or_an_error(tmp_path: Path, share: float) -> None:
    text = json.dumps(udp_test())
    (tmp_path / "cut.json").write_text(text[: int(len(text) * share)])
    status = 0 if share >= 0.7 else 1
    done = call("report", str(tmp_path / "cut.json"), "-o", str(tmp_path / "r.html"), status=status)
    if status == 0:
        assert "What the load programs counted" in (tmp_path / "r.html").read_text()
        assert "damaged: not valid JSON" in done.stderr
    else:
        assert "Error:" in done.stderr
        assert not (tmp_path / "r.html").exists()


@pytest.mark.fixtures
@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("public/sigcomm21_iperf3_udp_reverse.json", ["9,013,738,432", "1,737,579,776", "(80.6 %)", "73.6 µs"]),
        ("bidir_dupkeys.json", ["3,000,000 bytes", "2,900,000 bytes", "15,000,000 bytes", "14,900,000 bytes"]),
        ("truncated.json", ["2,000,000 bytes", "iperf3 test has no end"]),
        ("list.json", ["3,000,000 bytes", "(test 2)"]),
        ("iperf3_text.txt", ["5,117,051 bytes", "12.4 Mbit/s", "15 segments"]),
    ],
)
def test_reported_files_show_their_numbers(fixture_folder: Path, tmp_path: Path, name: str, shown: list[str]) -> None:
    path = fixture_folder / "reports" / name
    if not path.exists():
        pytest.skip("no reports")
    call("report", str(path), "-o", str(tmp_path / "r.html"))
    html = (tmp_path / "r.html").read_text()
    assert "What the load programs counted" in html
    for each in shown:
        assert each in html, each


@pytest.mark.parametrize(
    "line",
    [
        b"1738577472.100000 IP 192.0.2.2.41234 > 192.0.2.10.443: Flags [S], seq 100, win 65535, length 0\n",
        b"10:11:12.345678 eth0  Out IP6 fd00::1.443 > fd00::2.5: Flags [.], ack 1, length 0\n",
        b"IP 192.0.2.2.41234 > 192.0.2.10.53: UDP, length 12\n",
        b" 00:00:00.000120 IP (tos 0x0, ttl 64, id 1, offset 0, flags [DF], proto TCP (6), length 60)\n",
    ],
)
def test_text_of_tcpdump_is_named_with_what_to_do(tmp_path: Path, line: bytes) -> None:
    (tmp_path / "dump.txt").write_bytes(line * 3)
    said = call("inspect", str(tmp_path / "dump.txt"), status=1).stderr
    assert "text output of tcpdump, a format that cannot be read; record again: tcpdump -w out.pcap" in said


@pytest.mark.fixtures
def test_reported_results_are_read_or_one_sentence_says_what_to_do(fixture_folder: Path) -> None:
    folder = fixture_folder / "reports"
    if not folder.exists():
        pytest.skip("no reports")
    shown = call("inspect", str(folder / "ookla.json")).stdout
    assert "52,000,000" in shown
    assert "ookla ping, mean: 41.2 ms" in shown
    assert "tcp_state 5" in call("inspect", str(folder / "public" / "mlab_tcpinfo_2C20.jsonl.zst")).stdout
    for name, advice in (("tcpdump_text.txt", "tcpdump -w out.pcap"), ("nmf.nmf", "export it as CSV")):
        assert advice in call("inspect", str(folder / name), status=1).stderr
