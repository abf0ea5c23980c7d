"""The reader of `ss -tin` loops: on what the ss of this machine prints now, and on recorded text."""

from __future__ import annotations

import io
import itertools
import shutil
import socket
import subprocess
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given

import parsers
from multitracer.protocols.sock_diag import ReadBy, TcpState, decode_tcp_info
from parsers.ss import FORMAT, parse, sniff
from tests.collectors.running import connection
from tests.parsers.damage import OneByteAtATime, damaged, rows_of, survives

if TYPE_CHECKING:
    from multitracer.tables import Table

# `ss -tinmoeOH`, iproute2 6.1, of two transfers through a lossy link
LOSSY = (
    "ESTAB 0      600920 10.0.1.1:54604 10.0.2.2:5001 timer:(on,780ms,0) ino:34286 sk:1003 "
    "cgroup:unreachable:1 <-> skmem:(r0,rb131072,t0,tb940032,f3880,w745688,o0,bl0,d0) ts sack bbr "
    "wscale:10,10 rto:784 rtt:568.235/2.491 mss:1448 pmtu:1500 rcvmss:536 advmss:1448 cwnd:161 ssthresh:140 "
    "bytes_sent:1370528 bytes_retrans:298016 bytes_acked:655489 segs_out:950 segs_in:507 data_segs_out:948 "
    "bbr:(bw:2260292592bps,mrtt:0.022,pacing_gain:1.25,cwnd_gain:2) send 3282135bps lastsnd:4 lastrcv:3008 "
    "lastack:4 pacing_rate 2797112088bps delivery_rate 1913184bps delivered:584 busy:3008ms unacked:288 "
    "retrans:68/206 lost:68 sacked:127 dsack_dups:2 rcv_space:14480 rcv_ssthresh:64088 notsent:183896 "
    "minrtt:0.022 snd_wnd:946176\n"
)
LOSSY_6 = (
    "ESTAB 0      209916 [fd00:1::1]:44986 [fd00:2::2]:5001 timer:(on,200ms,0) ino:34321 sk:8 "
    "cgroup:unreachable:1 <-> skmem:(r0,rb131072,t0,tb221184,f2116,w219068,o0,bl0,d1) ts sack bbr "
    "wscale:10,10 rto:296 rtt:93.041/1.358 mss:1428 pmtu:1500 rcvmss:536 advmss:1428 cwnd:26 ssthresh:16 "
    "bytes_sent:2117724 bytes_acked:2094877 segs_out:1487 segs_in:769 data_segs_out:1483 "
    "bbr:(bw:1886832bps,mrtt:48.597,pacing_gain:1,cwnd_gain:2) send 3192399bps lastsnd:4 lastrcv:8940 "
    "lastack:12 pacing_rate 1867968bps delivery_rate 1867696bps delivered:1468 busy:8936ms unacked:16 "
    "retrans:0/1 rcv_space:14280 rcv_ssthresh:64108 notsent:187068 minrtt:48.597 snd_wnd:204800\n"
)
# `ss -tin` with its heading and details on a line of their own
TWO_LINES = (
    "State Recv-Q Send-Q  Local Address:Port   Peer Address:Port Process\n"
    "ESTAB 0      40000       192.0.2.1:37576     192.0.2.2:5001  timer:(persist,576ms,2)\n"
    "\t skmem:(r0,rb131072,t0,tb46080,f2560,w42496,o0,bl0,d0) ts sack cubic wscale:10,10 rto:204 backoff:2 "
    "rtt:0.066/0.002 mss:36 pmtu:68 rcvmss:536 advmss:1448 cwnd:34 bytes_sent:761296 bytes_acked:760001 "
    "segs_out:570 segs_in:42 data_segs_out:568 send 148363636bps lastsnd:240 lastrcv:2784 lastack:924 "
    "pacing_rate 11778871024bps delivery_rate 144000000bps delivered:533 busy:876ms rcv_space:14480 "
    "rcv_ssthresh:64088 notsent:40000 minrtt:0.008 snd_wnd:155648\n"
)
OLD_KERNEL = "ESTAB 0 0 192.0.2.1:22 192.0.2.9:40000\n\t cubic wscale:7,7 rto:201 rtt:1.5/0.75 cwnd:10 ssthresh:7\n"
SECOND_NS = 1_000_000_000
NOON_NS = 1_763_726_400 * SECOND_NS  # 2025-11-21 12:00:00 UTC


