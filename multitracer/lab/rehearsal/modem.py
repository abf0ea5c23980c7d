"""A modem on a pseudo-terminal: `python -m multitracer.lab.rehearsal.modem --link PORT`.

It answers as slowly as a real one and says its radio as a vendor would (`--profile`). What happens is told
by `--script`, or on standard input with `--control`: JSON objects, one a line, each is said back when done.

- `{"set": {"rssi_dbm": -90, …}}`: the values from now on, in columns of the table `radio`; null for unknown,
- `{"do": "say", "text": "RING"}`: something unasked, in the middle of an answer if one is being said,
- `{"do": "garbage", "bytes": 300}`: noise,
- `{"do": "silent"}`, `{"do": "stall"}`, `{"do": "speak"}`: answers nothing; answers later; goes on,
- `{"do": "unplug"}`, `{"do": "plug", "link": "OTHER PORT"}`: the cable.

A script is a TOML file with the same as `[[event]]`, each with `at_s`. The end of standard input is its end.
"""

from __future__ import annotations

import json
import os
import random
import time
import tomllib
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from collectors._options import parser, run
from collectors._stop import Stop
from multitracer.errors import InputError
from multitracer.lab.rehearsal._terminal import Terminal, say_back
from multitracer.lab.rehearsal.drive import Drive, SetValues
from multitracer.lab.rehearsal.journey import Journey
from multitracer.lab.rehearsal.voices import VOICES, answer
from multitracer.units import BITS_PER_BYTE, NS_PER_S

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator, Mapping, Sequence

    from multitracer.tables import Document

_LONGEST_COMMAND = 512
_BITS_PER_OCTET = BITS_PER_BYTE + 2
"""With start and stop bit."""
_PIECE_BYTES = 32
_STANDARD_INPUT = 0


class Provider(Protocol):
    """Provides the radio conditions."""

    def values(self, elapsed_s: float) -> Mapping[str, object]:
        """Return columns of RADIO after a number of seconds."""


