"""What a capture does not hold is not asserted: it began late, lost packets, or cut them off."""

from __future__ import annotations

import gzip
import re
import struct
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import multitracer as mt
from multitracer.diagnosis.limits.names import Limit
from tests.analysis.pcap_file import write_pcap
from tests.analysis.traffic import MS
from tests.diagnosis.exchange import FULL, Exchange
from tests.diagnosis.talk import Talk

if TYPE_CHECKING:
    from collections.abc import Iterator

_RECORDINGS = Path(__file__).parents[1] / "causes" / "recordings"
_LINK = _RECORDINGS / "00154-bbr" / "session"
"""An upload with timestamps: the link is the limit for 99 % of the time."""
_FILE_HEADER, _RECORD_HEADER = 24, 16

Record = tuple[bytes, bytes]


def _records(capture: Path) -> tuple[bytes, list[Record]]:
    data = gzip.decompress(capture.read_bytes())
    return data[:_FILE_HEADER], list(_walk(data))


def _walk(data: bytes) -> Iterator[Record]:
    at = _FILE_HEADER
    while at < len(data):
        (length,) = struct.unpack_from("<I", data, at + 8)
        begin = at + _RECORD_HEADER
        yield data[at:begin], data[begin : begin + length]
        at = begin + length


def _end(data_sender: bool) -> Path:
    """Return the capture of an end."""
    return _LINK / ("mobile" if data_sender else "fixed") / "tcp-0.pcap.gz"


def _diagnosed(file: Path, header: bytes, records: list[Record]) -> dict[str, Any]:
    file.write_bytes(header + b"".join(head + body for head, body in records))
    return _told(file)


def _told(path: Path) -> dict[str, Any]:
    document: dict[str, Any] = mt.open(path).diagnose().document(intervals=True)
    seconds = sum(row["seconds"] for row in document["limits"])
    assert seconds == pytest.approx(document["limits_total_s"], abs=1e-5)
    ends = [(each["begin_ns"], each["end_ns"]) for each in document["intervals"]]
    assert all(one[1] == other[0] for one, other in pairwise(ends))
    return document


def _shares(document: dict[str, Any]) -> dict[str, float]:
    found: dict[str, float] = {}
    for row in document["limits"]:
        found[row["limit"]] = found.get(row["limit"], 0.0) + row["share"]
    return found