def read(text: str) -> Table:
    return parse(io.BytesIO(text.encode()), path="loop.txt")["tcp_state"]


def rows(text: str) -> list[dict[str, Any]]:
    return list(read(text).rows())


def test_values_of_a_lossy_transfer() -> None:
    (row,) = rows(LOSSY)
    expected = {
        "method": ReadBy.SS, "ip_version": 4, "port_local": 54604, "port_remote": 5001, "cookie": 0x1003,
        "inode": 34286, "state": TcpState.ESTABLISHED, "congestion_control": "bbr", "snd_mss_bytes": 1448,
        "cwnd_segments": 161, "cwnd_bytes": 161 * 1448, "ssthresh_segments": 140,
        "ssthresh_bytes": 140 * 1448, "srtt_ns": 568_235_000, "rttvar_ns": 2_491_000, "rto_ns": 784_000_000,
        "min_rtt_ns": 22_000, "timer": 1, "timer_expires_ns": 780_000_000, "retransmits": 0,
        "unacked_segments": 288, "sacked_segments": 127, "lost_segments": 68, "retransmitted_segments": 68,
        "total_retransmitted_segments": 206, "flight_bytes": 288 * 1448, "send_queue_bytes": 600_920,
        "receive_queue_bytes": 0, "notsent_bytes": 183_896, "total_sent_bytes": 1_370_528,
        "total_retransmitted_bytes": 298_016, "total_acked_bytes": 655_489, "delivery_rate": 239_148,
        "app_limited": 0, "busy_ns": 3_008_000_000, "snd_wnd_bytes": 946_176,
    }  # fmt: skip
    assert {name: row[name] for name in expected} == expected


def test_what_ss_leaves_out_is_0_where_it_prints_it_and_missing_where_not() -> None:
    (row,) = rows(LOSSY_6)
    absent = ("total_retransmitted_bytes", "backoff", "lost_segments", "total_received_bytes", "app_limited")
    assert [row[name] for name in absent] == [0] * 5
    assert row["ca_state"] is None
    (row,) = rows(OLD_KERNEL)
    assert (row["cwnd_segments"], row["cwnd_bytes"], row["rto_ns"]) == (10, None, 201_000_000)


def test_details_may_stand_on_a_line_of_their_own() -> None:
    (row,) = rows(TWO_LINES)
    assert (row["cwnd_segments"], row["snd_mss_bytes"], row["backoff"]) == (34, 36, 2)
    assert (row["timer"], row["timer_expires_ns"], row["retransmits"]) == (4, 576_000_000, None)
    assert row["congestion_control"] == "cubic"


def test_ipv6_and_ipv4_within_it() -> None:
    (row,) = rows(LOSSY_6)
    assert row["ip_version"] == 6
    assert row["address_local"] == socket.inet_pton(socket.AF_INET6, "fd00:1::1")
    (row,) = rows(LOSSY.replace("10.0.1.1", "[::ffff:10.0.1.1]").replace("10.0.2.2", "[::ffff:10.0.2.2]"))
    assert (row["ip_version"], row["address_local"][:4]) == (4, bytes([10, 0, 1, 1]))


@pytest.mark.parametrize(
    ("printed", "expires_ns"),
    [
        ("200ms", 200_000_000),
        ("4.500ms", 4_500_000_000),  # so does ss write four and a half seconds
        ("12sec", 12_000_000_000),
        ("1min13sec", 73_000_000_000),
        ("119min", 7140_000_000_000),
    ],
)
def test_timer_as_ss_writes_it(printed: str, expires_ns: int) -> None:
    (row,) = rows(LOSSY.replace("780ms", printed))
    assert row["timer_expires_ns"] == expires_ns


