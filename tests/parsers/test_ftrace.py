"""The reader of TCP's trace points as text: of old kernels and new, of several tools, on the wall clock."""

from __future__ import annotations

import io
import json
import socket
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given

import parsers
from multitracer.protocols.sock_diag import ReadBy, TcpCaState, TcpEvent, TcpState
from parsers.ftrace import FORMAT, parse, sniff
from tests.parsers.damage import OneByteAtATime, damaged, rows_of, survives

if TYPE_CHECKING:
    from multitracer.tables import Table

# Kernel 6.18, as trace_pipe gives it
PROBE = (
    "          python-23639   [000] ..s2.  2454.749377: tcp_probe: family=AF_INET src=10.0.1.1:33268 "
    "dest=10.0.2.2:5999 mark=0x0 data_len=0 snd_nxt=0x28d10774 snd_una=0x28d1038c snd_cwnd=18 "
    "ssthresh=2147483647 snd_wnd=70656 srtt=19 rcv_wnd=65536 sock_cookie=40 skbaddr=00000000a923bf4f "
    "skaddr=000000005dd37576\n"
)
RETRANSMIT = (
    "          <idle>-0       [001] ..s1.  2460.100000: tcp_retransmit_skb: skbaddr=00000000a923bf4f "
    "skaddr=000000005dd37576 family=AF_INET sport=33268 dport=5999 saddr=10.0.1.1 daddr=10.0.2.2 "
    "saddrv6=::ffff:10.0.1.1 daddrv6=::ffff:10.0.2.2 state=TCP_ESTABLISHED err=0\n"
)
CA_STATE = (
    "          <idle>-0       [001] ..s1.  2460.100003: tcp_cong_state_set: family=AF_INET sport=33268 "
    "dport=5999 saddr=10.0.1.1 daddr=10.0.2.2 saddrv6=::ffff:10.0.1.1 daddrv6=::ffff:10.0.2.2 cong_state=4\n"
)
# The texts of 4.19 (no family, no addresses of structures) and of other tools, by their format strings
PROBE_4_19 = PROBE.replace("family=AF_INET ", "").partition(" skbaddr=")[0] + "\n"
PROBE_4_16 = PROBE_4_19.partition(" sock_cookie=")[0] + "\n"
RETRANSMIT_4_16 = RETRANSMIT.partition("skbaddr")[0] + RETRANSMIT.partition("AF_INET ")[2].partition(" state")[0] + "\n"
TRACE_CMD = PROBE.replace("..s2.  ", " ").replace("tcp_probe: ", "tcp_probe:            ")
TRACE_CMD_NS = TRACE_CMD.replace("2454.749377", "2454.749377123")
PERF = PROBE.replace("python-23639   [000] ..s2.", "python 23639 [000]").replace(": tcp_probe:", ":     tcp:tcp_probe:")
HEADER = '# multitracer {"kind":"header","format":"multitracer-tcp-probe","version":1,"clock":"CLOCK_MONOTONIC"}\n'
BOOT_NS = 1_795_245_413_956_674_000


def clock(at_ns: int, *, boot_ns: int = BOOT_NS, **more: Any) -> str:
    record = {
        "kind": "clock", "monotonic_before_ns": at_ns - 50, "realtime_ns": at_ns + boot_ns,
        "monotonic_after_ns": at_ns + 50, "lost": {"overrun": 0}, **more,
    }  # fmt: skip
    return f"# multitracer {json.dumps(record)}\n"


OURS = HEADER + clock(2_454_000_000_000) + PROBE + RETRANSMIT + CA_STATE + clock(2_461_000_000_000)


def read(text: str) -> dict[str, Table]:
    return parse(io.BytesIO(text.encode()), path="trace.txt")


def only(table: Table) -> dict[str, Any]:
    (row,) = table.rows()
    return row


