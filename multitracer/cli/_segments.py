"""`export segments`: each segment of one capture, with its kind and the verdict on retransmissions, as CSV.

The rows are those of one capture. Whatever else is there (the capture at the other end, the sender's state,
the link's log) only decides what the verdicts rest on. A direction whose sender is nearer to the other
capture is judged there, and the verdicts are carried over to the same packets here.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.csv as pc

from multitracer.analysis.segment_class import SegmentClass, classify
from multitracer.analysis.two_points import match, same_connections
from multitracer.analysis.verdicts import Beside, Cause, Necessity, evidence_words, judge, word
from multitracer.recording import host_text
from multitracer.tables import NOT_A_TIME

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import TextIO

    from multitracer.diagnosis.transfer import Transfer
    from multitracer.recording import Part, Recording
    from multitracer.tables import Array, Table

COLUMNS = (
    "frame", "time_ns", "src", "dst", "sport", "dport", "seq", "seq_rel", "payload_bytes", "kind", "cause",
    "necessity", "evidence",
)  # fmt: skip
_ROWS_AT_ONCE = 1 << 17
_AT_SENDER = 1
_NO_VERDICT = np.uint8(255)


@dataclass(slots=True)
class _Judged:
    """The verdicts on one direction, as rows of the capture in which it was judged."""

    segments: Table
    """TCP_SEGMENTS there."""
    verdicts: Table
    here: bool
    """Whether that capture is the one that is written."""


@dataclass(slots=True)
class _Rows:
    """What is concluded of each segment of a capture."""

    seq_rel: Array
    kind: Array
    cause: Array
    necessity: Array
    evidence: Array

    @classmethod
    def blank(cls, rows: int) -> _Rows:
        none = np.full(rows, _NO_VERDICT)
        kind = np.zeros(rows, np.uint8)
        return cls(np.zeros(rows, np.int64), kind, none, none.copy(), np.zeros(rows, np.uint32))


@dataclass(slots=True)
class Judge:
    """Finds the verdicts on a direction of a connection of `part`, by all that is there.

    Parameters
    ----------
    part : Part
        The capture that is written.
    recording : Recording, optional
        The session that it is of, whose other captures and logs are evidence too.
    receiver : Part, optional
        A capture made at the receiver of most of the data.
    """

    part: Part
    recording: Recording | None = None
    receiver: Part | None = None
    numbers: dict[int, int] = field(default_factory=dict, init=False)
    """Connections here -> the same at the receiver."""
    transfers: dict[tuple[int, bool], Transfer] = field(default_factory=dict, init=False)
    """What was read already, by connection and direction."""

    def __post_init__(self) -> None:
        if self.receiver is not None:
            self.numbers = dict(same_connections(self.part.analysis, self.receiver.analysis))

    def of(self, number: int, *, reverse: bool) -> _Judged:
        """Return the verdicts on one direction of connection `number` (from 1)."""
        if self.recording is not None:
            return self._by_session(number, reverse=reverse)
        other = self.numbers.get(number)
        if self.receiver is None or other is None:
            return _judged(self.part, number, reverse=reverse, vantage=_vantage(self.part, number, reverse))
        ends = [(self.part, number), (self.receiver, other)]
        if not self._is_sender(number, reverse=reverse):
            ends.reverse()
        (near, here), (far, there) = ends
        beside = Beside(receiver=far.analysis.tcp_segments(there))
        found = _judged(near, here, reverse=reverse, vantage=_AT_SENDER, beside=beside)
        found.here = near is self.part
        return found

    def _is_sender(self, number: int, *, reverse: bool) -> bool:
        """Return whether the written capture is at the sender; where round trips do not tell, by the data."""
        vantage = _vantage(self.part, number, reverse)
        bulk = bool(self.part.analysis.connections["bulk_direction"][number - 1])
        return vantage == _AT_SENDER or (vantage in {0, 3} and reverse == bulk)

    def _by_session(self, number: int, *, reverse: bool) -> _Judged:
        from multitracer.diagnosis.transfer import Transfer

        assert self.recording is not None
        transfer = self.transfers.get((number, reverse))
        if transfer is None:
            transfer = Transfer.of(self.recording, self.part.offset + number, reverse=reverse)
        return _Judged(transfer.sender, transfer.verdicts, transfer.layers.part is self.part)


def _vantage(part: Part, number: int, reverse: bool) -> int:
    return int(part.analysis.directions["vantage"][2 * (number - 1) + reverse])


def _judged(part: Part, number: int, *, reverse: bool, vantage: int, beside: Beside | None = None) -> _Judged:
    segments = part.analysis.tcp_segments(number)
    sacks = part.analysis.sack_blocks(number)
    known = beside or Beside()
    return _Judged(
        segments, judge(segments, sacks, reverse=reverse, vantage=vantage, beside=known), here=True
    )


def write_segments(stream: TextIO, judge_of: Judge) -> None:
    """Write the CSV of a capture."""
    part = judge_of.part
    rows = _Rows.blank(len(part.capture.segments))
    for number in range(1, len(part) + 1):
        _fill(rows, judge_of, number)
    stream.write(",".join(COLUMNS) + "\n")
    for text in _pieces(part, rows):
        stream.write(text)


def _fill(rows: _Rows, judge_of: Judge, number: int) -> None:
    """Write what is known of one connection into its rows, in place."""
    part, directions = judge_of.part, judge_of.part.analysis.directions
    own = part.analysis.partition.rows_of(number - 1)
    segments = part.analysis.tcp_segments(number)
    pair = slice(2 * (number - 1), 2 * number)
    at_sender = tuple((directions["vantage"][pair] == _AT_SENDER).tolist())
    kind = classify(segments, at_sender=at_sender)
    rows.kind[own] = kind
    rows.seq_rel[own] = segments["seq_bytes"] - _first_data_unit(segments, directions["syn"][pair] > 0)
    resent = kind == SegmentClass.RETRANSMISSION
    for reverse in (False, True):
        asked = np.flatnonzero(resent & (segments["reverse"] == reverse))
        if len(asked):
            _carry(rows, own, segments, asked, judge_of.of(number, reverse=reverse))


def _first_data_unit(segments: Table, has_syn: Array) -> Array:
    """Return for each segment where its direction's first data byte lies: behind the SYN, else the first."""
    first = [1, 1]
    for side in (0, 1):
        if not has_syn[side]:
            data = segments["seq_bytes"][
                (segments["reverse"] == bool(side)) & (segments["payload_bytes"] > 0)
            ]
            first[side] = int(data.min()) if len(data) else 0
    return np.where(segments["reverse"], first[1], first[0])


