"""RLP in words: frames in a short notation, scripted conversations, and two entities joined by a radio.

The notation: `SABM P`, `UA F`, `RR 5`, `RNR 5 P`, `SREJ 3`, `IS 2 RR 5 abc`. P marks a command with the
poll bit, F a response with the final bit; anything else is a command, UA, DM and a plain XID answer are
responses. Information in frames is plain text, padded with zeros.
"""

from __future__ import annotations

import re
from collections import deque
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeAlias, TypeVar

from multitracer.lab.rlp.entity import RlpEntity
from multitracer.lab.rlp.xid import Parameters, RlpConfig
from multitracer.protocols.rlp import FrameKind, RlpFrame, RlpFrameReader, Supervisory, Unnumbered, decode

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from multitracer.protocols.link_events import LinkEvent

SLOT_NS = 20_000_000


def frame(text: str) -> RlpFrame:
    """Return the frame that a line of the notation means."""
    word, *rest = text.split()
    final = "F" in rest
    command, poll_final = not final, final or "P" in rest
    rest = [part for part in rest if part not in ("P", "F")]
    if word == "IS":
        n_s, code, n_r = int(rest[0]), Supervisory[rest[1]], int(rest[2])
        info = rest[3].encode() if len(rest) > 3 else b""
        return RlpFrame(FrameKind.IS, code, command, poll_final, n_s, n_r, info)
    if word in Supervisory.__members__:
        return RlpFrame(FrameKind.S, Supervisory[word], command, poll_final, n_r=int(rest[0]))
    if word in ("UA", "DM"):
        command = False
    info = bytes.fromhex(rest[0]) if rest else b""
    return RlpFrame(FrameKind.U, Unnumbered[word], command, poll_final, info=info)


def text(octets: bytes | None) -> str:
    """Return the notation of a frame."""
    if octets is None:
        return "-"
    seen = decode(octets)
    mark = (" P" if seen.command else " F") if seen.poll_final else ""
    if seen.kind is FrameKind.U:
        info = seen.info.rstrip(b"\0").hex()
        return seen.function.name + (f" {info}" if info else "") + mark
    if seen.kind is FrameKind.S:
        return f"{seen.function.name} {seen.n_r}{mark}"
    info = seen.info.rstrip(b"\0").decode()
    return f"IS {seen.n_s} {seen.function.name} {seen.n_r}{' ' + info if info else ''}{mark}"


def complete(octets: bytes, reader: RlpFrameReader) -> list[bytes]:
    """Feed a frame at once."""
    return reader.feed(octets)


def byte_by_byte(octets: bytes, reader: RlpFrameReader) -> list[bytes]:
    """Feed a frame one octet at a time: nothing may come before the last one."""
    early = [found for i in range(len(octets) - 1) for found in reader.feed(octets[i : i + 1])]
    assert early == []
    return reader.feed(octets[-1:])


class Trailing:
    """Feed each frame together with the first half of the next one."""

    def __init__(self) -> None:
        self._ahead = 0

    def __call__(self, octets: bytes, reader: RlpFrameReader) -> list[bytes]:
        found = reader.feed(octets[self._ahead :])
        self._ahead = 0
        return found

    def ahead(self, octets: bytes, reader: RlpFrameReader) -> None:
        """Feed the first half of a frame that has not come yet."""
        self._ahead = len(octets) // 2
        assert reader.feed(octets[: self._ahead]) == []


Feed: TypeAlias = "Callable[[bytes, RlpFrameReader], list[bytes]]"
FEEDS: dict[str, Callable[[], Feed]] = {
    "whole": lambda: complete,
    "byte by byte": lambda: byte_by_byte,
    "trailing": Trailing,
}
"""The three ways to feed a conversation, each made anew for a test."""
SHORT = Parameters(t1_ms=100, n2=2)
"""T1 of 5 slots."""