def test_probe_is_the_state_before_its_segment() -> None:
    row = only(read(OURS)["tcp_state"])
    expected = {
        "method": ReadBy.TCP_PROBE, "ip_version": 4, "port_local": 33268, "port_remote": 5999, "cookie": 0x40,
        "state": TcpState.ESTABLISHED, "cwnd_segments": 18, "cwnd_bytes": None, "ssthresh_segments": None,
        "srtt_ns": 19_000, "snd_nxt": 0x28D10774, "snd_una": 0x28D1038C, "flight_bytes": 0x3E8,
        "snd_wnd_bytes": 70656, "rcv_wnd_bytes": 65536, "received_bytes": 0, "rto_ns": None, "ca_state": None,
    }  # fmt: skip
    assert {name: row[name] for name in expected} == expected
    assert row["address_local"][:4] == bytes([10, 0, 1, 1])


def test_events_tell_what_happened_to_which_socket() -> None:
    sent, changed = read(OURS)["tcp_events"].rows()
    assert (sent["event"], sent["state"], sent["left_host"]) == (TcpEvent.RETRANSMISSION, TcpState.ESTABLISHED, 1)
    assert (changed["event"], changed["ca_state"]) == (TcpEvent.CA_STATE, TcpCaState.LOSS)
    for row in (sent, changed):
        assert (row["port_local"], row["port_remote"], row["ip_version"]) == (33268, 5999, 4)
        assert row["address_remote"][:4] == bytes([10, 0, 2, 2])


def test_retransmission_that_the_host_dropped_is_told_apart() -> None:
    assert only(read(RETRANSMIT.replace("err=0", "err=-105"))["tcp_events"])["left_host"] == 0
    assert only(read(RETRANSMIT_4_16)["tcp_events"])["left_host"] is None


@pytest.mark.parametrize("text", [PROBE_4_19, PROBE_4_16, TRACE_CMD, TRACE_CMD_NS, PERF])
def test_texts_of_old_kernels_and_other_tools(text: str) -> None:
    new, old = only(read(PROBE)["tcp_state"]), only(read(text)["tcp_state"])
    if text is PROBE_4_16:
        assert old.pop("cookie") == 0
        del new["cookie"]
    if text is TRACE_CMD_NS:
        for name in ("time_ns", "read_before_ns", "read_after_ns"):
            assert old[name] == new[name] + 123
            old[name] = new[name]
    assert old == new


def test_retransmission_of_an_old_kernel() -> None:
    row = only(read(RETRANSMIT_4_16)["tcp_events"])
    assert (row["port_local"], row["address_local"][:4], row["state"]) == (33268, bytes([10, 0, 1, 1]), None)


def test_ipv6_and_ipv4_within_it() -> None:
    six = PROBE.replace("AF_INET", "AF_INET6").replace("10.0.1.1", "[fd00::1]").replace("10.0.2.2", "[fd00::2]")
    row = only(read(six)["tcp_state"])
    assert row["ip_version"] == 6
    assert row["address_remote"] == socket.inet_pton(socket.AF_INET6, "fd00::2")
    mapped = PROBE.replace("10.0.1.1", "[::ffff:10.0.1.1]").replace("10.0.2.2", "[::ffff:10.0.2.2]")
    assert only(read(mapped)["tcp_state"])["ip_version"] == 4
    event = CA_STATE.replace("AF_INET", "AF_INET6").replace("::ffff:10.0.1.1", "fd00::1")
    row = only(read(event.replace("::ffff:10.0.2.2", "fd00::2"))["tcp_events"])
    assert (row["ip_version"], row["address_local"][:2]) == (6, b"\xfd\x00")


def test_clock_records_place_events_on_the_wall_clock() -> None:
    tables = read(OURS)
    assert tables["tcp_state"]["time_ns"].tolist() == [BOOT_NS + 2_454_749_377_000]
    assert tables["tcp_events"]["time_ns"].tolist() == [BOOT_NS + 2_460_100_000_000, BOOT_NS + 2_460_100_003_000]
    assert tables["tcp_state"].provenance["clock"]["to"] == "realtime"
    assert tables["tcp_state"].provenance["clock"]["uncertainty_ns"] <= 100