@pytest.mark.parametrize("data_sender", [True, False])
def test_what_the_capture_lost_in_the_middle_is_unknown(tmp_path: Path, data_sender: bool) -> None:
    header, records = _records(_end(data_sender))
    third = len(records) // 3
    document = _diagnosed(tmp_path / "hole.pcap", header, records[:third] + records[third + third // 2 :])
    shares = _shares(document)
    assert shares["unknown"] > 0.05
    assert shares["link"] + shares["unknown"] > 0.9
    assert "the capture lost packets" in document["headline"]["sentence"]
    assert "reordering" not in {finding["kind"] for finding in document["findings"]}


@pytest.mark.parametrize("data_sender", [True, False])
def test_without_a_syn_there_is_no_handshake(tmp_path: Path, data_sender: bool) -> None:
    header, records = _records(_end(data_sender))
    shares = _shares(_diagnosed(tmp_path / "late.pcap", header, records[len(records) // 4 :]))
    assert "handshake" not in shares
    assert shares["link"] > 0.9


def test_of_packets_without_options_nothing_is_sure(tmp_path: Path) -> None:
    header, records = _records(_end(data_sender=True))
    cut = [(head[:8] + struct.pack("<I", min(len(body), 40)) + head[12:], body[:40]) for head, body in records]
    document = _diagnosed(tmp_path / "cut.pcap", header, cut)
    assert {row["confidence"] for row in document["limits"] if row["limit"] != "handshake"} == {"weak"}


def test_a_window_of_unknown_scale_limits_nothing(tmp_path: Path) -> None:
    header, records = _records(_end(data_sender=True))
    few = records[len(records) // 2 : len(records) // 2 + 40]
    assert "receiver-window" not in _shares(_diagnosed(tmp_path / "few.pcap", header, few))


def test_packets_that_all_carry_one_time_tell_nothing(tmp_path: Path) -> None:
    header, records = _records(_end(data_sender=True))
    document = _diagnosed(tmp_path / "a.pcap", header, [(bytes(8) + head[8:], body) for head, body in records])
    assert [(row["limit"], row["confidence"]) for row in document["limits"]] == [("unknown", "weak")]
    assert "all packets carry the same time" in document["headline"]["sentence"]
    assert document["findings"] == []


@pytest.mark.parametrize(("missed", "handshake"), [(1 / 16, 0.0), (1 / 4, 0.02)])
def test_what_a_late_capture_at_the_sender_missed_is_no_handshake(
    tmp_path: Path, missed: float, handshake: float
) -> None:
    """The receiver's capture has the SYN, but what the sender did until its own began is in neither.

    Where much was missed the receiver's capture alone tells all, with the handshake that it has.
    """
    for data_sender, host in ((True, "mobile"), (False, "fixed")):
        header, records = _records(_end(data_sender))
        kept = records[int(missed * len(records)) :] if data_sender else records
        (tmp_path / host).mkdir()
        file = tmp_path / host / "tcp-0.pcap"
        file.write_bytes(header + b"".join(head + body for head, body in kept))
    shares = _shares(_told(tmp_path))
    assert shares.get("handshake", 0.0) <= handshake
    assert shares["link"] > 0.95


def test_a_window_whose_scale_only_a_chat_tells_limits_nothing(tmp_path: Path) -> None:
    """The least scale at which the messages of a chat fit its windows makes these look full."""
    exchange = Exchange(rtt_ms=50)
    for turn in range(40):
        seq, ack = 1_001 + 316 * turn, 5_001 + 40 * turn
        exchange.note(turn * 50, 0, seq=seq, ack=ack, payload=316, window=63)
        exchange.note(turn * 50 + 49, 1, seq=ack, ack=seq + 316, payload=40, window=63)
    found = exchange.diagnosed(tmp_path)
    assert found.headline.limit is Limit.APPLICATION
    assert not any(row.limit is Limit.RECEIVER_WINDOW for row in found.limited.shares)


def test_of_joined_segments_without_a_syn_the_common_measure_is_a_full_one(tmp_path: Path) -> None:
    """Else those joined from fewer would be short ones, after which nothing waits at the sender."""
    for file, is_cut in (("whole.pcap", False), ("cut.pcap", True)):
        exchange = Exchange(rtt_ms=50).opened()
        at_ms, number = 60.0, 0
        for turn in range(40):
            many = 3 + 2 * (turn % 2)
            for size in (2, many):  # joined from two segments, and from three or five
                exchange.note(at_ms, 0, seq=1_001 + number * FULL, ack=5_001, payload=size * FULL)
                number, at_ms = number + size, at_ms + 9
            exchange.ack(at_ms + 41, number)
            at_ms += 41.1
        exchange.segments = exchange.segments[3:] if is_cut else exchange.segments
        folder = tmp_path / file
        folder.mkdir()
        seen = exchange.diagnosed(folder).limited.seen
        assert seen is not None
        assert seen.mss_bytes == FULL


def _steady(talk: Talk, count: int = 400) -> Talk:
    """Note a download of full segments, one each millisecond."""
    for number in range(count):
        at_ms = 2 * talk.rtt_ms + 5 + number
        talk.data(at_ms, number * talk.full)
        talk.ack(at_ms + 0.05, (number + 1) * talk.full)
    return talk


_RATE = re.compile(r"\d bit/s|[kMGT]bit/s")


@pytest.mark.parametrize("step_s", [7.3, -7.3, 0.8])
def test_over_a_step_of_the_clock_no_time_and_no_rate_is_told(tmp_path: Path, step_s: float) -> None:
    segments = _steady(Talk(1).opened()).segments
    half = len(segments) // 2
    shifted = [replace(each, time_ns=(each.time_ns or 0) + round(1000 * step_s * MS)) for each in segments[half:]]
    document = _told(write_pcap(tmp_path / "stepped.pcap", segments[:half] + shifted))
    assert {row["limit"] for row in document["limits"]} == {"unknown"}
    assert (
        f"the clock of the capture was set within this transfer, by {step_s:+.1f}" in document["headline"]["sentence"]
    )
    assert not _RATE.search(document["headline"]["sentence"])
    assert document["findings"] == []
    assert document["trust"]["verdict"] == "poor"


def test_a_step_of_the_clock_before_a_connection_is_none_within_it(tmp_path: Path) -> None:
    """The second connection, to another port, begins after the clock was set."""
    first, second = (_steady(Talk(seed).opened()).segments for seed in (1, 2))
    half = len(first) // 2
    later_ns = round(1000 * 60 * MS)
    stepped = [replace(each, time_ns=(each.time_ns or 0) + later_ns // 2) for each in first[half:]]
    after = [replace(each, time_ns=(each.time_ns or 0) + later_ns, pair=1) for each in second]
    path = write_pcap(tmp_path / "both.pcap", first[:half] + stepped + after)
    session = mt.open(path)
    limits = [{row["limit"] for row in session.diagnose(number).document()["limits"]} for number in (1, 2)]
    assert limits[0] == {"unknown"}
    assert "unknown" not in limits[1]


@pytest.mark.fixtures
def test_a_reported_step_of_the_clock(fixture_folder: Path) -> None:
    document = _told(fixture_folder / "reports" / "step_fwd_7s.pcap.gz")
    assert "by +7.301 s" in document["headline"]["sentence"]
    assert not _RATE.search(document["headline"]["sentence"])
    assert document["headline"]["confidence"] == "weak"
    (reason,) = document["trust"]["reasons"]
    assert (reason["code"], "rates" in reason["affects"]) == ("clock-step", True)


def test_by_stamps_of_batches_nothing_is_sure(tmp_path: Path) -> None:
    segments = _steady(Talk(1).opened()).segments
    batched = [replace(each, time_ns=segments[number - number % 64].time_ns) for number, each in enumerate(segments)]
    document = _told(write_pcap(tmp_path / "batches.pcap", batched))
    assert {row["confidence"] for row in document["limits"] if row["limit"] != "handshake"} == {"weak"}
    assert [reason["code"] for reason in document["trust"]["reasons"]] == ["coarse-time"]


def _downloaded(folder: Path, seed: int) -> Limit:
    """Return the largest limit of a download at its receiver: equal amounts in each round trip, stamps of 100 ms."""
    talk = Talk(seed).opened()
    each, sent = talk.chance.randrange(10, 40), 0
    gap_ms = talk.chance.uniform(0.02, 0.2)
    for turn in range(60):
        for number in range(each):
            at_ms = (turn + 2) * talk.rtt_ms + 1 + number * gap_ms
            talk.data(at_ms, sent)
            sent += talk.full
            if number % 2:
                talk.ack(at_ms + 0.01, sent)
    first = talk.clocks[1]
    for number, segment in enumerate(talk.segments):
        own, other = segment.stamp or (0, 0)
        if segment.side:
            talk.segments[number] = replace(segment, stamp=(first + (own - first) // 100, other))
    return talk.diagnosed(folder).headline.limit


@pytest.mark.parametrize("seed", range(6))
def test_a_burst_in_each_round_trip_is_a_window_and_no_link(tmp_path: Path, seed: int) -> None:
    """Where a tick hides when data left, a rate that never changes looked like that of a link."""
    assert _downloaded(tmp_path, seed) in (Limit.SENDER_BUFFER, Limit.CONGESTION_WINDOW)


@pytest.mark.fixtures
@pytest.mark.parametrize("tick", ["10hz", "1000hz"])
def test_a_coarse_tick_of_timestamps_changes_no_answer(fixture_folder: Path, tick: str) -> None:
    document = _told(fixture_folder / "reports" / f"burst24_rtt80_{tick}.pcap.gz")
    assert document["headline"]["limit"] == "sender-buffer"
    assert document["headline"]["confidence"] == "weak"
