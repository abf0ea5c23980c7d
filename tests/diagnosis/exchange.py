"""One connection noted packet by packet as a sender's capture, and what is concluded of it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from multitracer.diagnosis.diagnose import diagnose
from multitracer.recording.read import read
from multitracer.recording.transfer import Transfer
from tests.analysis.pcap_file import write_pcap
from tests.analysis.traffic import ACK, MS, RST, START_NS, SYN, Segment

if TYPE_CHECKING:
    from pathlib import Path

    from multitracer.diagnosis.diagnosis import Diagnosis
    from multitracer.diagnosis.finding import Finding

FULL = 1000
"""Payload of a full segment."""
_CLIENT, _SERVER = 1_000, 5_000
_WINDOW = 60_000


@dataclass
class Exchange:
    """The client sends full segments, numbered from 0; times are in ms since its SYN."""

    rtt_ms: float = 50
    segments: list[Segment] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._ids = 0

    def opened(self) -> Exchange:
        """Note the handshake, and return itself."""
        self.syn(0)
        self.syn_ack(self.rtt_ms)
        self.note(self.rtt_ms + 0.1, 0, seq=_CLIENT + 1, ack=_SERVER + 1)
        return self

    def syn(self, at_ms: float) -> None:
        self.note(at_ms, 0, seq=_CLIENT, flags=SYN, options={"mss": FULL, "scale": 0})

    def syn_ack(self, at_ms: float) -> None:
        options = {"mss": FULL, "scale": 0}
        self.note(at_ms, 1, seq=_SERVER, flags=SYN | ACK, ack=_CLIENT + 1, options=options)

    def data(self, at_ms: float, number: int, *, count: int = 1, size: int = FULL, side: int = 0) -> None:
        """Note segments `number` and so on, all at one time."""
        own, other = ((_CLIENT, _SERVER), (_SERVER, _CLIENT))[side]
        for each in range(number, number + count):
            self.note(at_ms, side, seq=own + 1 + each * FULL, ack=other + 1, payload=size)

    def ack(self, at_ms: float, number: int, *, sack: tuple[int, int] | None = None, extra: int = 0) -> None:
        """Note the server's ACK of everything before segment `number` and `extra` bytes of it."""
        blocks = (tuple(_CLIENT + 1 + edge * FULL for edge in sack),) if sack else ()
        self.note(at_ms, 1, seq=_SERVER + 1, ack=_CLIENT + 1 + number * FULL + extra, sack=blocks)

    def reset(self, at_ms: float, *, side: int = 1, seq: int = 1, ack: int = 1) -> None:
        own, other = ((_CLIENT, _SERVER), (_SERVER, _CLIENT))[side]
        self.note(at_ms, side, seq=own + seq, ack=other + ack, flags=RST | ACK)

    def note(self, at_ms: float, side: int, **what: Any) -> None:
        """Note any segment; each packet of an end has an identification of its own."""
        self._ids += 1
        how: dict[str, Any] = {"window": _WINDOW, "ip_id": self._ids, **what}
        self.segments.append(Segment(side, time_ns=START_NS + round(at_ms * MS), **how))

    def round_trips(self, at_ms: float, number: int, *, count: int, flight: int = 4) -> float:
        """Note `count` flights, each acknowledged a round trip later; return when the last ACK came."""
        for turn in range(count):
            self.data(at_ms, number + turn * flight, count=flight)
            at_ms += self.rtt_ms
            self.ack(at_ms, number + (turn + 1) * flight)
        return at_ms

    def diagnosed(self, folder: Path, *, reverse: bool | None = None) -> Diagnosis:
        """Return the diagnosis of the client's data, or the server's."""
        ordered = sorted(self.segments, key=lambda segment: segment.time_ns or 0)
        file = write_pcap(folder / "talk.pcap", ordered)
        return diagnose(Transfer.of(read(file), reverse=reverse))


def kinds(found: Diagnosis) -> set[str]:
    return {finding.kind for finding in found.findings}


def of(found: Diagnosis, kind: str) -> Finding:
    """Return the only finding of a kind."""
    (only,) = [finding for finding in found.findings if finding.kind == kind]
    return only
