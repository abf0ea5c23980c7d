"""A diagnosis on two threads says what it says on one."""

from __future__ import annotations

from typing import TYPE_CHECKING

from multitracer.cli import diagnose
from tests.cli.program import call
from tests.conftest import SAMPLES

if TYPE_CHECKING:
    import pytest


def test_two_threads_find_what_one_finds(monkeypatch: pytest.MonkeyPatch) -> None:
    argv = ("diagnose", "--json", str(SAMPLES / "cellular_upload"))
    alone = call(*argv).stdout
    monkeypatch.setattr(diagnose, "_WORTH_A_THREAD", 0)
    assert call(*argv).stdout == alone
    assert '"findings"' in alone
