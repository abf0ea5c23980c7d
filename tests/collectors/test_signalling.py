"""The collector of signalling: SCAT asks a modem, here a stream on a pseudo-terminal, and keeps its log."""

from __future__ import annotations

import os
import signal
import subprocess
import threading
import time
import tty
from typing import TYPE_CHECKING

import parsers
from tests.collectors.running import command, records, run, until
from tests.parsers.test_diag import log, needs_programs

if TYPE_CHECKING:
    from pathlib import Path

_READ_BYTES = 4096
"""What SCAT reads after each command before it sends the next: as many flags let it go on at once."""


_BUFFER_BYTES = 8192
"""Of what SCAT keeps, Python holds so much back."""


class Modem:
    """A pseudo-terminal that answers SCAT's commands with empty frames, and sends a log when it shall."""

    def __init__(self) -> None:
        self._here, there = os.openpty()
        tty.setraw(self._here)
        tty.setraw(there)
        self.path = os.ttyname(there)
        self._there = there
        self._thread = threading.Thread(target=self._answer, daemon=True)
        self.commands = 0
        self._thread.start()

    def _answer(self) -> None:
        while True:
            try:
                if not os.read(self._here, 1 << 16):
                    return
                self.commands += 1
                os.write(self._here, b"\x7e" * _READ_BYTES)
            except OSError:
                return

    def send(self, data: bytes) -> None:
        """Send a log in pieces, as a modem does."""
        for at in range(0, len(data), 700):
            os.write(self._here, data[at : at + 700])

    def close(self) -> None:
        os.close(self._there)
        os.close(self._here)


@needs_programs
def test_what_the_modem_sent_is_kept_byte_for_byte_and_read(tmp_path: Path) -> None:
    modem, sent = Modem(), log(1500)
    raw, notes = tmp_path / "signalling.qmdl", tmp_path / "notes.jsonl"
    argv = command("signalling", "--device", modem.path, "-o", raw, "--notes", notes)
    child = subprocess.Popen(argv, stderr=subprocess.PIPE, text=True)
    try:
        until(lambda: child.poll() is not None or raw.exists())
        assert child.poll() is None, child.stderr and child.stderr.read()
        modem.send(sent)
        until(lambda: raw.stat().st_size > len(sent) - 2 * _BUFFER_BYTES)
        time.sleep(1.5)  # SCAT reads until half a second brings nothing
        child.send_signal(signal.SIGTERM)
        assert child.wait(20) == 0
    finally:
        child.kill()
        child.communicate()
        modem.close()
    assert raw.read_bytes() == sent
    assert modem.commands > 10
    (end,) = records(notes, "end")
    assert (end["status"], end["bytes"]) == (0, len(sent))
    assert records(notes, "clock")
    fmt, tables = parsers.read(raw)
    assert fmt.name == "diag"
    assert isinstance(tables, dict)
    assert tables["signalling"].provenance["frames"] == 1500


@needs_programs
def test_a_port_that_is_not_there_and_a_log_that_exists_are_one_sentence(tmp_path: Path) -> None:
    done = run("signalling", "--device", tmp_path / "none", "-o", tmp_path / "a.qmdl")
    assert done.returncode == 1
    assert done.stderr.strip().endswith("this port does not exist; connect the phone and enable its diagnostic port")
    (tmp_path / "b.qmdl").write_bytes(b"")
    done = run("signalling", "--device", "/dev/null", "-o", tmp_path / "b.qmdl")
    assert (done.returncode, "never overwritten" in done.stderr) == (1, True)