class FakeModem:
    """A modem: commands in, octets out, each at its time.

    Parameters
    ----------
    profile : str
        As in VOICES.
    provider : Provider
        Of the radio's values at the time of an answer.
    seed : int
        Of delays and noise.
    delay_s : tuple of float
        Shortest and longest time until an answer begins.
    baud : int
        Of the line.
    chatter : float
        Probability that something unasked stands between two lines of an answer.
    """

    def __init__(
        self,
        profile: str,
        provider: Provider,
        *,
        seed: int = 1,
        delay_s: tuple[float, float] = (0.02, 0.08),
        baud: int = 115_200,
        chatter: float = 0.0,
    ) -> None:
        self._profile = profile
        self._provider = provider
        self._random = random.Random(seed)  # noqa: S311  # a rehearsal is to be repeated
        self._delay_s = delay_s
        self._octet_ns = _BITS_PER_OCTET * NS_PER_S / baud
        self._chatter = chatter
        self._typed = b""
        self._echo = True
        self._to_say: list[tuple[float, bytes]] = []
        self._free_ns = 0.0
        self.mood = "speak"
        """speak, silent (commands are lost) or stall (they are answered when it speaks again)."""
        self._stalled: list[list[bytes]] = []

    def receive(self, data: bytes, now_ns: int, *, elapsed_s: float) -> None:
        """Take the octets that a program wrote."""
        *commands, rest = (self._typed + data).replace(b"\n", b"\r").split(b"\r")
        self._typed = rest[-_LONGEST_COMMAND:]
        for command in commands:
            text = command.decode("latin-1").strip()
            if not text or self.mood == "silent":
                continue
            parts = self._answer(text, elapsed_s)
            if self.mood == "stall":
                self._stalled.append(parts)
            else:
                self._begin(parts, now_ns)

    def speak(self, now_ns: int) -> None:
        """End a silence: send the answers to commands that came during it."""
        self.mood = "speak"
        stalled, self._stalled = self._stalled, []
        for parts in stalled:
            self._begin(parts, now_ns)

    def say(self, text: str, now_ns: int) -> None:
        """Send unsolicited text at once, between two lines of other output."""
        begins = [n for n, (_, piece) in enumerate(self._to_say) if piece.startswith(b"\r\n")]
        at = begins[0] if begins else len(self._to_say)
        due_ns = self._to_say[at][0] if begins else now_ns
        self._to_say.insert(at, (due_ns, f"\r\n{text}\r\n".encode("latin-1", "replace")))

    def noise(self, count: int, now_ns: int) -> None:
        """Send this number of random octets."""
        self._queue(self._random.randbytes(min(count, 1 << 20)), now_ns)

    def due(self, now_ns: int) -> Iterator[bytes]:
        """Yield the octets that are due by now."""
        while self._to_say and self._to_say[0][0] <= now_ns:
            yield self._to_say.pop(0)[1]

    @property
    def next_ns(self) -> float | None:
        """When the next octets are due."""
        return self._to_say[0][0] if self._to_say else None

    def _answer(self, command: str, elapsed_s: float) -> list[bytes]:
        """Return the answer to a command: echo, lines, final result."""
        echo = f"{command}\r".encode("latin-1") if self._echo else b""
        lines = answer(self._profile, command, self._provider.values(elapsed_s))
        if command == "ATE0":
            self._echo = False
        body = [f"\r\n{line}\r\n".encode("latin-1") for line in lines or []]
        return [echo, *body, b"\r\nERROR\r\n" if lines is None else b"\r\nOK\r\n"]

    def _begin(self, parts: list[bytes], now_ns: int) -> None:
        """Send an answer, after the time that the modem takes, counted from the end of the previous one."""
        begin_ns = max(now_ns, self._free_ns) + self._random.uniform(*self._delay_s) * NS_PER_S
        for part in parts:
            if len(parts) > 2 and self._random.random() < self._chatter:
                self._queue(b"\r\nRING\r\n", begin_ns)
            self._queue(part, begin_ns)

    def _queue(self, data: bytes, begin_ns: float) -> None:
        """Send octets at the speed of the line, after those that are queued."""
        self._free_ns = max(self._free_ns, begin_ns)
        for at in range(0, len(data), _PIECE_BYTES):
            piece = data[at : at + _PIECE_BYTES]
            self._free_ns += len(piece) * self._octet_ns
            self._to_say.append((self._free_ns, piece))


class Rehearsal:
    """The modem with its port, and the events of both."""

    def __init__(
        self, modem: FakeModem, values: SetValues, link: Path, stop: Stop, *, zero_ns: int | None = None
    ) -> None:
        self._modem = modem
        self._values = values
        self._link = link
        self._stop = stop
        self._terminal: Terminal | None = Terminal(link)
        self._began_ns = time.monotonic_ns() if zero_ns is None else zero_ns
        self._control = b""

    def run(self, events: list[Document], *, control: bool) -> None:
        """Run until `stop` returns true, or standard input ends."""
        if control:
            say_back(link=str(self._link))
        while self._wait(events, control=control):
            now = time.monotonic_ns()
            while events and float(events[0].get("at_s", 0)) <= self._elapsed_s():
                self.happen(events.pop(0))
            if self._terminal is None:
                continue
            self._modem.receive(self._terminal.read(), now, elapsed_s=self._elapsed_s())
            for piece in self._modem.due(time.monotonic_ns()):
                self._terminal.write(piece)

    def close(self) -> None:
        """Take the port away."""
        if self._terminal is not None:
            self._terminal.unplug()
            self._terminal = None

    def happen(self, event: Document) -> None:
        """Carry out an event."""
        now, what = time.monotonic_ns(), event.get("do")
        if isinstance(event.get("set"), dict):
            self._values.set(event["set"])
        if what == "say":
            self._modem.say(str(event.get("text", "RING")), now)
        elif what == "garbage":
            self._modem.noise(int(event.get("bytes", 200)), now)
        elif what in ("silent", "stall"):
            self._modem.mood = what
        elif what == "speak":
            self._modem.speak(now)
        elif what == "unplug":
            self.close()
        elif what == "plug" and self._terminal is None:
            self._terminal = Terminal(Path(event.get("link") or self._link))

    def _elapsed_s(self) -> float:
        return (time.monotonic_ns() - self._began_ns) / NS_PER_S

    def _wait(self, events: list[Document], *, control: bool) -> bool:
        due = [time.monotonic_ns() + NS_PER_S]
        if self._terminal is not None and self._modem.next_ns is not None:
            due.append(int(self._modem.next_ns))
        if events:
            due.append(self._began_ns + round(float(events[0].get("at_s", 0)) * NS_PER_S))
        sources = [self._terminal.fileno()] if self._terminal is not None else []
        if not control:
            return self._stop.wait(min(due), readable=sources)
        return self._stop.wait(min(due), readable=[*sources, _STANDARD_INPUT]) and self._take_control()

    def _take_control(self) -> bool:
        """Carry out the lines of standard input; return whether to go on."""
        os.set_blocking(_STANDARD_INPUT, False)
        try:
            control = os.read(_STANDARD_INPUT, 1 << 16)
        except BlockingIOError:
            return True
        *lines, self._control = (self._control + control).split(b"\n")
        for line in lines:
            self.happen(json.loads(line))
            say_back(did=json.loads(line))
        return bool(control)