@pytest.mark.parametrize(
    ("stamp", "offset_ns", "resolution_ns"),
    [
        ("1763726400", 0, SECOND_NS),
        ("1763726400.123456789", 123_456_789, 1),
        ("1763726400123", 123_000_000, 1_000_000),
        ("1763726400123456789", 123_456_789, 1),
        ("Time: 1763726400.5", 500_000_000, 100_000_000),
        ("# 2025-11-21T12:00:00.25Z", 250_000_000, 10_000_000),
        ("2025-11-21 13:00:00,250+01:00", 250_000_000, 1_000_000),
        ("Fri Nov 21 12:00:00 UTC 2025", 0, SECOND_NS),
        ("Fri 21 Nov 2025 12:00:00 PM UTC", 0, SECOND_NS),
        ("Fri, 21 Nov 2025 13:30:00 +0130", 0, SECOND_NS),
        ("Fri Nov 21 13:00:00 CET 2025", 0, SECOND_NS),
        ("Fri Nov 21 21:30:00 ACST 2025", 0, SECOND_NS),
        ("2025-11-21 05:00:00 PDT", 0, SECOND_NS),
        ("Fri Nov 21 07:00:00 GMT-05:00 2025", 0, SECOND_NS),
    ],
)
def test_stamps_in_the_forms_that_people_use(stamp: str, offset_ns: int, resolution_ns: int) -> None:
    table = read(f"{stamp}\n{LOSSY}{stamp}\n")
    (row,) = table.rows()
    assert row["read_before_ns"] == NOON_NS + offset_ns
    assert row["read_after_ns"] == NOON_NS + offset_ns + resolution_ns
    assert row["read_before_ns"] <= row["time_ns"] <= row["read_after_ns"]
    assert table.provenance["warnings"] == []


@pytest.mark.parametrize(
    ("stamp", "caveat"),
    [
        ("2025-11-21 12:00:00", "zone is not given"),
        ("Fri Nov 21 12:00:00 IST 2025", "IST is ambiguous"),
        ("2025-11-21 12:00:00 CST", "CST is ambiguous"),
        ("12:00:00.5", "date is not given"),
    ],
)
def test_stamp_that_leaves_something_open_is_warned_of(stamp: str, caveat: str) -> None:
    assert caveat in read(f"{stamp}\n{LOSSY}").provenance["warnings"][0]