def _carry(rows: _Rows, own: Array, segments: Table, asked: Array, found: _Judged) -> None:
    """Write verdicts at the rows of `segments` that are `asked`, in place."""
    verdicts = found.verdicts
    if found.here:
        at, which = _same(asked, verdicts["row"])
    else:
        index, which = match(segments, asked, found.segments, verdicts["row"])
        at = asked[index]
    rows.cause[own[asked]] = Cause.UNKNOWN
    rows.necessity[own[asked]] = Necessity.UNDECIDED
    for name in ("cause", "necessity", "evidence"):
        getattr(rows, name)[own[at]] = verdicts[name][which]


def _same(asked: Array, judged: Array) -> tuple[Array, Array]:
    common, _, which = np.intersect1d(asked, judged, assume_unique=True, return_indices=True)
    return common, which


def _pieces(part: Part, rows: _Rows) -> Iterable[str]:
    """Yield the lines of all segments, many at a time."""
    segments = part.capture.segments
    src, sport, dst, dport = _ends(part)
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


def _ends(part: Part) -> tuple[Any, Array, Any, Array]:
    """Return source, port, destination and port of all segments; addresses as functions of a slice."""
    flows, flow = part.capture.flows, part.capture.segments["flow"]
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


def _taken(values: Any, index: Array) -> Callable[[slice], Any]:
    """Return what gives values[index] of a slice."""
    return lambda cut: values.take(pa.array(index[cut]))


def _words(rows: _Rows) -> dict[str, Any]:
    """Return the columns of words as functions of a slice; no verdict is an empty cell."""
    kinds = pa.array([each.word for each in SegmentClass])
    causes, needs = (pa.array([word(each) for each in words]) for words in (Cause, Necessity))
    bits, which = np.unique(rows.evidence, return_inverse=True)
    evidence = pa.array([evidence_words(each) or None for each in bits.tolist()], pa.string())
    return {
        "kind": _taken(kinds, rows.kind),
        "cause": lambda cut: causes.take(_index(rows.cause[cut])),
        "necessity": lambda cut: needs.take(_index(rows.necessity[cut])),
        "evidence": _taken(evidence, which),
    }


def _index(values: Array) -> Any:
    return pa.array(values, mask=values == _NO_VERDICT)


def judge_of(file: str, receiver: str | None) -> Judge:
    """Read and analyse what the user named; return what judges the retransmissions of its main capture.

    Raises
    ------
    InputError
        If something cannot be read, or the two captures share no connection.
    """
    from multitracer.cli._load import load
    from multitracer.cli._options import Reading, Window
    from multitracer.errors import InputError

    names = [name for name in (file, receiver) if name is not None]
    recordings = [load(Reading((name,), None, Window(), None)) for name in names]
    if receiver is not None:
        found = Judge(_main_part(recordings[0]), receiver=_main_part(recordings[1]))
        if not found.numbers:
            raise InputError(
                f"{receiver}: shares no packet with {file}; name a capture of the same connections"
            )
        return found
    if recordings[0].session.folder is None:
        return Judge(_main_part(recordings[0]))
    return _judge_of_session(recordings[0])


def _main_part(recording: Recording) -> Part:
    """Return the capture with the largest connection."""
    return recording.largest()[0] if len(recording) else recording.parts[0]


def _judge_of_session(recording: Recording) -> Judge:
    """Return what judges a session by all its logs; the capture is that nearest to most data's sender."""
    from multitracer.diagnosis.transfer import Transfer

    if not len(recording):
        return Judge(recording.parts[0])
    transfer = Transfer.of(recording)
    layers = transfer.layers
    found = Judge(layers.part, recording)
    found.transfers[layers.connection, transfer.reverse] = transfer
    return found
