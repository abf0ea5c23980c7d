"""One command at a time over a line on which a modem may also send unsolicited lines.

No I/O: octets and times are passed in. The answer to a command is everything up to a final result (`OK`,
`ERROR`, `+CME ERROR: n`); lines that arrive while no command is pending are unsolicited. Times are
nanoseconds of any one clock. An answer that does not arrive in time is given up; its late lines count as unsolicited
and not as the answer to the next command: `is_drained` shows when no more octets are expected.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from multitracer.errors import LocalProtocolError
from multitracer.protocols.modem.grammar import is_final

MOST_BYTES = 1 << 16
"""Maximum size in bytes of an answer, and of a line without an end."""
_END = re.compile(rb"\r\n|\r|\n")


@dataclass(frozen=True, slots=True)
class CommandAnswer:
    """The lines after a command, up to the final result, or up to the time at which waiting ended."""

    command: str
    raw: bytes
    result: str
    """The final result as the modem wrote it; empty if none arrived."""
    asked_ns: int
    answered_ns: int
    lost_bytes: int = 0
    """Number of octets beyond the maximum size, which were discarded."""


@dataclass(frozen=True, slots=True)
class Unsolicited:
    """Complete lines that arrived while no command was pending."""

    raw: bytes
    at_ns: int


class Conversation:
    """The command that waits for its answer, and the octets that have arrived."""

    def __init__(self) -> None:
        self._command: str | None = None
        self._asked_ns = 0
        self._raw = bytearray()
        self._lost = 0
        self._heard_ns: int | None = None

    @property
    def command(self) -> str | None:
        """The command that is not answered yet; None if there is none."""
        return self._command

    def ask(self, command: str, now_ns: int) -> bytes:
        """Begin a command; return the octets that must be sent to the modem.

        Raises
        ------
        LocalProtocolError
            If another command is not answered yet, or this one is not one line of printable ASCII.
        """
        if self._command is not None:
            raise LocalProtocolError(
                f"modem: the command {self._command!r} has no answer yet; wait for the answer, or cancel the command"
            )
        if not (command.isascii() and command.isprintable()):
            raise LocalProtocolError(
                f"modem: a command must be one line of ASCII, but is {command!r}; change the profile"
            )
        self._command, self._asked_ns = command, now_ns
        self._raw.clear()
        self._lost = 0
        return command.encode("ascii") + b"\r"

    def receive(self, data: bytes, now_ns: int) -> list[CommandAnswer | Unsolicited]:
        """Process received octets; return the answer if it is now complete, and all unsolicited lines."""
        if data:
            self._heard_ns = now_ns
        events: list[CommandAnswer | Unsolicited] = []
        self._keep(data)
        if self._command is not None and (at := self._end_of_answer()):
            raw, rest = bytes(self._raw[: at[1]]), bytes(self._raw[at[1] :])
            events.append(CommandAnswer(self._command, raw, at[0], self._asked_ns, now_ns, self._lost))
            self._command, self._lost = None, 0
            self._raw[:] = rest
        if self._command is None and (complete := self._complete_lines()):
            del self._raw[: len(complete)]
            if complete.strip():
                events.append(Unsolicited(complete, now_ns))
        return events

    def give_up(self, now_ns: int) -> CommandAnswer:
        """Stop waiting for an answer; return the part that has arrived.

        Raises
        ------
        LocalProtocolError
            If no command is pending.
        """
        if self._command is None:
            raise LocalProtocolError("modem: no command is pending, so there is nothing to cancel")
        answer = CommandAnswer(self._command, bytes(self._raw), "", self._asked_ns, now_ns, self._lost)
        self._command = None
        self._raw.clear()
        self._lost = 0
        return answer

    def is_drained(self, now_ns: int, *, for_ns: int) -> bool:
        """Return whether nothing has arrived for `for_ns`."""
        return self._heard_ns is None or now_ns - self._heard_ns >= for_ns

    def _keep(self, data: bytes) -> None:
        """Store received octets.

        Of a very long answer, only its start and its end, which has the final result.
        """
        self._raw += data
        if (surplus := len(self._raw) - MOST_BYTES) > 0:
            del self._raw[MOST_BYTES // 2 : MOST_BYTES // 2 + surplus]
            self._lost += surplus

    def _end_of_answer(self) -> tuple[str, int] | None:
        """Return the final result and the position after it; None if no final result has arrived yet."""
        begin = 0
        for end in _END.finditer(self._raw):
            line = bytes(self._raw[begin : end.start()]).decode("latin-1")
            if is_final(line):
                return line.strip(), end.end()
            begin = end.end()
        return None

    def _complete_lines(self) -> bytes:
        last = max(self._raw.rfind(b"\n"), self._raw.rfind(b"\r"))
        if last < 0 and len(self._raw) == MOST_BYTES:
            return bytes(self._raw)
        return bytes(self._raw[: last + 1])
