"""A diagnosis on two threads says what it says on one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from multitracer.analysis import parallel
from multitracer.diagnosis import diagnosis, rules
from multitracer.diagnosis.service_times import ArrivalGaps, arrival_gaps
from multitracer.recording import transfer
from tests.benchmarks.diagnose import write_session
from tests.cli.program import call
from tests.conftest import SAMPLES

if TYPE_CHECKING:
    from pathlib import Path


def two_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (parallel, transfer, rules):
        monkeypatch.setattr(module, "FEWEST_ROWS", 0)


@pytest.mark.parametrize("session", ["cellular_upload", "fig8-resets-vj", "load"])
def test_two_threads_find_what_one_finds(session: str, monkeypatch: pytest.MonkeyPatch) -> None:
    argv = ("diagnose", "--json", str(SAMPLES / session))
    alone = call(*argv).stdout
    two_threads(monkeypatch)
    assert call(*argv).stdout == alone
    assert '"findings"' in alone


def test_what_several_rules_ask_for_is_measured_once(monkeypatch: pytest.MonkeyPatch) -> None:
    measured: list[object] = []

    def counted(*args: Any) -> ArrivalGaps | None:
        measured.append(args)
        return arrival_gaps(*args)

    monkeypatch.setattr(diagnosis, "arrival_gaps", counted)
    two_threads(monkeypatch)
    call("diagnose", "--json", str(SAMPLES / "cellular_upload"))
    assert len(measured) == 1


def test_two_threads_find_what_one_finds_in_captures_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_session(tmp_path, 4_000, both=True)
    alone = call("diagnose", "--json", str(tmp_path)).stdout
    two_threads(monkeypatch)
    assert call("diagnose", "--json", str(tmp_path)).stdout == alone
    assert '"findings"' in alone
