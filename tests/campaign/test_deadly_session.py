"""A session that kills its process each time is one failure: no other session is blamed or lost."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from multitracer.campaign.catalogue import Catalogue
from tests.campaign.deadly import environment_of, make_deadly
from tests.campaign.sessions import count, make_sessions
from tests.cli.program import COMMAND

if TYPE_CHECKING:
    from pathlib import Path

SESSIONS = 5


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    return environment_of(tmp_path / "packages")


@pytest.fixture
def drives(tmp_path: Path) -> Path:
    folder = make_sessions(tmp_path / "drives", SESSIONS)
    make_deadly(folder / "car0" / "day001")
    return folder


def _run(environment: dict[str, str], *args: str | Path) -> subprocess.CompletedProcess[str]:
    command = [*COMMAND, "campaign", "run", *map(str, args)]
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False)


def _only_failure(place: Path) -> str:
    (row,) = Catalogue(place).dataset("failures").to_table().to_pylist()
    assert count(place) == SESSIONS
    return f"{row['path']} {row['sentence']}"


@pytest.mark.slow
def test_one_process_goes_on_without_it(environment: dict[str, str], drives: Path, tmp_path: Path) -> None:
    place = tmp_path / "campaign"
    assert _run(environment, drives, "-o", place).returncode < 0, "it kills the first run"
    done = _run(environment, drives, "-o", place)
    assert done.returncode == 0, done.stderr
    failure = _only_failure(place)
    assert "day001" in failure
    assert "SIGKILL" in failure
    assert "0 sessions analysed" in _run(environment, drives, "-o", place).stdout


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_two_processes_lose_no_other_session(environment: dict[str, str], drives: Path, tmp_path: Path) -> None:
    place = tmp_path / "campaign"
    done = _run(environment, drives, "-o", place, "--jobs", "2")
    assert done.returncode == 0, done.stderr
    assert "1 of them failed" in done.stdout
    assert "day001" in _only_failure(place)


def test_the_reader_kills(environment: dict[str, str], tmp_path: Path) -> None:
    deadly = make_deadly(tmp_path / "deadly")
    program = "import sys, parsers; parsers.read(sys.argv[1])"
    done = subprocess.run([sys.executable, "-c", program, str(deadly / "modem.log")], env=environment, check=False)
    assert done.returncode < 0
