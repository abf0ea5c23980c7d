"""The hook that holds the form of a commit's subject."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

HOOK = Path(__file__).parents[1] / ".ci" / "commit-subject"


@pytest.mark.parametrize(
    ("subject", "status"),
    [
        ("parsers: read Solaris snoop", 0),
        ("merge: take main", 0),
        (f"docs: {'é' * 66}", 0),
        (f"docs: {'é' * 67}", 1),
        ("wip", 1),
        ("", 1),
    ],
)
def test_subject_of_a_commit(subject: str, status: int, tmp_path: Path) -> None:
    message = tmp_path / "message"
    message.write_text(f"{subject}\n\nWhy: with the numbers, as long as it likes.\n", "utf-8")
    environment = {"PATH": "/usr/bin:/bin", "LC_ALL": "C.UTF-8"}
    done = subprocess.run([HOOK, message], env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == status
    assert bool(done.stderr) == bool(status)
