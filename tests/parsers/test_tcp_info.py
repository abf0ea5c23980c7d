"""The reader of collectors.tcp_info's log: structs of all ages, clocks, gaps, and logs that were cut."""

from __future__ import annotations

import base64
import io
import json
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import parsers
from collectors.tcp_info import SocketReading, reading_line
from multitracer.errors import FormatError
from multitracer.protocols.sock_diag import DiagSocket, ReadBy, decode, decode_tcp_info
from parsers.tcp_info import FORMAT, parse, sniff, tcp_info_columns
from tests.parsers.damage import OneByteAtATime, damaged, rows_of, survives
from tests.protocols.test_sock_diag import ANSWER_4, ANSWER_6, OLD_STRUCT, info

if TYPE_CHECKING:
    from collections.abc import Iterable

    from multitracer.tables import Table

BOOT_NS = 1_795_245_413_956_674_000
START_NS = 2_000_000_000_000
MS = 1_000_000


def line(**record: Any) -> bytes:
    return json.dumps(record, separators=(",", ":")).encode() + b"\n"


HEADER = line(kind="header", format="multitracer-tcp-info", version=1, byte_order="little", hz=100.0)


def clock(at_ns: int, *, boot_ns: int = BOOT_NS) -> bytes:
    return line(
        kind="clock", monotonic_before_ns=at_ns - 50, realtime_ns=at_ns + boot_ns, monotonic_after_ns=at_ns + 50
    )


def reading(answer: bytes = ANSWER_4, *, at_ns: int = START_NS, **changes: Any) -> bytes:
    """Return the record that the collector writes of an answer."""
    (socket,) = decode(answer)
    assert isinstance(socket, DiagSocket)
    record = json.loads(reading_line(SocketReading(at_ns, at_ns + 10_000, socket), number=1))
    return line(**(record | changes))


def read(*records: bytes) -> Table:
    return parse(io.BytesIO(b"".join(records)), path="tcp_state.jsonl")["tcp_state"]


def only(table: Table) -> dict[str, Any]:
    (row,) = table.rows()
    return row


WHOLE = [HEADER, clock(START_NS - 5 * MS), reading(), reading(ANSWER_6, at_ns=START_NS + MS), clock(START_NS + 9 * MS)]


def test_values_are_those_of_the_struct_in_the_tables_units() -> None:
    row = only(read(HEADER, reading()))
    expected = {
        "method": ReadBy.TCP_INFO, "ip_version": 4, "port_local": 54604, "port_remote": 5001,
        "cookie": 0x1003, "inode": 34286, "state": 1, "ca_state": 3, "congestion_control": "bbr",
        "snd_mss_bytes": 1448, "cwnd_segments": 160, "cwnd_bytes": 160 * 1448, "ssthresh_segments": 140,
        "ssthresh_bytes": 140 * 1448, "srtt_ns": 568_105_000, "rttvar_ns": 2_975_000, "rto_ns": 784_000_000,
        "min_rtt_ns": 22_000, "timer": 1, "timer_expires_ns": 776 * MS, "retransmits": 0, "backoff": 0,
        "unacked_segments": 286, "sacked_segments": 126, "lost_segments": 68, "retransmitted_segments": 68,
        "flight_bytes": 286 * 1448, "send_queue_bytes": 600_920, "notsent_bytes": 186_792,
        "total_sent_bytes": 1_367_632, "total_retransmitted_bytes": 298_016, "total_acked_bytes": 655_489,
        "total_retransmitted_segments": 206, "total_timeouts": 0, "delivery_rate": 239_142,
        "app_limited": 0,
        "busy_ns": 3_004 * MS, "rwnd_limited_ns": 0, "snd_wnd_bytes": 946_176, "rcv_wnd_bytes": 64_512,
        "snd_una": None, "received_bytes": None,
    }  # fmt: skip
    assert {name: row[name] for name in expected} == expected


