"""A shell on another machine, or the lines of a program there, through a program that carries them: adb or ssh.

Commands run one after another in one process of the other machine, so that a command costs one round trip. The end
of an answer is a line with a random word. `clock` reads the other machine's clock between two readings of this
one's: the difference of the two clocks lies within that bracket, whatever the path does.
"""

from __future__ import annotations

import os
import secrets
import shlex
import subprocess
import time
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

from collectors._stop import end_with_parent
from multitracer.units import NS_PER_S

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from types import TracebackType
    from typing import IO, Self

    from collectors._stop import Stop

_MOST_BYTES = 1 << 19
"""Longest stored answer; the rest is counted. A telephony registry with two cards has 200 kB."""
_CHUNK = 1 << 16
_ATTEMPTS = 3
_STATUS_DIGITS = 4
_WORDS_BYTES = 200
_LONGEST_LINE = 2000
_EARLIEST_NS = 10**17
"""Clocks before 1973 were never set: a `date` without nanoseconds gives such a number, too."""


_IDLE_S = 60
"""Time without an octet after which the other machine ends what it runs for us: `BEAT_NS` is a sixth of it."""
BEAT_NS = 10 * NS_PER_S
"""Time between two octets of `LineFollower.beat`, and of a capture."""
_BOUND_TO_INPUT = """\
{{ ( {command}
)
kill 0; }} </dev/null &
read -t 1 _ </dev/null 2>/dev/null
if [ $? -eq 1 ]; then while read -t {idle_s} _; do :; done; else cat >/dev/null; fi
kill 0
"""
"""Runs a command until the standard input ends: a program that waits, such as `logread -f`, would not notice. Where the
shell's `read` knows -t (bash, busybox), a silent input ends it, too: a network that was cut closes nothing. The command
has a shell of its own, which it may replace (`exec`): its end ends the rest."""


def bound_to_input(command: str) -> str:
    """Return a command line for another machine that runs `command` until the standard input ends or is silent.

    It is for a login shell behind ssh: its process group has what it starts, and of dropbear the server of this one
    connection, too.
    """
    return f"exec sh -c {shlex.quote(_BOUND_TO_INPUT.format(command=command, idle_s=_IDLE_S))}"


def beat(stream: IO[bytes] | None) -> None:
    """Write an octet to what `bound_to_input` reads."""
    assert stream is not None
    with suppress(OSError):  # that it has ended is seen at its output
        os.write(stream.fileno(), b"\n")


class ShellEndedError(Exception):
    """The connection to the shell has ended, or the shell does not answer.

    Attributes
    ----------
    why : str
        `silent`, or the last words of the program that carried the shell.
    """

    def __init__(self, why: str) -> None:
        super().__init__(why)
        self.why = why


@dataclass(frozen=True, slots=True)
class Answer:
    """What a command wrote.

    Attributes
    ----------
    command : str
    raw : bytes
        Standard output and standard error, at most 0.5 MiB.
    status : int
        Exit status of the command.
    asked_ns, answered_ns : int
        CLOCK_MONOTONIC of this host.
    lost_bytes : int
        How much was too long to be stored.
    """

    command: str
    raw: bytes
    status: int
    asked_ns: int
    answered_ns: int
    lost_bytes: int


