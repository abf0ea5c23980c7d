"""`export segments`: each segment of one capture with its kind and the verdict on it, as CSV."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.csv as pc

from multitracer.analysis.segments.segment_class import SegmentClass
from multitracer.analysis.two_points import Counterparts
from multitracer.analysis.verdicts import Necessity, RetransmissionCause, evidence_words, word
from multitracer.diagnosis.segment_verdicts import NO_VERDICT, main_capture, segment_verdicts
from multitracer.endpoints import host_text
from multitracer.errors import InputError
from multitracer.recording.inputs import Inputs
from multitracer.recording.recording import Recording
from multitracer.tables import NOT_A_TIME

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import TextIO

    from multitracer.diagnosis.segment_verdicts import SegmentVerdicts
    from multitracer.recording.capture import Capture
    from multitracer.tables import Array

COLUMNS = (
    "frame", "time_ns", "src", "dst", "sport", "dport", "seq", "seq_rel", "payload_bytes", "kind", "cause",
    "necessity", "evidence",
)  # fmt: skip
_ROWS_AT_ONCE = 1 << 17


def both_captures(sender: Recording, receiver: Recording) -> Recording:
    """Return a recording with two captures, one from each of two recordings: at the sender, at the receiver.

    Raises
    ------
    InputError
        If the two captures have no packet in common.
    """
    near = main_capture(sender).behind(None)
    far = main_capture(receiver).behind(near)
    if not Counterparts(near.analysis, far.analysis).all():
        raise InputError(
            f"{far.point.name}: this capture has no packet in common with {near.point.name}; name a "
            "capture of the same connections"
        )
    inputs = Inputs(near.point.name, [near.point, far.point])
    return Recording(inputs, [near, far], sender_point=near.point.name)


def write_segments(stream: TextIO, recording: Recording) -> None:
    """Write CSV lines for the segments in the capture nearest to the sender of most data."""
    capture = main_capture(recording)
    rows = segment_verdicts(recording, capture)
    stream.write(",".join(COLUMNS) + "\n")
    for text in _chunks(capture, rows):
        stream.write(text)


def _chunks(capture: Capture, rows: SegmentVerdicts) -> Iterable[str]:
    """Yield CSV text for all segments of a capture, in chunks of many lines."""
    segments = capture.tables.segments
    src, sport, dst, dport = _endpoint_columns(capture)
    words = _words(rows)
    options = pc.WriteOptions(include_header=False, quoting_style="none")
    for begin in range(0, len(segments), _ROWS_AT_ONCE):
        cut = slice(begin, begin + _ROWS_AT_ONCE)
        time_ns = segments["time_ns"][cut]
        columns = {
            "frame": segments["frame"][cut],
            "time_ns": pa.array(time_ns, mask=time_ns == NOT_A_TIME),
            "src": src(cut), "dst": dst(cut), "sport": sport[cut], "dport": dport[cut],
            "seq": segments["seq"][cut],
            "seq_rel": rows.seq_rel[cut],
            "payload_bytes": segments["payload_bytes"][cut],
        }  # fmt: skip
        columns |= {name: each(cut) for name, each in words.items()}
        sink = pa.BufferOutputStream()
        pc.write_csv(pa.table({name: columns[name] for name in COLUMNS}), sink, options)
        yield sink.getvalue().to_pybytes().decode("ascii")


def _endpoint_columns(
    capture: Capture,
) -> tuple[Callable[[slice], pa.Array], Array, Callable[[slice], pa.Array], Array]:
    """Return four columns of all segments: source, source port, destination, destination port.

    The addresses are functions that return the column for a slice of rows.
    """
    flows, flow = capture.tables.flows, capture.tables.segments["flow"]
    pair, backwards = flow >> 1, (flow & 1) == 1
    version = flows["ip_version"].tolist()
    texts = [
        host_text(v, packed)
        for end in "ab"
        for v, packed in zip(version, flows[f"address_{end}"].tolist(), strict=True)
    ]
    hosts = pa.array(texts, pa.string())
    sides = pair, pair + len(flows)
    source, target = np.where(backwards, sides[::-1], sides)
    ports = flows["port_a"][pair], flows["port_b"][pair]
    sport, dport = np.where(backwards, ports[::-1], ports)
    return _taken(hosts, source), sport, _taken(hosts, target), dport


def _taken(values: pa.Array, index: Array) -> Callable[[slice], pa.Array]:
    """Return a function of a slice of rows that returns `values[index]` for those rows."""
    return lambda cut: values.take(pa.array(index[cut]))


def _words(rows: SegmentVerdicts) -> dict[str, Callable[[slice], pa.Array]]:
    """Return the text columns by name, as functions of a slice of rows; without a verdict a cell is empty."""
    kinds = pa.array([each.word for each in SegmentClass])
    causes, needs = (pa.array([word(each) for each in words]) for words in (RetransmissionCause, Necessity))
    bits, which = np.unique(rows.evidence, return_inverse=True)
    evidence = pa.array([evidence_words(each) or None for each in bits.tolist()], pa.string())
    return {
        "kind": _taken(kinds, rows.kind),
        "cause": lambda cut: causes.take(_index(rows.cause[cut])),
        "necessity": lambda cut: needs.take(_index(rows.necessity[cut])),
        "evidence": _taken(evidence, which),
    }


def _index(values: Array) -> pa.Array:
    return pa.array(values, mask=values == NO_VERDICT)