@pytest.mark.parametrize(
    ("length", "absent"),
    [
        (104, {"min_rtt_ns", "total_acked_bytes", "notsent_bytes", "delivery_rate", "busy_ns", "snd_wnd_bytes"}),
        (192, {"total_sent_bytes", "snd_wnd_bytes", "rcv_wnd_bytes", "total_timeouts"}),
        (232, {"rcv_wnd_bytes", "total_timeouts"}),
        (248, set()),
        (280, set()),
    ],
)
def test_struct_of_an_older_kernel_leaves_cells_missing(length: int, absent: set[str]) -> None:
    raw = json.loads(reading())["raw"]
    cut = base64.b64encode(base64.b64decode(raw)[:length]).decode()
    whole, row = only(read(HEADER, reading())), only(read(HEADER, reading(raw=cut)))
    assert {name for name in whole if row[name] != whole[name]} >= absent
    assert all(row[name] is None for name in whole if row[name] != whole[name])


def test_before_the_first_sample_there_is_no_round_trip_time() -> None:
    raw = bytearray(base64.b64decode(json.loads(reading())["raw"]))
    raw[68:72], raw[148:152], raw[76:80] = bytes(4), b"\xff" * 4, b"\xff\xff\xff\x7f"
    row = only(read(HEADER, reading(raw=base64.b64encode(raw).decode())))
    names = ("srtt_ns", "rttvar_ns", "min_rtt_ns", "ssthresh_segments", "ssthresh_bytes")
    assert [row[name] for name in names] == [None] * 5


def test_reading_is_placed_on_the_wall_clock_as_an_interval() -> None:
    table = read(*WHOLE)
    assert table["read_before_ns"].tolist() == [BOOT_NS + START_NS, BOOT_NS + START_NS + MS]
    assert table["read_after_ns"].tolist() == [BOOT_NS + START_NS + 10_000, BOOT_NS + START_NS + MS + 10_000]
    assert table["time_ns"].tolist() == [BOOT_NS + START_NS + 5_000, BOOT_NS + START_NS + MS + 5_000]
    assert table.provenance["clock"]["uncertainty_ns"] <= 100