class Exchange:
    """One entity against a script.

    Each slot has a line `sent | came`: what the entity must send, then what comes to it. A left side of
    `.` is any idle frame, a right side left out is an idle `NULL`, `-` is a destroyed frame.
    """

    def __init__(self, entity: RlpEntity, feed: Feed = complete) -> None:
        self.entity = entity
        self.slot = 0
        self.events: list[LinkEvent] = []
        self._feed = feed
        self._reader = RlpFrameReader(octets=entity.config.frame_octets)

    def __call__(self, script: str) -> None:
        lines = [line.strip() for line in script.strip().splitlines()]
        steps = [self._step(line) for line in lines for line in self._repeated(line)]
        for i, (want, came) in enumerate(steps):
            following = next((octets for _, octets in steps[i + 1 :] if octets is not None), None)
            self._slot(i, want, came, following)

    def _repeated(self, line: str) -> list[str]:
        times = re.search(r" x(\d+)$", line)
        return [line[: times.start()]] * int(times[1]) if times else [line]

    def _step(self, line: str) -> tuple[str, bytes | None]:
        want, _, came = (part.strip() for part in line.partition("|"))
        octets = self.entity.config.frame_octets
        return want, None if came == "-" else frame(came or "NULL").encode(octets=octets)

    def _slot(self, i: int, want: str, came: bytes | None, following: bytes | None) -> None:
        now_ns = self.slot * SLOT_NS
        sent = text(self.entity.outgoing(now_ns))
        if want != ".":
            assert sent == want, f"line {i}: sent {sent}, expected {want}"
        if came is None:
            self.entity.receive(None, now_ns)
        else:
            for octets in self._feed(came, self._reader):
                self.entity.receive(octets, now_ns)
            if isinstance(self._feed, Trailing) and following is not None:
                self._feed.ahead(following, self._reader)
        self.slot += 1
        self.events += self.entity.events()

    def happened(self) -> list[str]:
        """Return the names of the events since the last call, frames left out."""
        names = [type(event).__name__ for event in self.events]
        self.events.clear()
        return [name for name in names if not name.startswith("Frame")]


def small_entity(**options: Any) -> RlpEntity:
    """Return an entity with a short T1 that does not negotiate."""
    return RlpEntity(replace(RlpConfig(parameters=SHORT, negotiate=False), **options))


def connected(feed: Feed = complete, **options: Any) -> Exchange:
    """Return a conversation after set-up."""
    exchange = Exchange(small_entity(**options), feed)
    exchange.entity.connect()
    exchange("SABM P | UA F")
    exchange.events.clear()
    return exchange


def write(exchange: Exchange, *words: str) -> None:
    """Queue a unit for each word."""
    for word in words:
        exchange.entity.write(word.encode())


def read(exchange: Exchange) -> list[str]:
    """Return the words that were delivered."""
    return [info.rstrip(b"\0").decode() for info in exchange.entity.read()]


Loses: TypeAlias = "Callable[[str, int], bool]"


class _End(Protocol):
    """What a radio joins: RLP alone, or with a relay above it."""

    def outgoing(self, now_ns: int, /) -> bytes | None: ...
    def receive(self, octets: bytes | None, now_ns: int, /) -> object: ...


_E = TypeVar("_E", bound=_End)


class Radio(Generic[_E]):
    """Two ends joined by a channel with a delay in slots; `loses(direction, slot)` destroys frames."""

    def __init__(self, mobile: _E, fixed: _E, *, loses: Loses, delay: int = 9) -> None:
        self.mobile = mobile
        self.fixed = fixed
        self.slot = 0
        self._loses = loses
        self._up: deque[bytes | None] = deque([None] * delay)
        self._down: deque[bytes | None] = deque([None] * delay)

    def step(self) -> None:
        """Let one slot pass at both ends."""
        now_ns = self.slot * SLOT_NS
        up, down = self.mobile.outgoing(now_ns), self.fixed.outgoing(now_ns)
        self._up.append(None if self._loses("up", self.slot) else up)
        self._down.append(None if self._loses("down", self.slot) else down)
        self.fixed.receive(self._up.popleft(), now_ns)
        self.mobile.receive(self._down.popleft(), now_ns)
        self.slot += 1

    def run(self, slots: int) -> Iterator[int]:
        """Let slots pass; yield after each."""
        for _ in range(slots):
            self.step()
            yield self.slot
