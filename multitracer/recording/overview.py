"""What a summary for people says: of a plain file by the native kernel alone, else of a recording.

Nothing here loads NumPy, unless a recording that was analysed brings its tables.
"""

from __future__ import annotations

from functools import partial
from math import isnan
from typing import TYPE_CHECKING, NamedTuple

from multitracer.analysis.trust.rules import Seen, Some, Trust, weighed
from multitracer.analysis.trust.stamp_rate import LEAST_SEGMENTS, SMALLEST_STEP_NS, stamp_rate
from multitracer.captured import WTCP_SYN, Mark
from multitracer.endpoints import host_port, host_text
from multitracer.native import kernel
from multitracer.recording.open import read_recording
from multitracer.recording.streaming.running import counted_by_kernel
from multitracer.recording.window import EVERYTHING
from multitracer.tcp import Initiator

if TYPE_CHECKING:
    from collections.abc import Sequence

    from multitracer import native
    from multitracer.analysis.trust.rules import Note
    from multitracer.captured import SourceFile
    from multitracer.native import CaptureFile
    from multitracer.recording.inputs import Inputs
    from multitracer.recording.open import Progress
    from multitracer.recording.part import Part
    from multitracer.recording.recording import Recording
    from multitracer.recording.window import Window
    from parsers._whole import Whole


class Line(NamedTuple):
    """A connection as a list of them shows it."""

    number: int
    """In the recording, from 1."""
    initiator: str
    responder: str
    forward_bytes: int
    reverse_bytes: int
    retransmitted_segments: int
    data_segments: int
    rtt_p50_ns: float | None
    """That of the direction where it is larger; None where none was measured."""
    start_ns: int
    end_ns: int
    """NOT_A_TIME without a time, both."""
    first_ns: int | None
    """That of the capture's first packet."""
    point: str
    """The capture point that saw it."""


class Overview(NamedTuple):
    """Files, how far they can be trusted, and the connections with the most unique bytes."""

    files: Sequence[SourceFile]
    trust: str
    """good, caution or poor."""
    notes: Sequence[tuple[str, Note]]
    """Why not good: capture point and reason."""
    several: bool
    """Whether there are several capture points."""
    connections: int
    listed: Sequence[Line]
    warnings: Sequence[str]
    """What was skipped or is unknown, a sentence each."""


def read_overview(
    inputs: Inputs,
    *,
    most: int,
    window: Window = EVERYTHING,
    max_packets: int | None = None,
    progress: Progress | None = None,
) -> Overview | Recording:
    """Return the overview of one capture file, if the native kernel tells it by itself; else a recording.

    Of a recording with logs, or with a connection of WTCP, more is said than an overview holds.

    Parameters
    ----------
    most : int
        How many connections the overview lists.

    Other parameters, and errors, are those of `read_recording`.
    """
    native = kernel()
    whole = window == EVERYTHING and max_packets is None
    if native is not None and whole and inputs.one_file:
        tell = partial(overview_by_kernel, name=inputs.points[0].name, most=most)
        tells = () if inputs.listed else (tell,)
        overview, recording = counted_by_kernel(native, inputs, progress, *tells)
        if recording is not None:
            return recording if overview is None else overview._replace(warnings=recording.warnings)
    return read_recording(inputs, window=window, max_packets=max_packets, progress=progress)


def overview_of(recording: Recording, most: int) -> Overview:
    """Return the overview of a recording, with up to `most` connections."""
    parts = recording.parts
    return Overview(
        files=[file for part in parts for file in part.capture.files],
        trust=recording.trust,
        notes=[(part.point.name, note) for part in parts for note in part.analysis.trust.notes],
        several=len(parts) > 1,
        connections=len(recording),
        listed=[_line(part, n) for part, n in recording.largest(most)],
        warnings=recording.warnings,
    )


def _line(part: Part, n: int) -> Line:
    table, both = part.analysis.connections, part.analysis.directions
    ends, ways = part.analysis.ends(n), slice(2 * (n - 1), 2 * n)
    forward_bytes, reverse_bytes = both["unique_bytes"][ways].tolist()
    sent, data = (int(both[name][ways].sum()) for name in ("retransmitted_segments", "data_segments"))
    rtts = zip(both["rtt_p50_ns"][ways].tolist(), both["rtt_absent"][ways].tolist(), strict=True)
    medians = [rtt for rtt, absent in rtts if not absent and not isnan(rtt)]
    return Line(
        number=part.offset + n,
        initiator=ends.source,
        responder=ends.destination,
        forward_bytes=forward_bytes,
        reverse_bytes=reverse_bytes,
        retransmitted_segments=sent,
        data_segments=data,
        rtt_p50_ns=max(medians, default=None),
        start_ns=int(table["start_ns"][n - 1]),
        end_ns=int(table["end_ns"][n - 1]),
        first_ns=part.capture.first_ns,
        point=part.point.name,
    )


def overview_by_kernel(whole: Whole, name: str, most: int) -> Overview | None:
    """Return the overview of one file, whose capture point has this name; None if only tables tell it.

    They tell if a connection began before the capture, if the clock may have stepped, or if there is only one
    connection, or one of WTCP, of which more is said.
    """
    file = whole.source
    if WTCP_SYN in file.protocols:
        return None
    answer = whole.file.overview(most, file.interfaces[0].resolution_ns)
    if answer is None or answer["connections"] == 1 or _may_step(whole.file):
        return None
    trust = _trust(answer, file)
    return Overview(
        files=[file],
        trust=trust.verdict,
        notes=[(name, note) for note in trust.notes],
        several=False,
        connections=answer["connections"],
        listed=[_line_of(row, file.first_ns, name) for row in answer["listed"]],
        warnings=[],
    )


def _may_step(file: CaptureFile) -> bool:
    """Return whether all senders of timestamps whose clock is known disagree with the capture's somewhere."""
    calm = enumerate(file.calm_stamps(SMALLEST_STEP_NS))
    rates = ((side, stamp_rate(*pauses)) for side, (packets, pauses) in calm if packets >= LEAST_SEGMENTS)
    known = [(side, rate) for side, rate in rates if rate is not None]
    return bool(known) and all(file.stamp_disagreements(side, **rate.limits) for side, rate in known)


def _trust(answer: native.Overview, file: SourceFile) -> Trust:
    connections, payload_bytes, packets = answer["one_sided"]
    whole = answer["payload_bytes"] or answer["segments"]
    part = payload_bytes if answer["payload_bytes"] else packets
    seen = Seen(
        segments=answer["segments"],
        marked={mark: answer["marked"][mark.bit_length() - 1] for mark in Mark},
        giants=answer["giants"],
        steps=(),
        totals=answer["totals"],
        connections=answer["connections"],
        late=Some(0, 0.0),
        one_sided=Some(connections, part / whole if whole else 0.0),
        initiator_by={Initiator.HANDSHAKE: answer["connections"]},
    )
    return weighed([file], seen)


def _line_of(row: native.Listed, first_ns: int | None, name: str) -> Line:
    index, initiator, responder, (start_ns, end_ns), unique_bytes, (sent, data), rtt_p50_ns = row
    return Line(
        number=index + 1,
        initiator=_text(initiator),
        responder=_text(responder),
        forward_bytes=unique_bytes[0],
        reverse_bytes=unique_bytes[1],
        retransmitted_segments=sent,
        data_segments=data,
        rtt_p50_ns=rtt_p50_ns,
        start_ns=start_ns,
        end_ns=end_ns,
        first_ns=first_ns,
        point=name,
    )


def _text(end: native.End) -> str:
    version, address, port = end
    return host_port(host_text(version, address), port)
