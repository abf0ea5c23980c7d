"""How the suite is run: what a busy machine disturbs comes last and alone, and retries are counted."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SUITE = """
import os, pytest
FOLDER = os.environ["FOLDER"]
def test_beside():
    open(f"{FOLDER}/order", "a").write("beside ")
@pytest.mark.realtime
def test_alone():
    assert "PYTEST_XDIST_WORKER" not in os.environ
    open(f"{FOLDER}/order", "a").write("alone ")
@pytest.mark.realtime
def test_flaky():
    flag = f"{FOLDER}/failed"
    if not os.path.exists(flag):
        open(flag, "w").close()
        raise AssertionError
"""


@pytest.fixture
def suite(tmp_path: Path) -> Path:
    """Return a folder with three tests, configured and recorded as ours are."""
    (tmp_path / "pyproject.toml").write_text('[tool.pytest.ini_options]\nmarkers = ["realtime: alone"]\n')
    (tmp_path / "test_it.py").write_text(SUITE)
    shutil.copy(ROOT / "tests" / "conftest.py", tmp_path)
    return tmp_path


def run(suite: Path, *options: str) -> int:
    """Run `.ci/pytest` on a folder with one worker beside the others; return its exit status."""
    argv = [str(ROOT / ".ci" / "pytest"), sys.executable, "1", "-q", *options]
    more = {"FOLDER": str(suite), "MULTITRACER_TESTS_RUN": str(suite / "run.jsonl")}
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST")}
    done = subprocess.run(
        argv, cwd=suite, env=environment | more, capture_output=True, text=True, check=False
    )
    return done.returncode


def retried(suite: Path) -> str:
    """Return the line that `.ci/run` ends with."""
    argv = [sys.executable, str(ROOT / ".ci" / "retried"), str(suite / "run.jsonl")]
    return subprocess.run(argv, capture_output=True, text=True, check=True).stdout


def test_realtime_comes_last_and_what_failed_is_counted_when_it_runs_again(suite: Path) -> None:
    assert run(suite) == 1
    assert (suite / "order").read_text() == "beside alone "
    assert retried(suite) == "retried 0 of 3 tests\n"
    assert run(suite, "--last-failed", "--last-failed-no-failures=none") == 0
    assert retried(suite) == "retried 1 of 3 tests: test_it.py::test_flaky\n"


def test_either_part_may_be_empty_but_not_both(suite: Path) -> None:
    assert run(suite, "-k", "beside") == 0
    assert run(suite, "-k", "alone") == 0
    assert run(suite, "-k", "neither") == 5


def test_who_chooses_by_markers_gets_these_once(suite: Path) -> None:
    assert run(suite, "-m", "not realtime") == 0
    assert (suite / "order").read_text() == "beside "
    assert len((suite / "run.jsonl").read_text().splitlines()) == 1


def test_each_test_that_ran_is_noted_with_its_outcome(suite: Path) -> None:
    run(suite)
    parallel, serial = map(json.loads, (suite / "run.jsonl").read_text().splitlines())
    assert parallel == {"passed": ["test_it.py::test_beside"], "failed": [], "error": []}
    assert serial["failed"] == ["test_it.py::test_flaky"]
