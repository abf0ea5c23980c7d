"""Packets that were captured more than once are left out; what a sender sent again stays."""

from __future__ import annotations

import random
import struct
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from multitracer.analysis.streaming import StreamLimits
from multitracer.analysis.tcp import analyse
from multitracer.native import VARIABLE
from multitracer.recording.read import Need
from multitracer.recording.read import read as read_recording
from parsers import read_capture
from tests.parsers.copied import Path, Seen, Way, copied, file_of, later, transfer
from tests.parsers.frames import read, tcp

if TYPE_CHECKING:
    from pathlib import Path as File

    from multitracer.capture import CaptureTables


@dataclass(frozen=True)
class Case:
    """A transfer as one point sees it."""

    seed: int
    way: Way
    path: Path

    def alone(self) -> list[Seen]:
        return transfer(random.Random(self.seed), self.way, self.path)


cases = st.builds(
    Case,
    seed=st.integers(0, 2**32),
    way=st.builds(
        Way,
        version=st.sampled_from([4, 6]),
        has_ids=st.booleans(),
        stamps_ns=st.sampled_from([0, 1_000_000, 10_000_000]),
        sack=st.booleans(),
    ),
    path=st.builds(
        Path, loss=st.sampled_from([0.0, 0.02, 0.1]), gap_ns=st.sampled_from([2000, 12_000, 120_000, 1_000_000])
    ),
)
LINKS = ["sll2", "sll", "plain", "routed", "tagged", "interfaces"]


def counts(capture: CaptureTables) -> dict[str, str]:
    """Return all numbers of all connections and directions of a capture, as text, in which NaN equals NaN."""
    analysis = analyse(capture)
    tables = (analysis.connections, analysis.directions)
    return {name: str(table[name].tolist()) for table in tables for name in table.schema.names}


def assert_as_alone(whole: bytes, alone: bytes) -> CaptureTables:
    """Check that the analysis with copies is that of one point; return the capture."""
    found, wanted = read(whole), read(alone)
    ours, theirs = counts(found), counts(wanted)
    assert {name: (ours[name], theirs[name]) for name in ours if ours[name] != theirs[name]} == {}
    assert wanted.files[0].duplicates is None
    return found


ONE_WAY = st.sampled_from([None, False, True])
"""Which direction alone has copies; None: both."""


@settings(deadline=None, max_examples=60)
@given(case=cases, link=st.sampled_from(LINKS), points=st.integers(2, 4), apart_ns=st.integers(1000, 400_000),
       one_way=ONE_WAY)  # fmt: skip
