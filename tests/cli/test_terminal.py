"""What a person sees: on a real (pseudo) terminal."""

from __future__ import annotations

import contextlib
import fcntl
import io
import os
import pty
import re
import struct
import subprocess
import termios
import time
from typing import TYPE_CHECKING

import pytest
from rich.console import Console

from multitracer.cli._progress import ProgressDisplay
from tests.cli.program import COMMAND, ENVIRONMENT, run
from tests.recording.captures import Conversation, write_conversations

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

_ESCAPE = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
_MAY_SURVIVE = re.compile(r"\x1b\[[0-9;]*m|\x1b\[\?25[hl]|\x1b\[[0-9]*[AK]|\x1b\[2K")


def shown(*args: str | Path, columns: int = 100, **streams: object) -> str:
    """Return what `multitracer` writes to a terminal."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 40, columns, 0, 0))
    environment = {k: v for k, v in ENVIRONMENT.items() if k not in {"NO_COLOR", "COLUMNS"}} | {"TERM": "xterm"}
    where = {"stdin": theirs, "stdout": theirs, "stderr": theirs, **streams}
    with subprocess.Popen([*COMMAND, *args], env=environment, **where) as child:  # type: ignore[call-overload]
        os.close(theirs)
        text = b"".join(_everything(ours)).decode()
        assert child.wait(60) == 0, text
    os.close(ours)
    return text


def _everything(terminal: int) -> Iterator[bytes]:
    """Yield what comes until the other side is closed, which Linux reports as EIO."""
    with contextlib.suppress(OSError):
        while chunk := os.read(terminal, 65536):
            yield chunk


@pytest.mark.parametrize("columns", [70, 80, 200])
def test_summary_is_coloured_and_fits(sample_session: Path, columns: int) -> None:
    text = shown("analyze", sample_session, columns=columns)
    assert "\x1b[1;32mgood" in text
    lines = [_ESCAPE.sub("", line).rstrip() for line in text.splitlines()]
    table = lines[next(i for i, line in enumerate(lines) if "TCP connections" in line) :]
    assert max(map(len, table)) <= columns
    assert sum("10.0.3.2:58556  10.0.1.2:5001" in line for line in table) == 2
    assert ("took" in table[1]) == (columns == 200)


def test_the_same_words_as_into_a_pipe(sample_sender: Path) -> None:
    def words(text: str) -> list[str]:
        return _ESCAPE.sub("", text).split()

    on_terminal = shown("inspect", sample_sender, columns=400, stderr=subprocess.DEVNULL)  # no progress line
    assert words(on_terminal) == words(run("inspect", sample_sender).stdout)


def test_hostile_names_reach_no_terminal(tmp_path: Path) -> None:
    path = write_conversations(tmp_path / "a\x1b]0;owned\x07\u202e.pcap", Conversation())
    for command in ("inspect", "analyze"):
        text = shown(command, path)
        assert "owned" in text
        assert "\x1b" not in _MAY_SURVIVE.sub("", text)
        assert not {"\x07", "\u202e"} & set(text)


def test_progress_shows_after_a_second_and_leaves(sample_session: Path) -> None:
    """The capture comes through a pipe that pauses, with data on standard output in another file."""
    complete = (sample_session / "mobile" / "tcp-0.pcap.gz").read_bytes()
    reading, writing = os.pipe()
    if os.fork() == 0:  # a writer that is slower than the program's patience
        os.close(reading)
        os.write(writing, complete[:90_000])  # more than a pipe holds: returns once the program reads
        time.sleep(2.5)
        os.write(writing, complete[90_000:])
        os._exit(0)
    os.close(writing)
    text = shown("analyze", "--json", "-", stdin=reading, stdout=subprocess.DEVNULL)
    os.close(reading)
    os.wait()
    assert "reading" in text
    assert "kB" in text
    assert text.rstrip().endswith(("\x1b[?25h", "\x1b[2K"))


def test_progress_counts_no_file_twice_that_is_read_again() -> None:
    line, text = ProgressDisplay(12_000_000), io.StringIO()
    for read_bytes in (9_000_000, 4_000_000):  # a file that the kernel leaves to Python half-way
        line(read_bytes)
    Console(file=text, width=80).print(line)
    assert text.getvalue().rstrip().endswith("4.0 MB of 12 MB")


def test_no_progress_within_the_first_second(sample_sender: Path) -> None:
    began_s = time.monotonic()
    text = shown("analyze", "--json", sample_sender, stdout=subprocess.DEVNULL)
    assert "reading" not in text or time.monotonic() - began_s > 1  # on a busy machine


def test_no_progress_into_a_pipe(sample_sender: Path) -> None:
    assert run("analyze", "--json", sample_sender).stderr == ""
