"""What is counted while a capture is read is what its segments tell, or they are asked for."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from multitracer import native
from multitracer.analysis import analyse
from multitracer.captured import CaptureMark
from multitracer.native import LIMITS
from multitracer.recording.read import Need, analysis_of, read
from parsers._capture.window import StreamWindow
from parsers._chunks import read_capture
from tests.analysis.test_engine_equals_oracle import exchanges
from tests.analysis.traffic import ACK, MS, SYN, Segment, capture, handshake
from tests.cli.program import call
from tests.conftest import SAMPLES
from tests.native.both import assert_same, counted, python_only
from tests.native.test_pass import long_transfer, timed
from tests.parsers.frames import ethernet, ipv4, pcap_file, tcp

if TYPE_CHECKING:
    from pathlib import Path


pytestmark = pytest.mark.skipif(native.kernel() is None, reason=f"captures are read by {native.state()}")

SESSION = SAMPLES / "cellular_upload" / "mobile" / "tcp-0.pcap.gz"
CAPTURES = sorted(path for path in SAMPLES.rglob("tcp-0.pcap*") if "damaged" not in path.parts)[:12]


def is_alike(segments: list[Segment], rows: int = 1000) -> bool:
    """Compare with the whole if the pieces were enough; return whether they were."""
    complete = capture(segments)
    analysis = counted(complete, rows)
    if analysis is not None:
        assert_same(analysis, analyse(complete))
    return analysis is not None


@given(st.data(), st.integers(0, 2**32))
def test_any_connections_in_any_pieces(data: st.DataObject, seed: int) -> None:
    parts = [data.draw(exchanges(pair=pair, longest=12)) for pair in range(data.draw(st.integers(1, 4)))]
    order = data.draw(st.permutations([p for p, part in enumerate(parts) for _ in part]))
    remaining = [iter(part) for part in parts]
    is_alike(timed([next(remaining[p]) for p in order], seed), data.draw(st.sampled_from((1, 3, 1000))))


@pytest.mark.parametrize("seed", range(6))
def test_long_transfers(seed: int) -> None:
    segments = long_transfer(seed, 3_000)
    assert is_alike(timed(segments, seed) if seed > 3 else segments)


def test_a_port_that_is_used_again_begins_a_connection() -> None:
    again = [replace(each, seq=each.seq + 70_000, ack=each.ack + 70_000) for each in handshake()]
    segments = [*handshake(), *again, *handshake(client=5)]
    assert is_alike(segments, 2)
    assert len(analyse(capture(segments)).connections) == 3


@pytest.mark.parametrize("at_once", [7, 1 << 16])
def test_steps_of_the_clock_show(at_once: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("multitracer.analysis.trust._AT_ONCE", at_once)
    segments, now_ns = handshake(client=0, server=0), 1_700_000_000_000_000_000
    for number in range(200):
        now_ns += 10 * MS + 5000 * MS * (number == 150)
        stamp = (number * 10, 1)
        segments.append(Segment(0, 1 + number, 1, ack=1, time_ns=now_ns, stamp=stamp, ip_id=number))
    segments[0] = replace(segments[0], stamp=(0, 0))
    complete = capture(segments)
    assert is_alike(segments, 7)
    steps = [note.sentence for note in analyse(complete).trust.notes if note.code == "clock-step"]
    assert "stepped 1 time, by +5.0" in steps[0]


@pytest.mark.parametrize(
    "unexpected",
    [
        pytest.param([Segment(1, 1, ack=1, window=0), Segment(0, 1, 1, ack=1)], id="a probe of one byte"),
        pytest.param([Segment(0, 1, 9, ack=1, marks=int(CaptureMark.FRAGMENT))], id="a fragment"),
        pytest.param([Segment(0, 1, 9, ack=1, ip_id=7), Segment(0, 1, 9, ack=1, ip_id=7)], id="a copy"),
    ],
)
def test_what_needs_all_segments_asks_for_them(unexpected: list[Segment]) -> None:
    segments = [replace(each, ip_id=7) for each in handshake()] + unexpected
    assert not is_alike(segments, 1)


def test_an_mss_that_comes_after_larger_segments_asks_for_all_segments() -> None:
    syn = Segment(0, 0, flags=SYN, options={"mss": 1460})
    answer = Segment(1, 9, flags=SYN | ACK, ack=1, options={"mss": 500})
    large = Segment(0, 1, 1500, ack=10)
    assert not is_alike([syn, large, answer], 1)
    assert is_alike([syn, answer, large], 1)


def test_more_connections_than_are_worth_it_ask_for_all_segments(monkeypatch: pytest.MonkeyPatch) -> None:
    segments = [Segment(0, 5, flags=SYN, pair=pair) for pair in range(40)]
    assert is_alike(segments)
    monkeypatch.setattr("multitracer.analysis.running.LIMITS", LIMITS._replace(few_connections=30))
    assert not is_alike(segments)


def test_begun_connections_are_kept_unless_they_are_most(monkeypatch: pytest.MonkeyPatch) -> None:
    segments = timed(long_transfer(1, 500), 1)
    assert is_alike(segments, 100)
    monkeypatch.setattr("multitracer.analysis.running.LIMITS", LIMITS._replace(few_kept=100))
    assert not is_alike(segments, 100)


@pytest.mark.parametrize("seed", range(5))
def test_what_python_decodes_takes_its_place_among_what_stays_in_the_kernel(
    seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng, frames, packets = random.Random(seed), [], Counter[int]()
    for number in range(600):
        connection = rng.randrange(1 + number // 20)
        place = packets[connection] + 2 * (connection % 3 == 0)  # a third has begun before
        flags, size = {0: (SYN, 0), 1: (SYN | ACK, 0)}.get(place, (ACK, rng.randrange(40)))
        is_answer = place == 1 or (place > 1 and rng.random() < 0.5)
        packets[connection] += 1
        sport, dport = (80, 1000 + connection) if is_answer else (1000 + connection, 80)
        segment = tcp(sport=sport, dport=dport, seq=number, flags=flags, payload=bytes(size))
        addresses = ("10.0.0.2", "10.0.0.1") if is_answer else ("10.0.0.1", "10.0.0.2")
        packet = ipv4(segment, source=addresses[0], destination=addresses[1], identification=number + 1)
        frames.append(ethernet(ipv4(packet, protocol=4) if rng.random() < 0.03 else packet))
    path = tmp_path / "mixed.pcap"
    path.write_bytes(pcap_file(frames))
    defaults = StreamWindow.__init__.__kwdefaults__
    assert defaults
    monkeypatch.setitem(defaults, "size", 4_000)
    monkeypatch.setattr("multitracer.recording.read._CHUNK_ROWS", rng.choice((1, 100, 1000)))
    kernel = native.kernel()
    assert kernel is not None
    analysis, complete = analysis_of(kernel, str(path)), read_capture([path])
    assert analysis is not None
    assert complete.files[0].protocols == analysis.capture.files[0].protocols
    assert (complete.segments["marks"] & CaptureMark.TUNNELLED.value).any()
    assert_same(analysis, analyse(complete))
    for name, values in complete.flows.columns.items():
        assert values.tobytes() == analysis.capture.flows[name].tobytes(), name


@pytest.mark.parametrize("path", CAPTURES, ids=lambda path: "-".join(path.parts[-3:-1]))
def test_recordings_without_their_segments(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("multitracer.recording.inputs.LARGE_BYTES", 0)
    monkeypatch.setattr("multitracer.recording.read._CHUNK_ROWS", 1000)
    fast, complete = read(path, need=Need.NUMBERS), read(path)
    assert not len(fast.captures[0].tables.segments)
    assert_same(fast.captures[0].analysis, complete.captures[0].analysis)
    assert repr(fast.captures[0].tables.files) == repr(complete.captures[0].tables.files)
    assert fast.warnings == complete.warnings


@pytest.mark.parametrize("form", [(), ("--json",), ("--csv",), ("-c", "2"), ("--fairness",), ("--from", "2")])
def test_analyze_says_the_same(form: tuple[str, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("multitracer.recording.inputs.LARGE_BYTES", 0)
    fast = call("analyze", *form, SESSION)
    with python_only():
        complete = call("analyze", *form, SESSION)
    assert (fast.stdout, fast.stderr) == (complete.stdout, complete.stderr)


def test_a_file_that_cannot_be_read_is_refused_in_the_same_words(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("multitracer.recording.inputs.LARGE_BYTES", 0)
    (tmp_path / "a.pcap").write_bytes(bytes.fromhex("d4c3b2a1") + bytes(3))
    fast = call("analyze", tmp_path / "a.pcap", status=1)
    with python_only():
        complete = call("analyze", tmp_path / "a.pcap", status=1)
    assert fast.stderr == complete.stderr