def test_a_capture_with_copies_counts_as_one_without(
    case: Case, link: str, points: int, apart_ns: int, one_way: bool | None
) -> None:
    rng, version = random.Random(case.seed + 1), case.way.version
    alone, jitter_ns = case.alone(), 1000
    if link == "plain":  # nothing but the number tells which of some equal ACKs are copies: they must follow at once
        apart_ns, jitter_ns = min(apart_ns, (case.path.gap_ns // 2 - 10) // points), 1

    def copies(seen: Seen) -> list[Seen]:
        if one_way is not None and seen.back != one_way:
            return []
        return [later(seen, n * apart_ns + rng.randrange(jitter_ns), place=n) for n in range(1, points)]

    seen = copied(alone, copies)
    found = assert_as_alone(file_of(seen, link, version), file_of(alone, link, version))
    known = found.files[0].duplicates
    assert known is not None
    assert known.packets == len(seen) - len(alone)
    if one_way is None:
        assert (known.times, known.are_of_all) == (points, True)


@settings(deadline=None, max_examples=40)
@given(case=cases, link=st.sampled_from(LINKS), rtt_us=st.sampled_from([100, 1000, 20_000, 300_000]))
def test_nothing_is_left_out_where_nothing_was_copied(case: Case, link: str, rtt_us: int) -> None:
    path = replace(case.path, rtt_ns=rtt_us * 1000, loss=3 * case.path.loss)
    alone = replace(case, path=path).alone()
    capture = read(file_of(alone, link, case.way.version))
    assert capture.files[0].duplicates is None
    assert len(capture.segments) == len(alone)


@settings(deadline=None, max_examples=30)
@given(case=cases, link=st.sampled_from(["sll2", "routed", "interfaces"]))
def test_nothing_is_left_out_where_packets_take_two_paths(case: Case, link: str) -> None:
    rng = random.Random(case.seed + 1)
    seen = [replace(each, place=rng.randrange(2)) for each in case.alone()]
    capture = read(file_of(seen, link, case.way.version))
    assert capture.files[0].duplicates is None
    assert len(capture.segments) == len(seen)


@settings(deadline=None, max_examples=40)
@given(case=cases, link=st.sampled_from(["sll2", "sll", "routed"]), both=st.booleans(), lag_us=st.integers(5, 1900))
def test_a_flow_before_and_after_nat_is_one_connection(case: Case, link: str, both: bool, lag_us: int) -> None:  # drawn
    """The points are less than a tenth of the round trip apart: further apart, one of them counts, as below."""
    alone = case.alone()
    ends = ((77, 61000), (88, 8080) if both else (2, 80))
    seen = copied(alone, lambda s: [later(s, lag_us * (-1000 if s.back else 1000), place=1, ends=ends, hops=63)])
    found = analyse(read(file_of(seen, link, case.way.version)))
    first = [later(s, -1000 * lag_us * s.back) for s in alone]
    wanted = analyse(read(file_of(copied(first, lambda _: []), link, case.way.version)))
    assert len(found.connections) == 1
    assert found.ends(1) == wanted.ends(1)
    for name in ("packets", "payload_bytes", "unique_bytes", "retransmitted_segments", "duplicate_acks", "syn"):
        assert found.directions[name].tolist() == wanted.directions[name].tolist(), name
    known = found.capture.files[0].duplicates
    assert known is not None
    assert "translation of addresses" in known.where


@settings(deadline=None, max_examples=40)
@given(case=cases, link=st.sampled_from(["sll2", "interfaces"]), share=st.floats(0.15, 0.5))
def test_of_points_far_apart_the_one_at_the_sender_counts(case: Case, link: str, share: float) -> None:
    """As in a merged capture of both hosts, whose round trips would be one-way delays otherwise."""
    alone, lag_ns = case.alone(), int(share * case.path.rtt_ns)
    seen = copied(alone, lambda s: [later(s, -lag_ns if s.back else lag_ns, place=1)])
    assert_as_alone(file_of(seen, link, case.way.version), file_of(alone, link, case.way.version))


@settings(deadline=None, max_examples=30)
@given(case=cases, lag_us=st.integers(1, 3000))
def test_copies_at_one_point_may_be_late_if_all_packets_have_them(case: Case, lag_us: int) -> None:
    case = replace(case, path=Path(gap_ns=10_000_000, loss=case.path.loss, segments=30))
    alone, version = case.alone(), case.way.version
    seen = copied(alone, lambda s: [later(s, lag_us * 1000)])
    assert_as_alone(file_of(seen, "plain", version), file_of(alone, "plain", version))


def test_three_points_of_which_two_saw_one_way_each() -> None:
    """A trunk: one VLAN has both directions, two others have one each; all is one connection."""
    alone = transfer(random.Random(4), Way(), Path(segments=4))
    seen = copied(alone, lambda s: [later(s, 4000, place=1 + s.back)])
    for order in ((0, 1, 2), (2, 0, 1), (1, 2, 0)):
        moved = [replace(s, place=order[s.place]) for s in seen]
        found = read(file_of(moved, "tagged", 4))
        assert len(found.flows) == 1
        assert len(found.segments) == len(alone)


def test_connections_that_only_look_alike_stay_apart() -> None:
    """A program that builds packets gives each client the same sequence numbers, at about the same time."""
    rng = random.Random(5)
    alone = transfer(rng, Way(has_ids=False, stamps_ns=0))
    seen = copied(alone, lambda each: [later(each, 40_000, ends=((9, 1000), (2, 80)), place=1, hops=60)])
    assert len(analyse(read(file_of(seen, "sll2", 4))).connections) == 2


@settings(deadline=None, max_examples=40)
@given(case=cases, share=st.sampled_from([0.05, 0.3]), link=st.sampled_from(LINKS))
def test_a_part_of_the_packets_captured_twice_is_found(case: Case, share: float, link: str) -> None:
    rng, way = random.Random(case.seed + 1), case.way
    alone = replace(case, path=Path(segments=400, loss=0.02)).alone()
    seen = copied(alone, lambda s: [later(s, rng.randrange(1000, 8000), place=1)] if rng.random() < share else [])
    found, wanted = (read(file_of(each, link, way.version)) for each in (seen, alone))
    ours, theirs = counts(found), counts(wanted)
    if link != "plain" or (way.has_ids and way.version == 4):
        assert ours == theirs
    else:  # of ACKs alone, and of one FIN, nothing tells
        for name in ("retransmitted_segments", "unique_bytes", "data_segments"):
            assert ours[name].split()[0] == theirs[name].split()[0], name


def test_what_the_network_duplicated_stays() -> None:
    """The receiver says so by D-SACK."""
    rng = random.Random(8)
    way = Way(sack=True)
    seen = []
    for each in transfer(rng, way, Path(loss=0.0)):
        seen.append(each)
        size = len(each.segment) - 4 * (each.segment[12] >> 4)
        if size and rng.random() < 0.2:
            seen.append(later(each, 3000))
            seq = struct.unpack_from(">I", each.segment, 4)[0]
            told = b"\x05\x0a" + struct.pack(">II", seq, (seq + size) % 2**32)
            answer = tcp(seq=1, ack=(seq + size) % 2**32, flags=0x10, options=told)
            seen.append(Seen(each.time_ns + 10_000_000, not each.back, answer, 0))
    capture = read(file_of(sorted(seen, key=lambda each: each.time_ns), "plain", 4))
    assert capture.files[0].duplicates is None
    assert len(capture.segments) == len(seen)


def test_copies_lost_between_two_points_count_where_they_were_seen() -> None:
    rng = random.Random(3)
    alone = transfer(rng, Way(version=6), Path(loss=0.03))
    for missed in (0.02, 0.2):
        seen = copied(alone, lambda s: [later(s, 90_000 * n, place=n) for n in (1, 2) if rng.random() >= missed])  # noqa: B023
        assert_as_alone(file_of(seen, "sll2", 6), file_of(alone, "sll2", 6))


def test_files_that_overlap_are_different_captures(tmp_path: File) -> None:
    seen = transfer(random.Random(2), Way())
    for place in (0, 1):
        (tmp_path / f"{place}.pcap").write_bytes(file_of([replace(s, place=place) for s in seen], "sll2", 4))
    capture = read_capture([tmp_path / "0.pcap", tmp_path / "1.pcap"])
    assert len(capture.segments) == 2 * len(seen)


# --- every way of reading ---


@pytest.mark.parametrize("link", LINKS)
@pytest.mark.parametrize("native", ["0", "1"])
def test_all_ways_of_reading_leave_the_copies_out(
    link: str, native: str, tmp_path: File, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(VARIABLE, native)
    rng = random.Random(link)
    alone = transfer(rng, Way(has_ids=False), Path(segments=3000, loss=0.01))
    seen = copied(alone, lambda s: [later(s, 2000 * n, place=n) for n in (1, 2)])
    (tmp_path / "copies.pcap").write_bytes(file_of(seen, link, 4))
    (tmp_path / "alone.pcap").write_bytes(file_of(alone, link, 4))
    for need in (Need.NUMBERS, Need.SEGMENTS):
        found, wanted = (
            read_recording(tmp_path / name, need=need).captures[0] for name in ("copies.pcap", "alone.pcap")
        )
        for name in ("packets", "retransmitted_segments", "duplicate_acks", "rtt_count", "syn"):
            assert found.analysis.directions[name].tolist() == wanted.analysis.directions[name].tolist(), name
    if link == "tagged":
        return  # as a stream, flows of several VLANs are never joined
    limits = StreamLimits(rows=500)
    found, wanted = (
        read_recording(tmp_path / name, limits=limits).captures[0] for name in ("copies.pcap", "alone.pcap")
    )
    for name in ("packets", "retransmitted_segments", "duplicate_acks", "syn"):
        assert found.analysis.directions[name].tolist() == wanted.analysis.directions[name].tolist(), name


def test_a_stream_of_connections_that_end_leaves_the_copies_of_each_out(tmp_path: File) -> None:
    rng = random.Random(7)
    alone: list[Seen] = []
    for number in range(60):
        one = transfer(rng, Way(has_ids=False), Path(segments=rng.randrange(20, 120)))
        begin_ns = alone[-1].time_ns + 10**9 - one[0].time_ns if alone else 0
        ends = ((1, 2000 + number), (2, 80))
        alone += [replace(seen, time_ns=seen.time_ns + begin_ns, ends=ends) for seen in one]
    seen = copied(alone, lambda each: [later(each, 2000, place=1)])
    (tmp_path / "copies.pcap").write_bytes(file_of(seen, "sll2", 4))
    (tmp_path / "alone.pcap").write_bytes(file_of(alone, "sll2", 4))
    limits = StreamLimits(rows=300, closed_ns=2 * 10**9, idle_ns=2 * 10**9)
    found, wanted = (
        read_recording(tmp_path / name, limits=limits).captures[0] for name in ("copies.pcap", "alone.pcap")
    )
    assert len(found.analysis.connections) == 60
    for name in ("packets", "retransmitted_segments", "duplicate_acks", "syn", "fin"):
        assert found.analysis.directions[name].tolist() == wanted.analysis.directions[name].tolist(), name


# --- reported captures ---


@pytest.mark.fixtures
@pytest.mark.parametrize("native", ["0", "1"])
@pytest.mark.parametrize(
    ("name", "times", "packets", "where"),
    [
        ("k8s_any_ipv6.pcap.gz", 3, 607, "interfaces 9, 5 and 2"),
        ("k8s_any_ipv6_two.pcap.gz", 2, 607, "interfaces 9 and 2"),
        ("any_interleaved_ipid0.pcap.gz", 3, 458, "interfaces 2, 5 and 9"),
        ("any_three_ifaces.pcap.gz", 3, 458, "interfaces 2, 5 and 9"),
        ("router_any_nat.pcap.gz", 2, 907, "interfaces 3 and 2, before and after a translation of addresses"),
        ("public/oracle.pcap", 2, 4, "VLANs 300 and 50"),
    ],
)
def test_reported_captures_hold_each_packet_once(  # noqa: PLR0917  # of a parametrised test
    native: str, name: str, times: int, packets: int, where: str, fixture_folder: File, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(VARIABLE, native)
    capture = read_recording(fixture_folder / "reports" / name, need=Need.NUMBERS).captures[0]
    directions, copies = capture.analysis.directions, capture.tables.files[0].duplicates
    assert len(capture.analysis.connections) == 1
    assert directions["packets"].sum() == packets
    assert directions["retransmitted_segments"].sum() == 0
    assert copies is not None
    assert (copies.times, copies.where) == (times, where)
    notes = {note.code: note for note in capture.analysis.trust.notes}
    assert notes["duplicates-left-out"].count == capture.tables.files[0].packets - packets
    if name == "any_interleaved_ipid0.pcap.gz":
        assert directions["rtt_p50_ns"][0] == 50_000_000
