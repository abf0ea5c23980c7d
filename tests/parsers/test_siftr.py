"""The reader of FreeBSD's siftr: its three layouts, their units, and damage."""

from __future__ import annotations

import io
import socket
from typing import Any

import pytest
from hypothesis import given

import parsers
from multitracer.protocols.sock_diag import ReadBy, TcpState
from parsers.siftr import FORMAT, parse, sniff
from tests.parsers.damage import OneByteAtATime, damaged, rows_of, survives

FIRST = (
    "enable_time_secs=1238556193\tenable_time_usecs=462104\tsiftrver={}\t{}sysname=FreeBSD\tsysver=604000\tipmode=4\n"
)
FIRST_1_2_2 = FIRST.format("1.2.2", "hz=1000\ttcp_rtt_scale=32\t")
FIRST_1_2_4 = FIRST.format("1.2.4", "hz=1000\ttcp_rtt_scale=32\t")
FIRST_1_3_0 = FIRST.format("1.3.0", "")
# From the manual page; the other layouts are made of it by the format strings of their versions.
LINE_1_2_2 = (
    "o,0xbec491a5,1238556193.463551,172.16.7.28,22,172.16.2.5,55931,1073725440,172312,6144,66560,66608,8,1,4,"
    "1448,936,1,996,255,33304,208,66608,0,208\n"
)
LINE_1_2_4 = LINE_1_2_2.rstrip("\n") + ",0,3735928559,2\n"
LINE_1_3_0 = LINE_1_2_4.replace("0xbec491a5,", "").replace(",936,1,996,255,", ",29250,1,996,255000,")
LAST = (
    "disable_time_secs=1238556197\tdisable_time_usecs=933607\tnum_inbound_tcp_pkts=356\t"
    "num_outbound_tcp_pkts=627\ttotal_skipped_tcp_pkts=0\tflow_list=172.16.7.28;22-172.16.2.5;55931,\n"
)


def read(text: str) -> Any:
    return parse(io.BytesIO(text.encode()), path="siftr.log")["tcp_state"]


@pytest.mark.parametrize("text", [FIRST_1_2_2 + LINE_1_2_2, FIRST_1_2_4 + LINE_1_2_4, FIRST_1_3_0 + LINE_1_3_0])
def test_values_of_every_layout(text: str) -> None:
    (row,) = read(text + LAST).rows()
    expected = {
        "time_ns": 1_238_556_193_463_551_000, "method": ReadBy.SIFTR, "port_local": 22, "port_remote": 55931,
        "ip_version": 4, "ssthresh_bytes": None, "cwnd_bytes": 172_312, "cwnd_segments": None,
        "snd_wnd_bytes": 66_560, "rcv_wnd_bytes": 66_608, "state": TcpState.ESTABLISHED,
        "snd_mss_bytes": 1448, "srtt_ns": 29_250_000, "rto_ns": 255_000_000, "send_queue_bytes": 208,
        "receive_queue_bytes": 0, "flight_bytes": 208, "rttvar_ns": None, "ca_state": None,
    }  # fmt: skip
    assert {name: row[name] for name in expected} == expected
    assert row["address_local"][:4] == bytes([172, 16, 7, 28])


def test_first_and_last_lines_are_kept_as_facts() -> None:
    facts = read(FIRST_1_2_2 + LINE_1_2_2 + LAST).provenance["facts"]
    assert (facts["siftrver"], facts["num_outbound_tcp_pkts"]) == ("1.2.2", "627")
    assert facts["flow_list"] == "172.16.7.28;22-172.16.2.5;55931,"


@pytest.mark.parametrize("address", ["fd00:0:0:0:0:0:0:28", "fd00::28"])
def test_ipv6_written_out_or_short(address: str) -> None:
    line = LINE_1_2_2.replace("172.16.7.28", address).replace("172.16.2.5", "fd00:0:0:0:0:0:0:5")
    (row,) = read(FIRST_1_2_2 + line).rows()
    assert (row["ip_version"], row["address_local"]) == (6, socket.inet_pton(socket.AF_INET6, "fd00::28"))


@pytest.mark.parametrize(
    ("number", "state"),
    [(2, TcpState.SYN_SENT), (5, TcpState.CLOSE_WAIT), (6, TcpState.FIN_WAIT1), (9, TcpState.FIN_WAIT2), (11, None)],
)
def test_states_become_those_of_linux(number: int, state: TcpState | None) -> None:
    (row,) = read(FIRST_1_2_2 + LINE_1_2_2.replace(",8,1,4,", f",8,1,{number},")).rows()
    assert row["state"] == state


def test_threshold_after_a_loss_is_there() -> None:
    (row,) = read(FIRST_1_2_2 + LINE_1_2_2.replace("1073725440", "2896")).rows()
    assert row["ssthresh_bytes"] == 2896


def test_without_the_first_line_the_times_of_unknown_unit_are_missing() -> None:
    table = read(LINE_1_2_2)
    (row,) = table.rows()
    assert (row["srtt_ns"], row["rto_ns"], row["cwnd_bytes"]) == (None, None, 172_312)
    assert "units" in table.provenance["warnings"][0]


def test_lines_that_make_no_sense_are_counted() -> None:
    table = read(FIRST_1_2_2 + "hello\n" + LINE_1_2_2.replace(",208\n", "\n") + LINE_1_2_2)
    assert len(table) == 1
    assert sum(table.provenance["skipped"].values()) == 2


def test_cut_line_is_not_used() -> None:
    table = read(FIRST_1_2_2 + LINE_1_2_2 + LINE_1_2_2[:-2])
    assert len(table) == 1
    assert "truncated" in table.provenance["damaged"]


def test_it_knows_its_own() -> None:
    assert [sniff(text.encode()) for text in (FIRST_1_2_2, FIRST_1_3_0 + LINE_1_3_0)] == ["yes", "yes"]
    assert parsers.recognise((FIRST_1_2_4 + LINE_1_2_4).encode(), path="siftr.log") is FORMAT
    assert parsers.recognise(LINE_1_3_0.encode(), path="siftr.log") is FORMAT
    assert sniff(b"") == "no"


def test_it_reads_a_slow_pipe() -> None:
    data = (FIRST_1_2_2 + LINE_1_2_2 * 3 + LAST).encode()
    slow = parse(io.BufferedReader(OneByteAtATime(data), 1), path="siftr.log")
    assert rows_of(slow) == rows_of(parse(io.BytesIO(data), path="siftr.log"))


@given(damaged((FIRST_1_2_2 + LINE_1_2_2 + LINE_1_2_4 + LINE_1_3_0 + LAST).encode()))
def test_damaged_log_gives_a_table_or_our_error(data: bytes) -> None:
    survives(parse, data)
