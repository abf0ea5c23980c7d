"""A diagnosis on two threads says what it says on one."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from multitracer.analysis import parallel
from multitracer.diagnosis import transfer
from tests.benchmarks.diagnose import write_session
from tests.cli.program import call
from tests.conftest import SAMPLES

if TYPE_CHECKING:
    from pathlib import Path


def two_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (parallel, transfer):
        monkeypatch.setattr(module, "FEWEST_ROWS", 0)


@pytest.mark.parametrize("session", ["cellular_upload", "fig8-resets-vj", "load"])
def test_two_threads_find_what_one_finds(session: str, monkeypatch: pytest.MonkeyPatch) -> None:
    argv = ("diagnose", "--json", str(SAMPLES / session))
    alone = call(*argv).stdout
    two_threads(monkeypatch)
    assert call(*argv).stdout == alone
    assert '"findings"' in alone


def test_two_threads_find_what_one_finds_in_captures_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_session(tmp_path, 4_000, both=True)
    alone = call("diagnose", "--json", str(tmp_path)).stdout
    two_threads(monkeypatch)
    assert call("diagnose", "--json", str(tmp_path)).stdout == alone
    assert '"findings"' in alone