class Shell:
    """A shell that a child process carries.

    Parameters
    ----------
    program : sequence of str
        The program and its arguments; its standard input and output are those of `sh` on the other machine.
    stop : Stop
        The condition that ends the run; a command is given up then.
    """

    def __init__(self, program: Sequence[str], stop: Stop) -> None:
        self._stop = stop
        self._word = secrets.token_hex(8)
        self._rest = b""
        self._child = subprocess.Popen(
            program, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            preexec_fn=end_with_parent,  # noqa: PLW1509  # collectors have one thread
        )  # fmt: skip
        assert self._child.stderr is not None
        os.set_blocking(self._child.stderr.fileno(), False)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def ask(self, command: str, *, timeout_s: float) -> Answer:
        """Run a command, and return what it wrote.

        Raises
        ------
        ShellEndedError
            If there is no complete answer in time, or the connection has ended. The shell is unusable then.
        """
        asked_ns = time.monotonic_ns()
        half = len(self._word) // 2  # in two parts: the echo of a terminal is no end of an answer
        end = f"printf '\\n%s%s %d\\n' {self._word[:half]} {self._word[half:]} $?"
        self._write(f"{{ {command}\n}} </dev/null 2>&1; {end}\n".encode())
        raw, status, lost_bytes = self._until_end(asked_ns + round(timeout_s * NS_PER_S))
        return Answer(command, raw, status, asked_ns, time.monotonic_ns(), lost_bytes)

    def clock(self, *, timeout_s: float) -> dict[str, int] | None:
        """Return CLOCK_REALTIME of the other machine between two of this one's CLOCK_MONOTONIC, in ns.

        It is the best of three attempts; None if the other machine's `date` knows no nanoseconds.
        """
        readings = [self.ask("date +%s%N", timeout_s=timeout_s) for _ in range(_ATTEMPTS)]
        best = min(readings, key=lambda answer: answer.answered_ns - answer.asked_ns)
        text = best.raw.strip()
        if not text.isdigit() or len(text) > 19 or int(text) < _EARLIEST_NS:
            return None
        return {"before_ns": best.asked_ns, "remote_ns": int(text), "after_ns": best.answered_ns}

    def close(self) -> None:
        """End the child process."""
        self._child.kill()
        self._child.wait()
        for pipe in (self._child.stdin, self._child.stdout, self._child.stderr):
            if pipe is not None:
                pipe.close()

    def _write(self, data: bytes) -> None:
        assert self._child.stdin is not None
        try:
            os.write(self._child.stdin.fileno(), data)
        except OSError:
            raise ShellEndedError(self._last_words()) from None

    def _until_end(self, until_ns: int) -> tuple[bytes, int, int]:
        """Return what comes before the word that ends the answer, the status after it, and how much was dropped."""
        assert self._child.stdout is not None
        output, lost_bytes = self._rest, 0
        while (answer := self._end_in(output)) is None:
            if len(output) > _MOST_BYTES + 2 * _CHUNK:  # the last octets are needed to find the word
                lost_bytes += len(output) - _MOST_BYTES - _CHUNK
                output = output[:_MOST_BYTES] + output[-_CHUNK:]
            going = self._stop.wait(until_ns, readable=[self._child.stdout.fileno()])
            if not going or time.monotonic_ns() >= until_ns:
                raise ShellEndedError("silent")
            chunk = os.read(self._child.stdout.fileno(), _CHUNK)
            if not chunk:
                raise ShellEndedError(self._last_words())
            output += chunk
        raw, status, self._rest = answer
        return raw, status, lost_bytes

    def _end_in(self, output: bytes) -> tuple[bytes, int, bytes] | None:
        """Return answer, status and what follows, if the answer is complete."""
        before, word, after = output.rpartition(f"\n{self._word} ".encode())
        number, newline, rest = after.partition(b"\n")
        if not word or not newline:
            return None
        is_status = number.strip().isdigit() and len(number) <= _STATUS_DIGITS
        return before, int(number) if is_status else -1, rest

    def _last_words(self) -> str:
        """Return the last line that the program wrote to standard error."""
        assert self._child.stderr is not None
        try:
            self._child.wait(1.0)
        except subprocess.TimeoutExpired:
            return "silent"
        words = self._child.stderr.read(_CHUNK) or b""  # without waiting: a helper of ssh may hold it open
        lines = words.decode("utf-8", "replace").strip().splitlines()
        return lines[-1][:_WORDS_BYTES] if lines else "ended"


class LineFollower:
    """The lines that a program writes, as they come; it ends with this process at the latest.

    Parameters
    ----------
    command : list of str
        The program and its arguments.
    """

    def __init__(self, command: list[str]) -> None:
        self._child = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
            preexec_fn=end_with_parent,  # noqa: PLW1509  # collectors have one thread
        )  # fmt: skip
        assert self._child.stdout is not None
        assert self._child.stdin is not None
        os.set_blocking(self._child.stdout.fileno(), False)
        os.set_blocking(self._child.stdin.fileno(), False)
        self._rest = b""
        self._is_open = True
        self._beat_ns = 0

    @property
    def descriptors(self) -> list[int]:
        """Return the file descriptors to wait for; none after the program has ended."""
        return [self._child.stdout.fileno()] if self._is_open and self._child.stdout is not None else []

    def take(self) -> Iterator[bytes]:
        """Yield the complete lines that are there; the end of a long one is left out."""
        if not self.descriptors:
            return
        try:
            chunk = os.read(self.descriptors[0], _CHUNK)
        except BlockingIOError:
            return
        self._is_open = bool(chunk)
        *lines, rest = (self._rest + chunk).split(b"\n")
        self._rest = rest[:_LONGEST_LINE]
        yield from (line[:_LONGEST_LINE] for line in lines if line)

    def beat(self) -> None:
        """Show the program that this end still listens (`bound_to_input`), if it is time."""
        if time.monotonic_ns() >= self._beat_ns:
            self._beat_ns = time.monotonic_ns() + BEAT_NS
            beat(self._child.stdin)

    def close(self) -> None:
        """End the program."""
        self._child.kill()
        self._child.wait()
        for pipe in (self._child.stdin, self._child.stdout):
            if pipe is not None:
                pipe.close()
