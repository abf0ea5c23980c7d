"""Runs the real program, as a user's shell does."""

from __future__ import annotations

import contextlib
import io
import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import multitracer.cli._program as cli

if TYPE_CHECKING:
    from collections.abc import Sequence

ROOT = Path(__file__).parents[2]
COMMAND = [sys.executable, "-m", "multitracer"]
ENVIRONMENT = {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONWARNINGS": "error"}
Done = subprocess.CompletedProcess[str]


def run(*args: str | Path, status: int = 0, before: Sequence[str] = (), **options: Any) -> Done:
    """Run `multitracer` and check its exit status; an error must be one line.

    `before` is a command that the program is started by.
    """
    options = {"env": ENVIRONMENT, "timeout": 60, "errors": "surrogateescape", **options}
    done = subprocess.run([*before, *COMMAND, *args], capture_output=True, text=True, check=False, **options)
    assert done.returncode == status, done.stderr
    assert "Traceback" not in done.stderr
    if status == 1:
        assert one_error(done.stderr), done.stderr
    return done


def call(*args: str | Path, status: int = 0, cwd: str | Path = ".") -> Done:
    """Do the same within this process, ten times as fast: for tests of what is said, not of how it ends."""
    out, err = (io.TextIOWrapper(io.BytesIO(), "utf-8", newline="") for _ in range(2))
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err), contextlib.chdir(cwd):
        returned = cli.run(list(map(str, args)))
    texts = (stream.detach().getvalue().decode("utf-8", "surrogateescape") for stream in (out, err))
    done = Done(args, returned, *texts)
    assert done.returncode == status, done.stderr
    if status == 1:
        assert one_error(done.stderr), done.stderr
    return done


def one_error(stderr: str) -> bool:
    """Return whether standard error ends in the only line that is no warning, and that is the error.

    Lines of progress, which begin with the time, appear after ten seconds: on a slow machine.
    """
    lines = [line for line in stderr.splitlines() if not re.match(r"Warning: |\d\d:\d\d:\d\d ", line)]
    return len(lines) == 1 and lines[0].startswith("Error: ")


def analyze(*args: str | Path) -> dict[str, Any]:
    """Return what `analyze --json` writes."""
    document = json.loads(call("analyze", "--json", *args).stdout)
    assert isinstance(document, dict)
    return document


def start(args: Sequence[str | Path], **options: Any) -> subprocess.Popen[str]:
    """Start `multitracer` with pipes on all three streams."""
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    return subprocess.Popen([*COMMAND, *args], env=ENVIRONMENT, text=True, **{**pipes, **options})
