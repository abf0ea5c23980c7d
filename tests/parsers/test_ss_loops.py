"""Loops of ss as people write them: variables that are 0, stamps at the end, lines that grep left over."""

from __future__ import annotations

import base64
import io
import json
import random
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import parsers
from multitracer.protocols.sock_diag import decode_tcp_info
from parsers.ss import FORMAT, parse
from tests.parsers.ss_text import details

if TYPE_CHECKING:
    from multitracer.tables import Table

SAMPLE = Path("sample_traces/typical-1450k/mobile/tcp_state.jsonl.xz")
S = 1_000_000_000
NOON_S = 1_763_726_400
ENDS = "192.0.2.1:37576 192.0.2.2:5001"
OLD = "cubic wscale:7,7 rto:201 rtt:1.5/0.75 mss:1448 cwnd:10 ssthresh:7"
"""What an ss of before 2015 prints."""
ZERO_UNLESS_PRINTED = (
    "backoff", "unacked_segments", "sacked_segments", "lost_segments", "retransmitted_segments",
    "total_retransmitted_segments", "notsent_bytes", "total_sent_bytes", "total_retransmitted_bytes",
    "total_acked_bytes", "total_received_bytes", "snd_wnd_bytes", "app_limited", "flight_bytes",
)  # fmt: skip


def read(text: str) -> Table:
    assert parsers.recognise(text[:4096].encode(), path="loop.txt") is FORMAT
    return parse(io.BytesIO(text.encode()), path="loop.txt")["tcp_state"]


def readings() -> list[dict[str, Any]]:
    """Return every fifth reading that the collector of a real session made."""
    records = (json.loads(line) for line in parsers.read_lines(SAMPLE))
    return [record for record in records if record.get("kind") == "reading"][::5]


@pytest.mark.slow
def test_what_ss_left_out_is_what_the_kernel_said() -> None:
    records = readings()
    infos = [decode_tcp_info(base64.b64decode(record["raw"]), byte_order="little") for record in records]
    text = "".join(
        f"{NOON_S + n}\nESTAB 0 {record['send_queue_bytes']} {ENDS} {details(info)}\n"
        for n, (record, info) in enumerate(zip(records, infos, strict=True))
    )
    table, truth = read(text), parsers.read(SAMPLE)[1]
    assert isinstance(truth, dict)
    for name in ZERO_UNLESS_PRINTED:
        np.testing.assert_array_equal(table[name], truth["tcp_state"][name][::5], err_msg=name)
        assert name in ("lost_segments", "sacked_segments") or (table[name] >= 0).all()


def a_line(chance: random.Random, **zero: int) -> str:
    info = dict.fromkeys(_fields(), 0) | {"snd_mss": 1448, "rto": 204_000, "rtt": 20_000, "min_rtt": 9_000}
    info |= {name: chance.randint(1, 10**6) for name in info if name not in ("snd_mss", "rto", "app_limited")}
    return details(info | zero)


def _fields() -> list[str]:
    return list(decode_tcp_info(bytes(280)))


@pytest.mark.parametrize("seed", range(5))
def test_zero_is_read_where_the_value_before_was_more(seed: int) -> None:
    chance = random.Random(seed)
    zeros = {"notsent_bytes": 0, "unacked": 0, "lost": 0, "retrans": 0, "total_retrans": 0, "snd_wnd": 0}
    text = "".join(f"{NOON_S + n}.5\nESTAB 0 7 {ENDS} {a_line(chance, **more)}\n" for n, more in enumerate([{}, zeros]))
    _, row = read(text).rows()
    for name in ("notsent_bytes", "unacked_segments", "lost_segments", "retransmitted_segments", "snd_wnd_bytes"):
        assert row[name] == 0, name


def test_threshold_and_time_that_were_not_printed_stay_missing() -> None:
    text = f"ESTAB 0 0 {ENDS} " + a_line(random.Random(1), snd_ssthresh=0x7FFFFFFF, min_rtt=0, rtt=0) + "\n"
    (row,) = read(text).rows()
    for name in ("ssthresh_segments", "ssthresh_bytes", "min_rtt_ns", "srtt_ns", "rttvar_ns"):
        assert row[name] is None, name