@given(
    st.lists(st.integers(0, 10**15), min_size=1, max_size=20), st.lists(st.integers(-300, 300), min_size=2, max_size=9)
)
def test_placing_is_within_the_uncertainty_it_tells(instants: list[int], jitter: list[int]) -> None:
    step = 10**15 // (len(jitter) - 1)
    clocks = [clock(i * step + 100, boot_ns=BOOT_NS + moved) for i, moved in enumerate(jitter)]
    table = read(HEADER, *clocks, *(reading(at_ns=at) for at in instants))
    bound = table.provenance["clock"]["uncertainty_ns"] + 1
    for at, placed in zip(sorted(instants), table["read_before_ns"].tolist(), strict=True):
        before = min(max(at - 100, 0) // step, len(jitter) - 1)
        after = min(before + 1, len(jitter) - 1)
        for pair in (before, after):
            assert abs(placed - BOOT_NS - at - jitter[pair]) <= bound


def test_reads_that_were_missed_are_told_with_their_time() -> None:
    missed = line(kind="missed", count=7, since_ns=START_NS, until_ns=START_NS + 70 * MS, why="late")
    provenance = read(*WHOLE, missed).provenance
    assert provenance["missed_reads"] == 7
    assert provenance["gaps"] == [(BOOT_NS + START_NS, BOOT_NS + START_NS + 70 * MS, 7)]


def test_end_of_a_recording_is_told_from_a_cut_one() -> None:
    assert read(*WHOLE).provenance["ended"] is None
    assert read(*WHOLE, line(kind="end", reason="SIGTERM")).provenance["ended"] == "SIGTERM"


@given(st.data())
def test_log_that_was_cut_anywhere_keeps_all_that_precedes(data: st.DataObject) -> None:
    whole = b"".join(WHOLE)
    cut = data.draw(st.integers(len(HEADER), len(whole)))
    table = read(whole[:cut])
    complete = whole[:cut].count(b'"kind":"reading"') - (b'"reading"' in whole[:cut].rpartition(b"\n")[2])
    assert len(table) == complete
    assert (table.provenance["damaged"] is None) == whole[:cut].endswith(b"\n")


@pytest.mark.parametrize(
    "flagged",
    [
        {"local": "10.0.1.1.1"}, {"local": "fd00::1"}, {"remote": None}, {"local_port": 65536}, {"inode": -3},
        {"read_before_ns": 1 << 63}, {"read_after_ns": 5}, {"read_after_ns": True}, {"cookie": 1 << 64},
        {"raw": "?"}, {"raw": 7}, {"expires_ms": 1.5}, {"state": "ESTABLISHED"},
    ],
)  # fmt: skip
def test_record_that_makes_no_sense_is_counted(flagged: dict[str, Any]) -> None:
    table = read(HEADER, reading(**flagged), reading())
    assert len(table) == 1
    assert table.provenance["skipped"] == {"not a record of this format": 1}


def test_clap_is_no_strange_record_and_late_readings_are_counted_apart() -> None:
    sync_probe = line(kind="clap", tag="00ff", monotonic_before_ns=1, realtime_ns=2, monotonic_after_ns=3)
    missed = [
        line(kind="missed", count=count, since_ns=START_NS, until_ns=START_NS + MS, why=why)
        for count, why in ((2, "late"), (1, "no answer"))
    ]
    books = read(HEADER, sync_probe, reading(), *missed).provenance
    assert (books["skipped"], books["missed_reads"], books["late_reads"]) == ({}, 3, 2)


def test_name_of_an_algorithm_is_plain_text_of_bounded_length() -> None:
    row = only(read(HEADER, reading(congestion_control="\ud800<b>" * 1000)))
    assert row["congestion_control"] == "?<b>?<b>?<b>?<b>"


@pytest.mark.parametrize("text", [b"[" * 100_000 + b"\n", b"\xff\n", b"7\n", b"9" * 10_000 + b"\n", b"\n"])
def test_line_that_is_no_object_is_counted(text: bytes) -> None:
    table = read(HEADER, text, reading())
    assert len(table) == 1
    assert table.provenance["skipped"] == {"not a JSON object": 1}


@pytest.mark.parametrize(
    "records", [[b""], [reading()], [line(kind="header", format="multitracer-tcp-info", version=2)]]
)
def test_log_of_another_kind_or_version_is_refused(records: Iterable[bytes]) -> None:
    with pytest.raises(FormatError, match=r"tcp_state\.jsonl"):
        read(*records)


def test_it_knows_its_own() -> None:
    assert parsers.recognise(b"".join(WHOLE)[:4096], path="tcp_state.jsonl") is FORMAT
    assert [sniff(head) for head in (b"", b"{}", b'{"kind":"header"}')] == ["no", "no", "no"]


def test_it_reads_a_slow_pipe() -> None:
    slow = parse(io.BufferedReader(OneByteAtATime(b"".join(WHOLE)), 1), path="tcp_state.jsonl")
    assert rows_of(slow) == rows_of({"tcp_state": read(*WHOLE)})


@given(damaged(b"".join(WHOLE)))
def test_damaged_log_gives_a_table_or_our_error(data: bytes) -> None:
    survives(parse, data)


@given(st.lists(st.binary(max_size=300), max_size=8), st.sampled_from(["little", "big"]))
def test_columns_are_the_structs_one_by_one(blobs: list[bytes], byte_order: Literal["little", "big"]) -> None:
    columns = tcp_info_columns(blobs, byte_order=byte_order)
    for row, blob in enumerate(blobs):
        one = decode_tcp_info(blob, byte_order=byte_order)
        signed = {name: -1 if value >= 1 << 63 else value for name, value in one.items()}
        assert {name: int(c[row]) for name, c in columns.items()} == dict.fromkeys(columns, -1) | signed


def test_unlimited_rate_is_missing_in_columns() -> None:
    columns = tcp_info_columns([info(ANSWER_4), OLD_STRUCT])
    assert columns["max_pacing_rate"].tolist() == [-1, -1]
    assert columns["pacing_rate"].tolist() == [279_711_209, -1]
    assert columns["snd_cwnd"].dtype == np.int64
