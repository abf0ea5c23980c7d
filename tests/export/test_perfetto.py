"""`export perfetto`: a trace that Perfetto's own protobuf reads, with the packets of our tables."""

from __future__ import annotations

import resource
import shutil
from collections import Counter, defaultdict
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from multitracer.export import perfetto
from multitracer.export.explained import explained
from multitracer.export.perfetto import double, integer, text
from multitracer.recording.read import read
from tests.analysis.pcap_file import write_pcap
from tests.analysis.traffic import ACK, MS, START_NS, Segment, handshake
from tests.cli.program import call, run
from tests.conftest import SAMPLES
from tests.export.lossy_capture import lossy

if TYPE_CHECKING:
    from pathlib import Path

perfetto_trace = pytest.importorskip("perfetto.protos.perfetto.trace.perfetto_trace_pb2")
SESSION = SAMPLES / "fig8-resets-vj"
BEGIN, END, INSTANT, COUNTER = 1, 2, 3, 4


class Read:
    """A trace as Perfetto's protobuf reads it."""

    def __init__(self, path: Path) -> None:
        self.trace: Any = perfetto_trace.Trace()
        self.trace.ParseFromString(path.read_bytes())
        self.tracks = {p.track_descriptor.uuid: p.track_descriptor for p in self.trace.packet}
        self.events = [(p.timestamp, p.track_event) for p in self.trace.packet if p.HasField("track_event")]

    def slices(self, track: str) -> list[tuple[int, int, str]]:
        """Return begin, end and name of the slices on tracks of a name."""
        found, open_ones = [], {}
        for time, event in self.events:
            if self.tracks[event.track_uuid].name != track:
                continue
            if event.type == BEGIN:
                assert event.track_uuid not in open_ones
                open_ones[event.track_uuid] = time, event.name
            elif event.type == END:
                begin, name = open_ones.pop(event.track_uuid)
                found.append((begin, time, name))
        assert not open_ones
        return found

    def counter(self, name: str) -> list[tuple[int, float]]:
        own = [(t, e) for t, e in self.events if self.tracks[e.track_uuid].name == name]
        return [(t, e.double_counter_value or e.counter_value) for t, e in own if e.type == COUNTER]


def exported(output: Path, *args: str | Path) -> Read:
    call("export", "perfetto", *args, "-o", output)
    return Read(output)


@pytest.fixture(scope="module")
def trace(tmp_path_factory: pytest.TempPathFactory) -> Read:
    return exported(tmp_path_factory.mktemp("trace") / "out.pftrace", SESSION)


@given(st.integers(-(2**63), 2**63 - 1), st.floats(allow_nan=False), st.text(st.characters(codec="utf-8")))
def test_fields_are_read_back(number: int, real: float, words: str) -> None:
    note = perfetto_trace.DebugAnnotation()
    note.ParseFromString(integer(4, number))
    assert note.int_value == number
    note.ParseFromString(double(5, real))
    assert note.double_value == real
    note.ParseFromString(text(10, words))
    assert note.name == words


def test_nothing_is_unknown_to_perfetto(trace: Read) -> None:
    assert not list(_unknown(trace.trace))
    assert len(trace.events) > 1000


def _unknown(message: Any) -> list[Any]:
    from google.protobuf.unknown_fields import UnknownFieldSet

    found = list(UnknownFieldSet(message))
    for field, value in message.ListFields():
        if field.message_type is not None:
            for each in value if field.is_repeated else [value]:
                found += _unknown(each)
    return found


def test_limits_are_those_of_the_diagnosis(trace: Read) -> None:
    diagnosis = explained(read(SESSION))
    assert diagnosis is not None
    table = diagnosis.limited.table
    names = [f"{limit} ({part})" if part else limit for limit, part in zip(table["limit"], table["part"], strict=True)]
    ours = list(zip(table["begin_ns"].tolist(), table["end_ns"].tolist(), names, strict=True))
    assert trace.slices("limits") == ours
    assert Counter(name for _, _, name in trace.slices("findings")) == Counter(f.kind for f in diagnosis.findings)
    assert [name for _, _, name in trace.slices("answer")] == [diagnosis.headline.sentence]


def test_a_segment_lasts_until_its_ack(trace: Read) -> None:
    recording = read(SESSION)
    diagnosis = explained(recording)
    assert diagnosis is not None
    sender, data = diagnosis.transfer.sender, diagnosis.transfer.data
    slices = trace.slices("data")
    sent = {begin for begin, _, name in slices if name not in ("SYN", "FIN")}
    assert sent == set(sender["time_ns"][data].tolist())
    once = data[(sender["rtt_ns"][data] > 0)]
    until = {(begin, end) for begin, end, _ in slices}
    exact = [(int(sender["time_ns"][r]), int(sender["time_ns"][r] + sender["rtt_ns"][r])) for r in once]
    assert len(exact) > 100
    assert sum(each in until for each in exact) > 0.98 * len(exact)  # of a delayed one an earlier ACK may cover it


def test_slices_of_a_track_do_not_overlap(trace: Read) -> None:
    tracks = defaultdict(list)
    for time, event in trace.events:
        if event.type in (BEGIN, END):
            tracks[event.track_uuid].append(time)
    for times in tracks.values():
        assert times == sorted(times)


