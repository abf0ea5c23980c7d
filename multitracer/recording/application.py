"""What a load program counted of its streams, beside what a capture of the same run holds of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from multitracer.schemas.application import APPLICATION_SUMS, LAYER
from multitracer.tables import NOT_A_TIME
from multitracer.units import NS_PER_S

if TYPE_CHECKING:
    from collections.abc import Iterator

    from multitracer.recording.capture import Capture
    from multitracer.recording.recording import Recording
    from multitracer.tables import Row

_APART_NS = 60 * NS_PER_S
"""Begin of a stream and of its connection: iperf3 rounds to 1 s, and two hosts may differ; not measured."""


class Counted(NamedTuple):
    """One stream of a load program, as it was counted at three places."""

    source: str
    """The program: iperf3."""
    series: str
    sender: str
    """The end that sent, HOST:PORT."""
    receiver: str
    sender_bytes: int | None
    """Written by the sending program, as it says."""
    receiver_bytes: int | None
    """Read by the receiving program, as it says."""
    connection: int | None
    """Number of the TCP connection that carried it; None if no capture holds one with these ends then."""
    point: str
    """The capture point of the connection."""
    captured_bytes: int | None
    """Unique bytes of payload that the capture holds in this direction."""


def counted_streams(recording: Recording) -> list[Counted]:
    """Return each stream that a load program counted, once for each capture that holds it."""
    if not recording.inputs.holds(LAYER):
        return []
    streams: dict[tuple[str, int, str], dict[str, Row]] = {}
    for log, table in recording.tables(LAYER, APPLICATION_SUMS.name):
        for row in table.rows():
            streams.setdefault((log.path, row["run"], row["series"]), {})[row["reporter"]] = row
    return [counted for counts in streams.values() for counted in _counted(recording, counts)]


def _counted(recording: Recording, counts: dict[str, Row]) -> Iterator[Counted]:
    row = next(iter(counts.values()))
    sender, receiver = (row["local"], row["remote"])
    if row["direction"] == "received":
        sender, receiver = receiver, sender
    bytes_of = {who: counts[who]["bytes"] if who in counts else None for who in ("sender", "receiver")}
    own = (row["source"], row["series"], sender, receiver, bytes_of["sender"], bytes_of["receiver"])
    held = [
        Counted(*own, capture.offset + n, capture.point.name, captured)
        for capture in recording.captures
        for n, captured in _carried(capture, sender, receiver, row["time_ns"])
    ]
    yield from held or [Counted(*own, None, "", None)]


def _carried(capture: Capture, sender: str, receiver: str, begin_ns: int | None) -> Iterator[tuple[int, int]]:
    """Yield the connection with these ends that began nearest to a time, and its unique bytes."""
    host, _, port = sender.rpartition(":")
    if not host or not receiver:
        return
    starts = capture.analysis.connections["start_ns"]
    near: list[tuple[int, int]] = []
    for n in capture.analysis.with_endpoint(host.strip("[]"), int(port)):
        ends = capture.analysis.ends(n)
        start_ns = int(starts[n - 1])
        apart_ns = 0 if begin_ns is None or start_ns == NOT_A_TIME else abs(start_ns - begin_ns)
        if receiver in (ends.source, ends.destination) and apart_ns <= _APART_NS:
            near.append((apart_ns, n))
    if near:
        _, n = min(near)
        reverse = capture.analysis.ends(n).source != sender
        yield n, int(capture.analysis.directions["unique_bytes"][2 * (n - 1) + reverse])