def test_wall_clock_that_was_set_widens_the_uncertainty() -> None:
    text = HEADER + clock(2_454_000_000_000) + PROBE + clock(2_455_000_000_000, boot_ns=BOOT_NS + 7_000_000)
    table = read(text)["tcp_state"]
    assert table.provenance["clock"]["uncertainty_ns"] >= 7_000_000
    assert 0 <= table["time_ns"][0] - (BOOT_NS + 2_454_749_377_000) <= 7_000_000


def test_without_clock_records_the_times_are_the_trace_clocks_own() -> None:
    table = read(PROBE)["tcp_state"]
    assert table["time_ns"].tolist() == [2_454_749_377_000]
    assert table.provenance["clock"] == {"from": "monotonic", "to": None, "pairs": 0}


def test_name_of_a_program_may_look_like_anything() -> None:
    unexpected = PROBE.replace("python-23639", "a [001] 1.000000: tcp_probe: b-7")
    assert only(read(unexpected)["tcp_state"])["cwnd_segments"] == 18


def test_sequence_numbers_may_wrap_within_the_flight() -> None:
    text = PROBE.replace("snd_nxt=0x28d10774", "snd_nxt=0x10").replace("snd_una=0x28d1038c", "snd_una=0xfffffff0")
    assert only(read(text)["tcp_state"])["flight_bytes"] == 0x20


def test_events_of_several_processors_come_in_order_of_time() -> None:
    later = PROBE.replace("2454.749377", "2454.800000")
    assert read(later + PROBE)["tcp_state"]["time_ns"].tolist() == [2_454_749_377_000, 2_454_800_000_000]


def test_what_was_lost_and_what_was_not_understood_is_counted() -> None:
    lost = "CPU:1 [LOST 123 EVENTS]\n"
    other = PROBE.replace("tcp_probe: family", "sched_switch: family")
    broken = PROBE.replace("snd_cwnd=18", "snd_cwnd=many")
    kernel = "# tracer: nop\n#\n" + lost + other + broken + "hello\n" + PROBE
    table = read(kernel)["tcp_state"]
    assert len(table) == 1
    assert (table.provenance["lost_events"], table.provenance["other_events"]) == (123, {"sched_switch": 1})
    assert table.provenance["skipped"] == {"an event has invalid fields": 1, "not an event": 1}
    assert table.provenance["first_skipped_line"]["not an event"] == 6


def test_end_of_a_recording_is_told_from_a_cut_one() -> None:
    assert read(OURS)["tcp_state"].provenance["ended"] is None
    ended = read(OURS + '# multitracer {"kind":"end","reason":"SIGTERM"}\n')["tcp_state"]
    assert ended.provenance["ended"] == "SIGTERM"
    cut = read(OURS + PROBE[:-30])["tcp_state"]
    assert len(cut) == 1
    assert "truncated" in cut.provenance["damaged"]


@pytest.mark.parametrize("text", [OURS, PROBE_4_16, RETRANSMIT, CA_STATE, TRACE_CMD, PERF])
def test_it_knows_its_own(text: str) -> None:
    assert sniff(text.encode()) == "yes"
    assert parsers.recognise(text.encode(), path="trace.txt") is FORMAT


def test_it_leaves_others_alone() -> None:
    assert [sniff(head) for head in (b"", b"# multitracer", b"tcp_probe", b"# tracer: nop\n")] == [
        "no", "no", "no", "maybe",
    ]  # fmt: skip


def test_it_reads_a_slow_pipe() -> None:
    slow = parse(io.BufferedReader(OneByteAtATime(OURS.encode()), 1), path="trace.txt")
    assert rows_of(slow) == rows_of(read(OURS))


@given(damaged((OURS + PROBE_4_16 + PERF).encode()))
def test_damaged_trace_gives_tables_or_our_error(data: bytes) -> None:
    survives(parse, data)