def test_old_ss_is_not_taken_to_say_what_it_cannot() -> None:
    (row,) = read(f"ESTAB 0 0 {ENDS} {OLD}\n").rows()
    assert [row[name] for name in ("unacked_segments", "lost_segments", "backoff", "notsent_bytes")] == [0] * 4
    assert [row[name] for name in ("snd_wnd_bytes", "total_sent_bytes", "busy_ns")] == [None] * 3
    (row,) = read(f"ESTAB 0 40000 {ENDS} {OLD} unacked:3\n").rows()
    assert row["notsent_bytes"] is None  # 40,000 octets wait, three segments are out: it does not print it


def test_socket_without_variables_says_nothing_of_them() -> None:
    (row, _) = read(f"ESTAB 0 0 {ENDS}\nESTAB 0 0 {ENDS} {OLD}\n").rows()
    assert (row["unacked_segments"], row["notsent_bytes"]) == (None, None)


STAMPS = ["{:.3f}", "[{:.3f}]", "time={:.3f}"]


@pytest.mark.parametrize("form", STAMPS)
@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("layout", ["ESTAB 0 9 ENDS DETAILS STAMP", "ESTAB 0 9 ENDS\n\t DETAILS STAMP"])
def test_stamp_at_the_end_of_a_line_is_after_the_reading(layout: str, seed: int, form: str) -> None:
    chance = random.Random(seed)
    stamps_s = [NOON_S + n / 10 + chance.randint(0, 9) / 1000 for n in range(20)]
    text = "".join(_line(layout, a_line(chance), form.format(at)) for at in stamps_s)
    table = read(text)
    assert (table["port_local"] == 37576).all()
    assert table["read_after_ns"].tolist() == [round(at * 1000 + 1) * 1_000_000 for at in stamps_s]
    assert [row["read_before_ns"] for row in table.rows()] == [None] * 20


def _line(layout: str, variables: str, stamp: str) -> str:
    return layout.replace("ENDS", ENDS).replace("DETAILS", variables).replace("STAMP", stamp) + "\n"


@pytest.mark.parametrize(
    "stamp", ["2025-11-21T12:00:00.25Z", "2025-11-21 13:00:00,25 +0100", "Fri Nov 21 12:00:00 UTC 2025"]
)
def test_dates_at_the_end_of_a_line_are_stamps_too(stamp: str) -> None:
    (row,) = read(f"ESTAB 0 0 {ENDS} {OLD} {stamp}\n").rows()
    assert row["time_ns"] // S == NOON_S
    assert row["cwnd_segments"] == 10


@pytest.mark.parametrize("layout", ["DETAILS STAMP", "STAMP DETAILS", "STAMP\n\t DETAILS", "\t DETAILS\nSTAMP"])
def test_lines_that_grep_left_are_one_assumed_connection(layout: str) -> None:
    chance = random.Random(layout)
    variables = [a_line(chance, snd_cwnd=n + 10) for n in range(12)]
    text = "".join(_line(layout, each, f"{NOON_S + n}.5") for n, each in enumerate(variables))
    table = read(text)
    assert table["cwnd_segments"].tolist() == list(range(10, 22))
    assert (np.diff(table["time_ns"]) == S).all()
    assert (table["ip_version"] == 0).all()
    assert "one connection" in " ".join(table.provenance["warnings"])


def test_sockets_that_grep_made_nameless_are_not_mixed() -> None:
    chance = random.Random(3)
    text = "".join(f"{NOON_S + n}.5\n\t {a_line(chance)}\n\t {a_line(chance)}\n" for n in range(4))
    table = read(text)
    assert (len(table), sum(table.provenance["skipped"].values())) == (0, 8)
    text += f"ESTAB 0 0 {ENDS} {a_line(chance)}\n"
    assert len(read(text)) == 1


def test_time_of_day_without_a_date_is_said_and_goes_on_past_midnight() -> None:
    chance = random.Random(4)
    begin = datetime(2025, 11, 21, 23, 59, 58, tzinfo=UTC).timestamp()
    clocks = [datetime.fromtimestamp(begin + n, tz=UTC).strftime("%H:%M:%S.5") for n in range(5)]
    for layout in ("STAMP DETAILS", "ESTAB 0 0 ENDS DETAILS STAMP", "STAMP\nESTAB 0 0 ENDS DETAILS"):
        table = read("".join(_line(layout, a_line(chance), clock) for clock in clocks))
        assert (np.diff(table["time_ns"]) == S).all(), layout
        assert "the date is not given" in " ".join(table.provenance["warnings"])
