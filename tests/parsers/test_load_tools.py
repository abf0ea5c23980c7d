"""Load programs as people run them: UDP, both ways, lists, cut files and text; what a user sees."""

from __future__ import annotations

import base64
import json
import struct
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given

import parsers
from parsers import iperf3, iperf3_text, irtt, mlab_tcp_info, ping, speedtest
from tests.cli.program import call
from tests.narrowed import parsed
from tests.parsers.damage import damaged, survives

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
    assert "250 of 1,000 (25.0%)  500 µs" in shown
    rates = parsed(iperf3.FORMAT, json.dumps(udp_test(reverse=reverse)).encode())["application_rate"]
    assert rates["packets"].tolist() == [500, 500]
    assert rates["lost_packets"].tolist() == ([125, 125] if reverse else [-1, -1])


def test_a_server_that_knows_nothing_of_the_sender_does_not_say_0() -> None:
    test = udp_test(reverse=True)
    test["end"]["streams"][0]["udp"]["bytes"] = 0
    sums = parsed(iperf3.FORMAT, json.dumps(test).encode())["application_sums"]
    assert [(row["reporter"], row["bytes"]) for row in sums.rows()] == [("receiver", 750_000)]


def test_lists_and_byte_order_marks_are_read() -> None:
    data = (
        b"\xef\xbb\xbf[\n"
        + json.dumps(udp_test()).encode()
        + b",\n"
        + json.dumps(udp_test()).encode()
        + b"]\n"
    )
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


TEXT = b"""\
Connecting to host 192.0.2.10, port 5201
Reverse mode, remote host 192.0.2.10 is sending
[  5] local fd00::2 port 41234 connected to fd00::10 port 5201
[ ID] Interval           Transfer     Bitrate         Jitter    Lost/Total Datagrams
[  5]   0.00-1.00   sec   128 KBytes  1.05 Mbits/sec  0.022 ms  3/95 (3.2%)
[  5]   1.00-2.00   sec   128 KBytes  1.05 Mbits/sec  0.020 ms  0/92 (0%)
- - - - - - - - - - - - - - - - - - - - - - - - -
[ ID] Interval           Transfer     Bitrate         Jitter    Lost/Total Datagrams
[  5]   0.00-2.04   sec   261 KBytes  1.05 Mbits/sec  0.000 ms  0/187 (0%)  sender
[  5]   0.00-2.00   sec   256 KBytes  1.05 Mbits/sec  0.020 ms  3/187 (1.6%)  receiver

iperf Done.
"""
OLD = b"""\
------------------------------------------------------------
Client connecting to 192.0.2.10, TCP port 5001
TCP window size: 85.0 KByte (default)
------------------------------------------------------------
[  3] local 192.0.2.2 port 41234 connected with 192.0.2.10 port 5001
[ ID] Interval       Transfer     Bandwidth
[  3]  0.0- 1.0 sec  1.00 MBytes  8.39 Mbits/sec
[  3]  1.0- 2.0 sec  2.00 MBytes  16.8 Mbits/sec
[  3]  0.0- 2.0 sec  3.00 MBytes  12.6 Mbits/sec
"""


def test_text_of_iperf_is_read() -> None:
    assert parsers.recognise(TEXT, path="x").name == "iperf3-text"
    tables = parsed(iperf3_text.FORMAT, TEXT)
    rates, sums = tables["application_rate"], tables["application_sums"]
    assert rates["rate_bps"].tolist() == [1.05e6, 1.05e6]
    assert (rates["lost_packets"].tolist(), set(rates["direction"])) == ([3, 0], {"received"})
    assert {row["reporter"]: row["bytes"] for row in sums.rows()} == {"sender": 267_264, "receiver": 262_144}
    assert rates["remote"][0] == "[fd00::10]:5201"
    old = parsed(iperf3_text.FORMAT, OLD)
    assert old["application_rate"]["bytes"].tolist() == [1 << 20, 2 << 20]
    assert old["application_sums"]["bytes"].tolist() == [3 << 20]


def test_a_time_in_the_text_places_its_rows() -> None:
    data = b"Time: Tue, 03 Feb 2026 10:11:12 GMT\n" + TEXT
    rates = parsed(iperf3_text.FORMAT, data)["application_rate"]
    assert rates["time_ns"].tolist() == [1_770_113_472_000_000_000, 1_770_113_473_000_000_000]


@given(data=damaged(TEXT))
def test_damaged_text_gives_tables_or_an_error(data: bytes) -> None:
    survives(iperf3_text.parse, data)


@pytest.mark.fixtures
@pytest.mark.parametrize(
    ("name", "shown"),
    [
        (
            "public/sigcomm21_iperf3_udp_reverse.json",
            ["9,013,738,432", "1,737,579,776", "(80.6%)", "73.6 µs"],
        ),
        (
            "bidir_dupkeys.json",
            ["3,000,000 bytes", "2,900,000 bytes", "15,000,000 bytes", "14,900,000 bytes"],
        ),
        ("truncated.json", ["2,000,000 bytes", "iperf3 test has no end"]),
        ("list.json", ["3,000,000 bytes", "(test 2)"]),
        ("iperf3_text.txt", ["5,117,051 bytes", "12.4 Mbit/s", "15 segments"]),
    ],
)
def test_reported_files_show_their_numbers(
    fixture_folder: Path, tmp_path: Path, name: str, shown: list[str]
) -> None:
    path = fixture_folder / "reports" / name
    if not path.exists():
        pytest.skip("no reports")
    call("report", str(path), "-o", str(tmp_path / "r.html"))
    html = (tmp_path / "r.html").read_text()
    assert "What the load programs counted" in html
    for each in shown:
        assert each in html, each


