"""The byte counts of a load program for its streams, and those of the captures of the same run."""

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
"""Maximum difference between the start of a stream and that of its connection, in ns: iperf3 rounds to 1 s,
and the clocks of two hosts may differ. Not measured."""


class Counted(NamedTuple):
    """One stream of a load program, with byte counts from the sender, the receiver and a capture."""

    source: str
    """The program, for example "iperf3"."""
    series: str
    sender: str
    """The sending endpoint, HOST:PORT."""
    receiver: str
    sender_bytes: int | None
    """Bytes that the sending program reports as written; None if it reports none."""
    receiver_bytes: int | None
    """Bytes that the receiving program reports as read; None if it reports none."""
    connection: int | None
    """Number of the TCP connection that carried the stream; None if no capture holds one with these endpoints
    at that time."""
    point: str
    """The capture point that holds the connection."""
    captured_bytes: int | None
    """Unique payload bytes in the capture in the direction of the stream; None without a connection."""


def counted_streams(recording: Recording) -> list[Counted]:
    """Return the streams whose bytes load programs counted: one item for each capture with the stream."""
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
    """Yield (connection number, unique bytes) of the connection between two endpoints.

    Of several connections, it is the one that began nearest to `begin_ns`.
    """
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
