"""The byte counts of a load program for its streams, and those of the captures of the same run."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from multitracer.schemas.application import APPLICATION_SUMS, LAYER, PINGS
from multitracer.tables import NOT_A_TIME
from multitracer.units import NS_PER_S
from multitracer.words import count, duration

if TYPE_CHECKING:
    from collections.abc import Iterator

    from multitracer.logs import HostLog
    from multitracer.recording.capture import Capture
    from multitracer.recording.recording import Recording
    from multitracer.tables import Document, Row, Table

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
    run: int = 1
    """Number of the test in its log, from 1."""
    direction: str = ""
    """sent or received by the host of the log; empty if unknown."""
    sender_rate_bps: float | None = None
    receiver_rate_bps: float | None = None
    retransmitted: int | None = None
    """Segments that the sender's kernel sent again."""
    packets: int | None = None
    """Datagrams of UDP; None for TCP."""
    lost_packets: int | None = None
    jitter_s: float | None = None

    @property
    def title(self) -> str:
        """The program and its stream; from the second test of a log on with the test."""
        return f"{self.source} {self.series}" + (f" (test {self.run})" if self.run > 1 else "")


def shown_loss(each: Counted) -> str:
    """Return the datagrams that a stream lost, and their share; empty if unknown."""
    if each.lost_packets is None or not each.packets:
        return ""
    return f"{each.lost_packets:,} of {each.packets:,} ({100 * (each.lost_packets / each.packets):.1f} %)"


def pings_of(recording: Recording) -> list[str]:
    """Return a sentence on the round trips of each ping program: how many, and their range."""
    sentences = []
    for _, table in _tables(recording, PINGS.name):
        for series in dict.fromkeys(zip(table["source"].tolist(), table["series"].tolist(), strict=True)):
            mine = (table["source"] == series[0]) & (table["series"] == series[1])
            rtt_s = table["rtt_s"][mine]
            known = rtt_s[np.isfinite(rtt_s)]
            if not len(known):
                continue
            low, middle, high = (duration(round(q * NS_PER_S)) for q in np.quantile(known, (0, 0.5, 1)))
            lost = f", {int(mine.sum()) - len(known):,} without an answer" if len(known) < mine.sum() else ""
            name = " ".join(filter(None, series))
            several = f"{count(len(known), 'round trip')}{lost}: {low} to {high}, median {middle}"
            sentences.append(f"{name}: {middle if len(known) == 1 and not lost else several}")
    return sentences


def _tables(recording: Recording, name: str) -> Iterator[tuple[HostLog, Table]]:
    """Yield a table of the logs of load programs, and of drive tests that are read without packets."""
    layers = (LAYER,) if recording.captures else (LAYER, "radio")
    for layer in layers:
        if recording.inputs.holds(layer):
            yield from recording.tables(layer, name)


def counted_streams(recording: Recording) -> list[Counted]:
    """Return the streams that load programs counted: one row for each capture that holds the stream."""
    streams: dict[tuple[str, int, str], dict[str, Row]] = {}
    for log, table in _tables(recording, APPLICATION_SUMS.name):
        for row in table.rows():
            streams.setdefault((log.path, row["run"], row["series"]), {})[row["reporter"]] = row
    return [counted for counts in streams.values() for counted in _counted(recording, counts)]


def _counted(recording: Recording, counts: dict[str, Row]) -> Iterator[Counted]:
    row = next(iter(counts.values()))
    sender, receiver = (row["local"], row["remote"])
    if row["direction"] == "received":
        sender, receiver = receiver, sender
    reported = {who: counts.get(who, {}) for who in ("sender", "receiver")}

    def first(name: str) -> int | None:
        values = (reported[who].get(name) for who in ("receiver", "sender"))
        return next((value for value in values if value is not None), None)

    more: Document = {
        "run": row["run"], "direction": row["direction"],
        "sender_rate_bps": reported["sender"].get("rate_bps"),
        "receiver_rate_bps": reported["receiver"].get("rate_bps"),
        "retransmitted": first("retransmitted_segments"), "packets": first("packets"),
        "lost_packets": first("lost_packets"), "jitter_s": reported["receiver"].get("jitter_s"),
    }  # fmt: skip
    bytes_of = {who: counts[who]["bytes"] if who in counts else None for who in ("sender", "receiver")}
    own = (row["source"], row["series"], sender, receiver, bytes_of["sender"], bytes_of["receiver"])
    held = [
        Counted(*own, capture.offset + n, capture.point.name, captured, **more)
        for capture in recording.captures
        for n, captured in _carried(capture, sender, receiver, row["time_ns"])
    ]
    yield from held or [Counted(*own, None, "", None, **more)]


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