SNAPSHOT = {
    "Timestamp": "2026-02-03T10:11:12.5Z",
    "RawIDM": base64.b64encode(
        struct.pack(
            "<BBBB2s2s16s16sIQIIIII", 10, 1, 1, 0, b"\x01\xbb", b"\x9c\x40",
            bytes(10) + b"\xff\xff\x0a\0\0\1", bytes(10) + b"\xff\xff\x0a\0\0\2", 0, 77, 300, 0, 5000, 0, 12,
        )
    ).decode(),
    "Attributes": [
        None, None, base64.b64encode(bytes(24) + struct.pack("<I", 3) + bytes(200)).decode(), None,
        "Y3ViaWMA",
    ],
}  # fmt: skip


def test_snapshots_of_tcp_info_are_states_of_the_sender() -> None:
    head = b'{"Timestamp":"0001-01-01T00:00:00Z","Metadata":{"UUID":"x","Sequence":0}}\n'
    data = head + json.dumps(SNAPSHOT, separators=(",", ":")).encode() + b"\n{\n"
    assert parsers.recognise(data, path="x").name == "mlab-tcp-info"
    table = parsed(mlab_tcp_info.FORMAT, data)["tcp_state"]
    (row,) = table.rows()
    assert (row["ip_version"], row["port_local"], row["port_remote"], row["congestion_control"]) == (
        4,
        443,
        40000,
        "cubic",
    )
    assert (row["unacked_segments"], row["send_queue_bytes"], row["timer_expires_ns"]) == (
        3,
        5000,
        300_000_000,
    )
    assert row["time_ns"] == 1_770_113_472_500_000_000
    assert table.provenance["skipped"] == {"not a JSON object": 1}


PING = b"""\
PING one.one (192.0.2.1) 56(84) bytes of data.
[1770113472.123456] 64 bytes from one.one (192.0.2.1): icmp_seq=1 ttl=57 time=12.3 ms
[1770113473.123456] no answer yet for icmp_seq=2
[1770113474.200000] 64 bytes from one.one (192.0.2.1): icmp_seq=3 ttl=57 time=14.3 ms
"""


def test_ping_is_a_series_of_round_trips() -> None:
    assert parsers.recognise(PING, path="x").name == "ping"
    table = parsed(ping.FORMAT, PING)["pings"]
    assert [row["rtt_s"] for row in table.rows()] == [0.0123, None, 0.0143]
    assert table["time_ns"].tolist()[0] == 1_770_113_472_123_456_000
    assert set(table["series"]) == {"one.one"}
    plain = b"Reply from 192.0.2.1: bytes=32 time<1ms TTL=64\nRequest timed out.\n"
    assert [row["rtt_s"] for row in parsed(ping.FORMAT, plain)["pings"].rows()] == [0.001, None]


def test_irtt_is_a_series_of_round_trips() -> None:
    def trip(n: int, lost: str, **delay: int) -> dict[str, Any]:
        wall = 1_770_113_472_000_000_000 + n * 10_000_001
        return {"seqno": n, "lost": lost, "timestamps": {"client": {"send": {"wall": wall}}}, "delay": delay}

    trips = [trip(0, "false", rtt=25_000_000), trip(1, "true"), trip(2, "false", rtt=30_000_000)]
    data = json.dumps({"version": {"irtt": "0.9.1"}, "config": {}, "round_trips": trips}).encode()
    assert parsers.recognise(data, path="x").name == "irtt"
    rows = list(parsed(irtt.FORMAT, data)["pings"].rows())
    assert [row["rtt_s"] for row in rows] == [0.025, None, 0.03]
    assert rows[1]["time_ns"] == 1_770_113_472_010_000_001


def test_speedtest_cli_is_in_bits_per_second() -> None:
    result = {
        "download": 8e6, "upload": 1e6, "ping": 30.5, "server": {"host": "x"}, "bytes_sent": 1000,
        "bytes_received": 9000, "timestamp": "2026-02-03T10:11:12.5Z",
    }  # fmt: skip
    tables = parsed(speedtest.FORMAT, json.dumps(result).encode())
    assert tables["application_sums"]["rate_bps"].tolist() == [8e6, 1e6]
    assert tables["pings"]["rtt_s"].tolist() == [0.0305]


@pytest.mark.parametrize("module", [ping, irtt, speedtest, mlab_tcp_info])
@given(data=damaged(PING + json.dumps(SNAPSHOT).encode()))
def test_damaged_results_give_tables_or_an_error(module: Any, data: bytes) -> None:
    survives(module.parse, data)


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
