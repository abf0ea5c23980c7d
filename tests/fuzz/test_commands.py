"""The commands on damaged captures, a moment of it: `python -m tests.fuzz.commands` runs them for longer."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from multitracer.cli import diagnose
from tests.fuzz import commands, inspected

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.fuzz
def test_no_command_ends_in_a_bug() -> None:
    assert commands.run(1, 42) == (43, [])


@pytest.mark.fuzz
def test_inspect_never_ends_in_a_bug() -> None:
    assert inspected.run(1, 500) == (501, [])


def test_a_bug_is_found_and_its_capture_kept(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def broken(*_: object) -> None:
        raise ZeroDivisionError("a bug")

    monkeypatch.setattr(commands, "_OUT", tmp_path)
    monkeypatch.setattr(diagnose, "_needs", broken)
    assert commands.run(100, 1) == (101, [100])
    assert (tmp_path / "commands-100.bin").read_bytes() == commands.damaged(100)