def _events(path: Path | None) -> list[Document]:
    if path is None:
        return []
    try:
        events = tomllib.loads(path.read_text("utf-8")).get("event", [])
        return sorted(events, key=lambda event: float(event["at_s"]))
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise InputError(f"{path}: {error}; each [[event]] needs at_s and do or set") from error


def _options(argv: Sequence[str]) -> argparse.Namespace:
    options = parser(__doc__, traffic=False)
    options.add_argument("--link", type=Path, required=True, help="name under which the port appears")
    options.add_argument("--profile", choices=sorted(VOICES), default="rehearsal_cdpd", help="kind of modem")
    options.add_argument("--script", type=Path, help="TOML file of what happens when")
    options.add_argument("--control", action="store_true", help="take events and values on standard input")
    options.add_argument(
        "--told", dest="fixed", action="store_true", help="no drive: only the values that are set"
    )
    options.add_argument("--speed", type=float, default=1.0, help="of the drive; default 1")
    options.add_argument("--journey", type=int, metavar="SEED", help="the drawn drive of this seed instead")
    options.add_argument("--began", type=int, metavar="NS", help="its begin on CLOCK_MONOTONIC; default now")
    options.add_argument("--delay", type=float, nargs=2, default=(0.02, 0.08), help="seconds, least and most")
    options.add_argument("--baud", type=int, default=115_200, help="of the line; default 115200")
    options.add_argument("--chatter", type=float, default=0.0, help="probability of something unasked")
    options.add_argument("--seed", type=int, default=1, help="of delays and noise")
    return options.parse_args(argv)


def main(argv: Sequence[str]) -> None:
    """Act as a modem until stopped."""
    chosen = _options(argv)
    values = SetValues()
    provider: Provider = values if chosen.fixed else Drive(speed=chosen.speed)
    events = _events(chosen.script)
    if chosen.journey is not None:
        journey = Journey(chosen.journey)
        provider = journey
        events = sorted([*events, *journey.calls()], key=lambda event: float(event["at_s"]))
    modem = FakeModem(
        chosen.profile,
        provider,
        seed=chosen.seed,
        delay_s=tuple(chosen.delay),
        baud=chosen.baud,
        chatter=chosen.chatter,
    )
    with Stop(duration_ns=chosen.duration, outlive_parent=chosen.outlive_parent) as stop:
        rehearsal = Rehearsal(modem, values, chosen.link, stop, zero_ns=chosen.began)
        try:
            rehearsal.run(events, control=chosen.control)
        finally:
            rehearsal.close()


if __name__ == "__main__":
    run(main)
