"""A diagnosis on two threads says what it says on one."""

from __future__ import annotations

import pytest

from multitracer.diagnosis import transfer
from tests.cli.program import call
from tests.conftest import SAMPLES


@pytest.mark.parametrize("session", ["cellular_upload", "fig8-resets-vj", "load"])
def test_two_threads_find_what_one_finds(session: str, monkeypatch: pytest.MonkeyPatch) -> None:
    argv = ("diagnose", "--json", str(SAMPLES / session))
    alone = call(*argv).stdout
    monkeypatch.setattr(transfer, "_WORTH_A_THREAD", 0)
    assert call(*argv).stdout == alone
    assert '"findings"' in alone