def test_arrows_lead_from_the_loss_to_its_repair_and_to_the_ack(tmp_path: Path) -> None:
    trace = exported(tmp_path / "out", lossy(tmp_path))
    chain = [(t, e.name) for t, e in trace.events if 1 in [*e.flow_ids, *e.terminating_flow_ids]]
    ms = [(t - START_NS) // MS for t, _ in sorted(chain)]
    names = [name for _, name in sorted(chain)]
    assert names == ["lost", "sent again (fast, necessary)", "ACK"]
    assert ms == [61, 121, 181]
    lost = next(each for each in trace.slices("data") if each[2] == "lost")
    assert (lost[1] - lost[0]) // MS == 60  # it ends where it is sent again
    assert "window closed" in [e.name for _, e in trace.events]


def test_counters_have_the_values_of_the_series(trace: Read) -> None:
    diagnosis = explained(read(SESSION))
    assert diagnosis is not None
    series = diagnosis.transfer.series
    for label in ("TcpSnd_cwnd", "TcpSnd_rtt", "TcpSnd_flight", "TcpSnd_rto"):
        ours = series[label]
        assert trace.counter(label) == list(zip(ours["time_ns"].tolist(), ours["value"].tolist(), strict=True))
    assert trace.counter("goodput")
    units = {t.name: t.counter.unit for t in trace.tracks.values() if t.HasField("counter")}
    assert (units["TcpSnd_cwnd"], units["TcpSnd_rtt"]) == (3, 1)  # bytes, ns


def test_the_radio_of_a_drive_is_a_counter(tmp_path: Path) -> None:
    trace = exported(tmp_path / "out", SAMPLES / "rehearsed-drive")
    assert any(t.name.startswith("Radio_") for t in trace.tracks.values())


def test_link_time_is_that_of_the_link(tmp_path: Path) -> None:
    session = SAMPLES / "fig5-typical"
    speed = read(session).speed
    begin, end, _ = exported(tmp_path / "out", session).slices("answer")[0]
    diagnosis = explained(read(session))
    assert diagnosis is not None
    assert (end - begin) / 1e9 == pytest.approx(diagnosis.limited.total_s, rel=1e-6)
    assert speed > 0


def test_more_in_flight_than_there_is_room_for_is_said(tmp_path: Path) -> None:
    many = perfetto.MOST_IN_FLIGHT + 50
    burst = [Segment(0, 1001 + 100 * i, 100, ACK, 5001) for i in range(many)]
    path = write_pcap(tmp_path / "in.pcap", [*handshake(), *burst, Segment(1, 5001, 0, ACK, 1001 + 100 * many)])
    done = call("export", "perfetto", path, "-o", tmp_path / "out")
    assert "50 segments drawn without a length" in done.stderr
    trace = Read(tmp_path / "out")
    assert len({t.uuid for t in trace.tracks.values() if t.name == "data"}) == perfetto.MOST_IN_FLIGHT


def test_a_stretch_holds_its_packets_alone(tmp_path: Path) -> None:
    complete = {begin for begin, _, _ in exported(tmp_path / "all", SESSION).slices("data")}
    part = exported(tmp_path / "part", SESSION, "--from", "10", "--to", "20")
    begin = min(complete)
    own = {each for each, _, _ in part.slices("data")}
    assert own
    assert own < complete
    assert all(10e9 <= each - begin < 20e9 for each in own)
    values = part.counter("TcpSnd_cwnd")
    assert values
    assert all(10e9 <= time - begin < 20e9 for time, _ in values)


def test_hostile_names_are_printable(tmp_path: Path) -> None:
    evil = tmp_path / "\x1b[2J\u202e<script>.pcap"
    shutil.copy(lossy(tmp_path), evil)
    call("export", "perfetto", evil, "-o", tmp_path / "out")
    written = (tmp_path / "out").read_bytes()
    assert "\u202e".encode() not in written
    process = Read(tmp_path / "out").tracks[1].process
    assert process.process_name == "\\x1b[2J\\u202e<script>.pcap"


def test_what_cannot_be_drawn_is_refused_in_a_sentence(tmp_path: Path) -> None:
    none = write_pcap(tmp_path / "none.pcap", [])
    refused = call("export", "perfetto", none, "-o", tmp_path / "out", status=1)
    assert "contains no transfer that can be explained" in refused.stderr
    one = write_pcap(tmp_path / "one.pcap", handshake()[:1])
    assert [name for _, _, name in exported(tmp_path / "out", one).slices("data")] == ["SYN"]


def test_a_full_disk_leaves_nothing_behind(tmp_path: Path) -> None:
    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, 20_000))

    done = run("export", "perfetto", SESSION, "-o", tmp_path / "out", status=1, preexec_fn=limit)
    assert "out: cannot write this file: File too large" in done.stderr
    assert not list(tmp_path.iterdir())


@pytest.mark.skipif(shutil.which("trace_processor_shell") is None, reason="needs trace_processor_shell")
def test_perfetto_finds_the_slices_and_the_arrows(tmp_path: Path) -> None:
    from perfetto.trace_processor import TraceProcessor, TraceProcessorConfig

    exported(tmp_path / "out", lossy(tmp_path))
    config = TraceProcessorConfig(bin_path=shutil.which("trace_processor_shell"))
    with TraceProcessor(trace=str(tmp_path / "out"), config=config) as processor:
        names = [row.name for row in processor.query("select name from slice where name = 'lost'")]
        arrows = [row.n for row in processor.query("select count(*) as n from flow")]
        wrong = [row.n for row in processor.query("select sum(value) as n from stats where severity = 'error'")]
    assert (names, arrows, wrong) == (["lost"], [2], [0])