def test_reading_lies_between_the_stamps_around_it() -> None:
    table = read("1763726400.0\n" + LOSSY + LOSSY_6 + "1763726401.0\n" + LOSSY + "1763726402.0\n" + LOSSY_6)
    seconds = [
        tuple(None if row[k] is None else (row[k] - NOON_NS) // SECOND_NS for k in ("read_before_ns", "read_after_ns"))
        for row in table.rows()
    ]
    assert seconds == [(0, 1), (0, 1), (1, 2), (2, None)]
    assert [(t - NOON_NS) // SECOND_NS for t in table["time_ns"]] == [0, 0, 1, 2]


def test_stamp_may_follow_its_sockets() -> None:
    table = read(LOSSY + "1763726400.0\n" + LOSSY + "1763726401.0\n")
    before, after = ([row[k] for row in table.rows()] for k in ("read_before_ns", "read_after_ns"))
    assert before == [None, NOON_NS]
    assert [a // SECOND_NS * SECOND_NS for a in after] == [NOON_NS, NOON_NS + SECOND_NS]
    assert [(t - NOON_NS) // SECOND_NS for t in table["time_ns"]] == [0, 1]


def test_stamps_before_and_after_bound_the_reading_tightly() -> None:
    table = read("1763726400.10\n" + LOSSY + "1763726400.11\n1763726401.10\n" + LOSSY + "1763726401.11\n")
    widths = table["read_after_ns"] - table["read_before_ns"]
    assert (widths <= 20_000_000).all()


def test_stamp_on_each_line_is_after_the_reading() -> None:
    (row,) = rows(f"1763726400.250 {LOSSY}")
    assert row["read_before_ns"] is None
    assert row["read_after_ns"] == NOON_NS + 251_000_000
    assert row["cwnd_segments"] == 161


def test_loop_without_stamps_says_what_to_do() -> None:
    table = read(LOSSY + LOSSY)
    assert [row["time_ns"] for row in table.rows()] == [None, None]
    assert "add `date +%s.%N`" in table.provenance["warnings"][0]


def test_sockets_without_variables_are_counted_not_read() -> None:
    listening = "LISTEN 0 128 0.0.0.0:22 0.0.0.0:*\n\t cubic cwnd:10\nTIME-WAIT 0 0 10.0.1.1:1 10.0.2.2:2\n"
    table = read(listening + LOSSY)
    assert (len(table), table.provenance["sockets_without_variables"]) == (1, 2)


def test_names_instead_of_numbers_are_counted_and_say_what_to_do() -> None:
    table = read(LOSSY.replace("10.0.2.2:5001", "server.example:https") + LOSSY)
    assert len(table) == 1
    (reason,) = table.provenance["skipped"]
    assert "ss -n" in reason


def test_name_of_a_process_is_not_taken_for_a_variable() -> None:
    (row,) = rows(LOSSY.replace("timer:", 'users:(("a cwnd:999 rto:1",pid=7,fd=3)) timer:'))
    assert (row["cwnd_segments"], row["rto_ns"]) == (161, 784_000_000)


def test_state_column_is_left_out_by_a_state_filter() -> None:
    (row,) = rows(LOSSY.removeprefix("ESTAB "))
    assert (row["cwnd_segments"], row["state"]) == (161, None)


@pytest.mark.parametrize(("last", "cut_bytes"), [(LOSSY_6, 60), (TWO_LINES, 60), (TWO_LINES, 440)])
def test_last_socket_of_a_cut_log_is_not_trusted(last: str, cut_bytes: int) -> None:
    table = read(f"{LOSSY}{last}"[:-cut_bytes])
    assert [row["cwnd_segments"] for row in table.rows()] == [161]
    assert "truncated" in table.provenance["damaged"]


@pytest.mark.parametrize("text", [LOSSY, TWO_LINES, "1763726400\n" + LOSSY_6, OLD_KERNEL])
def test_it_knows_its_own(text: str) -> None:
    assert sniff(text.encode()) == "yes"
    assert parsers.recognise(text.encode(), path="loop.txt") is FORMAT


def test_it_leaves_others_alone() -> None:
    assert sniff(b"") == "no"
    assert sniff(b"ESTAB is a word\n") == "no"
    assert sniff(b"ESTAB 0 0 10.0.0.1:22 10.0.0.2:3333\n") == "maybe"


def test_it_reads_a_slow_pipe() -> None:
    data = ("1763726400\n" + LOSSY + TWO_LINES).encode()
    slow = parse(io.BufferedReader(OneByteAtATime(data), 1), path="loop.txt")
    assert rows_of(slow) == rows_of(parse(io.BytesIO(data), path="loop.txt"))


@given(damaged(("1763726400.1\n" + LOSSY + "Fri Nov 21 12:00:00 UTC 2025\n" + TWO_LINES + LOSSY_6).encode()))
def test_damaged_loop_gives_a_table_or_our_error(data: bytes) -> None:
    survives(parse, data)


@pytest.mark.skipif(shutil.which("ss") is None, reason="needs ss (iproute2)")
def test_every_combination_of_flags_of_the_ss_of_this_machine() -> None:
    with connection() as (client, server):
        client.sendall(b"x" * 100_000)
        server.recv(100_000, socket.MSG_WAITALL)
        port = client.getsockname()[1]
        for count in range(7):
            for flags in itertools.combinations(["-o", "-e", "-m", "-p", "-H", "-O"], count):
                check_live(client, port, flags)


def check_live(client: socket.socket, port: int, flags: tuple[str, ...]) -> None:
    argv = ["ss", "-tin", *flags, "sport", "=", f":{port}"]
    text = subprocess.run(argv, capture_output=True, text=True, check=True).stdout
    (row,) = rows(f"{datetime.now(UTC).isoformat()}\n{text}")
    info = decode_tcp_info(client.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 280))
    assert (row["port_local"], row["state"]) == (port, TcpState.ESTABLISHED), flags
    assert (row["cwnd_segments"], row["snd_mss_bytes"]) == (info["snd_cwnd"], info["snd_mss"]), flags
    assert (row["cookie"] != 0, row["inode"] is not None) == ("-e" in flags, "-e" in flags), flags
    assert row["rto_ns"] == pytest.approx(info["rto"] * 1000, rel=1e-5), flags
