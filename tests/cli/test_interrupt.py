"""Ctrl-C: a command ends with 130 and one line, whenever it comes."""

from __future__ import annotations

import io
import os
import signal
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.cli.program import ENVIRONMENT, run, start
from tests.recording.captures import Conversation, write_conversations

if TYPE_CHECKING:
    from subprocess import Popen


@pytest.fixture
def capture(tmp_path: Path) -> Path:
    """Return a capture of one connection."""
    return write_conversations(tmp_path / "a.pcap", Conversation())


def test_interrupt_while_the_program_is_loaded(tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text(
        "import os, signal, sys\n"
        "class Finder:\n"
        "    def find_spec(name, path=None, target=None):\n"
        "        if name == 'click':\n"
        "            os.kill(os.getpid(), signal.SIGINT)\n"
        "sys.meta_path.insert(0, Finder)\n"
    )
    path = os.pathsep.join([str(tmp_path), ENVIRONMENT["PYTHONPATH"]])
    assert run("formats", status=130, env={**ENVIRONMENT, "PYTHONPATH": path}).stderr == ""


def test_interrupt_while_reading_a_pipe(capture: Path) -> None:
    with start(["analyze", "-"]) as child:
        assert isinstance(child.stdin, io.TextIOWrapper)
        assert child.stderr is not None
        child.stdin.buffer.write(capture.read_bytes())
        child.stdin.flush()
        _wait_until_reading(child)
        child.send_signal(signal.SIGINT)
        assert child.wait(30) == 130
        assert child.stderr.read() == "Error: interrupted\n"


def test_interrupt_key_that_is_held_to_the_end_and_beyond(capture: Path) -> None:
    with start(["analyze", "-"]) as child:
        assert isinstance(child.stdin, io.TextIOWrapper)
        child.stdin.buffer.write(capture.read_bytes())
        child.stdin.flush()
        _wait_until_reading(child)
        while child.poll() is None:
            child.send_signal(signal.SIGINT)
            time.sleep(0.001)
        assert child.returncode == 130


def _wait_until_reading(child: Popen[str]) -> None:
    """Wait until the child sleeps in read(0, ...), with the number of that call on this machine."""
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        words = Path(f"/proc/{child.pid}/syscall").read_text().split()
        if words[0] != "running" and words[1:2] == ["0x0"] and words[0] in {"0", "63"}:
            return
        time.sleep(0.01)
    pytest.fail("never read from its standard input")
