"""A download noted packet by packet where the client is, with a random path and random numbers."""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from multitracer.diagnosis.diagnose import explain
from multitracer.recording.read import read
from tests.analysis.pcap_file import write_pcap
from tests.analysis.traffic import ACK, MS, START_NS, SYN, Segment

if TYPE_CHECKING:
    from pathlib import Path

    from multitracer.diagnosis.diagnosis import Diagnosis

CLIENT, SERVER = 0, 1
_REQUEST = 100
"""Payload of the client's request."""
_STAMP_MS = 1
"""Tick of both hosts' timestamps."""


@dataclass
class Talk:
    """The client captures; times are in ms since its SYN. Data are numbered by bytes, from 0."""

    seed: int
    has_stamps: bool = True
    has_ids: bool = True
    options: dict[str, Any] = field(default_factory=lambda: {"mss": 1460, "scale": 7})
    segments: list[Segment] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.chance = random.Random(self.seed)
        self.rtt_ms = self.chance.uniform(20, 120)
        self.full = self.chance.randrange(1000, 1449)
        self.first = [self.chance.randrange(1 << 32) for _ in range(2)]
        self.ids = [self.chance.randrange(1, 1 << 16) for _ in range(2)]
        self.clocks = [self.chance.randrange(1 << 31) for _ in range(2)]
        self.window = 60_000
        self.ttls = [64, self.chance.randrange(40, 60)]

    def opened(self) -> Talk:
        """Note the handshake and a request, and return itself."""
        self.note(0, CLIENT, seq=self.first[0], flags=SYN, ack=0, options=self.options)
        self.note(self.rtt_ms, SERVER, seq=self.first[1], flags=SYN | ACK, ack=self.first[0] + 1, options=self.options)
        self.ack(self.rtt_ms + 0.1, 0, asked=0)
        self.note(self.rtt_ms + 0.2, CLIENT, seq=self.first[0] + 1, ack=self.first[1] + 1, payload=_REQUEST)
        return self

    def opened_at_server(self) -> Talk:
        """Note the same as the server's capture shows it, and return itself."""
        half = self.rtt_ms / 2
        how: dict[str, Any] = {"options": self.options}
        self.note(0, CLIENT, seq=self.first[0], flags=SYN, ack=0, stamp=self.stamp(CLIENT, -half, 0), **how)
        answer: dict[str, Any] = {"seq": self.first[1], "flags": SYN | ACK, "ack": self.first[0] + 1, **how}
        self.note(0.05, SERVER, stamp=self.stamp(SERVER, 0.05, -half), **answer)
        self.ack(self.rtt_ms, 0, asked=0, stamp=self.stamp(CLIENT, half, 0.05))
        request: dict[str, Any] = {"seq": self.first[0] + 1, "ack": self.first[1] + 1, "payload": _REQUEST}
        self.note(self.rtt_ms + 0.2, CLIENT, stamp=self.stamp(CLIENT, half + 0.2, 0.05), **request)
        return self

    def stamp(self, side: int, own_ms: float, other_ms: float) -> tuple[int, int]:
        """Return the timestamps of a segment: when it left, and when that left which it echoes."""
        return self.clocks[side] + int(own_ms / _STAMP_MS), self.clocks[1 - side] + int(other_ms / _STAMP_MS)

    def data(
        self, at_ms: float, begin: int, *, size: int | None = None, left_ms: float | None = None, **how: Any
    ) -> None:
        """Note data of the server; `left_ms` is when they left, by default half a round trip before."""
        left = at_ms - self.rtt_ms / 2 if left_ms is None else left_ms
        what = {"seq": self.first[1] + 1 + begin, "ack": self.first[0] + 1 + _REQUEST, "left_ms": left, **how}
        self.note(at_ms, SERVER, payload=self.full if size is None else size, **what)

    def ack(self, at_ms: float, upto: int, *, asked: int = _REQUEST, **how: Any) -> None:
        """Note the client's ACK of the data below a byte."""
        self.note(at_ms, CLIENT, seq=self.first[0] + 1 + asked, ack=self.first[1] + 1 + upto, **how)

    def note(self, at_ms: float, side: int, *, left_ms: float | None = None, **what: Any) -> None:
        """Note any segment; each packet of an end has the next identification."""
        ms = at_ms if left_ms is None else left_ms
        stamp = (self.clocks[side] + int(ms / _STAMP_MS), self.clocks[1 - side] + int(ms - self.rtt_ms))
        how: dict[str, Any] = {"window": self.window, "ttl": self.ttls[side], "flags": ACK, **what}
        if "ip_id" not in how and self.has_ids:
            self.ids[side] = self.ids[side] % 0xFFFF + 1
            how["ip_id"] = self.ids[side]
        how.setdefault("stamp", stamp if self.has_stamps else None)
        self.segments.append(Segment(side, time_ns=START_NS + round(at_ms * MS), **how))

    def written(self, folder: Path) -> Path:
        """Write the capture, and return its path."""
        ordered = sorted(self.segments, key=lambda segment: segment.time_ns or 0)
        return write_pcap(folder / f"talk-{self.seed}.pcap", ordered)

    def diagnosed(self, folder: Path) -> Diagnosis:
        """Return the diagnosis of the whole capture, as `multitracer diagnose` makes it."""
        return explain(read(self.written(folder)))
