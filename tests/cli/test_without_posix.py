"""Reading needs nothing of Python that POSIX alone has: it works without, as on Windows, as far as Linux shows it."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from tests.cli.program import ENVIRONMENT, ROOT

if TYPE_CHECKING:
    from pathlib import Path

SESSION = ROOT / "sample_traces" / "typical-1450k"
ABSENT = """
import os, signal, sys

modules = {"crypt", "fcntl", "grp", "nis", "ospipe", "pty", "pwd", "resource", "spwd", "syslog", "termios", "tty"}
functions = {
    os: "chown fchmod fchown fork forkpty fwalk getegid geteuid getgid getpgid getuid initgroups killpg lchown mkfifo "
        "nice openpty setsid sched_getaffinity statvfs uname "
        "O_CLOEXEC O_DIRECTORY O_NOFOLLOW O_NONBLOCK",
    signal: "SIGALRM SIGCHLD SIGHUP SIGKILL SIGPIPE SIGQUIT SIGUSR1 ITIMER_REAL alarm pthread_sigmask setitimer",
}

class Absent:
    def find_spec(self, name, path=None, target=None):
        if name in modules:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, Absent())
for name in modules:
    sys.modules.pop(name, None)
for module, names in functions.items():
    for name in names.split():
        delattr(module, name)

from multitracer.cli import main

main()
"""
"""A program that takes from Python what Windows lacks, before it runs the command line."""


def without_posix(*args: str | Path) -> subprocess.CompletedProcess[str]:
    argv = [sys.executable, "-c", ABSENT, *map(str, args)]
    return subprocess.run(argv, capture_output=True, text=True, check=False, env=ENVIRONMENT, timeout=120)


@pytest.mark.parametrize("command", ["inspect", "analyze", "diagnose"])
@pytest.mark.parametrize("path", [SESSION, SESSION / "fixed" / "tcp-0.pcap.xz"], ids=["session", "capture"])
def test_what_is_printed_is_the_same(command: str, path: Path) -> None:
    here = subprocess.run(
        [sys.executable, "-m", "multitracer", command, path],
        capture_output=True,
        text=True,
        check=True,
        env=ENVIRONMENT,
    )
    done = without_posix(command, path)
    assert (done.returncode, done.stderr) == (0, here.stderr)
    assert done.stdout == here.stdout


def test_report_replaces_its_output(tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    for _ in range(2):
        done = without_posix("report", SESSION, "-o", page)
        assert (done.returncode, done.stdout.strip()) == (0, str(page)), done.stderr
        assert page.read_text("utf-8").rstrip().endswith("</html>")
    assert list(tmp_path.iterdir()) == [page]
