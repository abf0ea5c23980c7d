"""How the suite is run: what a busy machine disturbs comes last, and nothing is tried twice."""

from __future__ import annotations

import os
import re
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
    assert os.environ["PYTEST_XDIST_WORKER_COUNT"] in ("1", "3")
    open(f"{FOLDER}/order", "a").write("alone ")
@pytest.mark.realtime
def test_flaky():
    flag = f"{FOLDER}/failed"
    if not os.path.exists(flag):
        open(flag, "w").close()
        raise AssertionError
"""
TOOL = """#!/bin/sh
called="$(basename "$0") $* native=$MULTITRACER_NATIVE"
echo "$called" >> "$LOG"
case "$called" in $FAILS) exit 1 ;; esac
"""


@pytest.fixture
def suite(tmp_path: Path) -> Path:
    """Return a folder with three tests, configured as ours are."""
    (tmp_path / "pyproject.toml").write_text('[tool.pytest.ini_options]\nmarkers = ["realtime: last"]\n')
    (tmp_path / "test_it.py").write_text(SUITE)
    shutil.copy(ROOT / "tests" / "conftest.py", tmp_path)
    return tmp_path


def run(suite: Path, *options: str) -> int:
    """Run `.ci/pytest` on a folder with one worker beside the others; return its exit status."""
    argv = [str(ROOT / ".ci" / "pytest"), sys.executable, "1", "-q", *options]
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST")}
    done = subprocess.run(
        argv, cwd=suite, env=environment | {"FOLDER": str(suite)}, capture_output=True, text=True, check=False
    )
    return done.returncode


@pytest.mark.slow
def test_realtime_comes_last_and_what_failed_is_run_again_when_asked(suite: Path) -> None:
    assert run(suite) == 1
    assert (suite / "order").read_text() == "beside alone "
    assert run(suite, "--last-failed") == 0
    assert (suite / "order").read_text() == "beside alone "


PARTS = """#!/bin/sh
echo "$*" >> "$LOG"
case "$*" in *"-m not realtime"*) exit "$FIRST" ;; esac
exit "$LAST"
"""


def run_parts(tmp_path: Path, first: int, last: int, *options: str) -> tuple[int, list[str]]:
    """Run `.ci/pytest` with a pytest whose two parts end with these statuses; return its own, and all calls."""
    python = tmp_path / "python"
    python.write_text(PARTS)
    python.chmod(0o755)
    given = {"LOG": str(tmp_path / "log"), "FIRST": str(first), "LAST": str(last)}
    argv = [str(ROOT / ".ci" / "pytest"), str(python), "1", *options]
    done = subprocess.run(argv, env={**os.environ, **given}, capture_output=True, check=False)
    return done.returncode, (tmp_path / "log").read_text().splitlines()


@pytest.mark.parametrize(
    ("first", "last", "status"),
    [(0, 0, 0), (0, 5, 0), (5, 0, 0), (5, 5, 5), (1, 0, 1), (0, 1, 1), (1, 5, 1), (5, 1, 1)],
)
def test_either_part_may_be_empty_but_not_both(tmp_path: Path, first: int, last: int, status: int) -> None:
    assert int(pytest.ExitCode.NO_TESTS_COLLECTED) == 5
    done, called = run_parts(tmp_path, first, last, "-k", "word")
    assert done == status
    assert len(called) == 2
    assert all(call.endswith("-k word") for call in called)


def test_an_interrupt_ends_both_parts(tmp_path: Path) -> None:
    done, called = run_parts(tmp_path, int(pytest.ExitCode.INTERRUPTED), 0)
    assert (done, len(called)) == (2, 1)


@pytest.mark.parametrize("options", [("-m", "not realtime"), ("--last-failed",)])
def test_who_chooses_by_markers_gets_these_once(tmp_path: Path, options: tuple[str, ...]) -> None:
    done, called = run_parts(tmp_path, 0, 0, *options)
    assert done == 0
    assert len(called) == 1
    assert called[0].endswith(" ".join(options))


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    """Return a clone whose make, cargo and Python only note how they were called; it builds no server."""
    shutil.copytree(ROOT / ".ci", tmp_path / ".ci")
    (tmp_path / ".ci" / "s3-server").write_text("#!/bin/sh\n")
    (tmp_path / ".venv" / "bin").mkdir(parents=True)
    (tmp_path / "tools").mkdir()
    for tool in ("tools/make", "tools/cargo", ".venv/bin/python"):
        (tmp_path / tool).write_text(TOOL)
        (tmp_path / tool).chmod(0o755)
    return tmp_path


def steps(clone: Path, *, fails: str = "") -> tuple[int, list[str]]:
    """Run `.ci/run` in it, where steps that match a pattern fail; return its status and what was called."""
    tools = {"PATH": f"{clone / 'tools'}:/usr/bin:/bin", "LOG": str(clone / "log"), "FAILS": fails}
    done = subprocess.run([clone / ".ci" / "run"], env={**os.environ, **tools}, capture_output=True, check=False)
    return done.returncode, (clone / "log").read_text().splitlines()


NO_NETWORK = """#!/bin/sh
case "$1" in env) echo "$VERSION" ;; *) exit 1 ;; esac
"""


@pytest.mark.parametrize(
    ("version", "status"),
    [("", 0), ("go1.22.2", 0), ("go1.24.9", 0), ("go1.25", 1), ("go1.26.8", 1), ("devel go1.27-1a2b3c", 1)],
)
def test_a_server_that_go_cannot_build_is_an_error_if_go_is_new_enough(
    tmp_path: Path, version: str, status: int
) -> None:
    for tool in ("sh", "mkdir", "mktemp", "rm", "sed", "sort"):
        (tmp_path / tool).symlink_to(str(shutil.which(tool)))
    if version:
        (tmp_path / "go").write_text(NO_NETWORK)
        (tmp_path / "go").chmod(0o755)
    given = {"PATH": str(tmp_path), "XDG_CACHE_HOME": str(tmp_path / "cache"), "VERSION": version}
    done = subprocess.run([ROOT / ".ci" / "s3-server"], env=given, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (status, "")
    assert ("cannot be built here" if version else "No Go here") in done.stderr


def test_ci_tells_of_a_server_that_could_not_be_built(clone: Path) -> None:
    (clone / ".ci" / "s3-server").write_text("#!/bin/sh\nexit 1\n")
    status, called = steps(clone)
    assert status == 1
    assert called[-1] == "make -k -j3 -Otarget buckets engines wheel native="


def test_ci_runs_the_command_of_the_readme_first_and_then_without_the_kernel(clone: Path) -> None:
    (shown,) = re.findall(r"^(make test)\b", (ROOT / "README.md").read_text("utf-8"), re.MULTILINE)
    status, called = steps(clone)
    assert status == 0
    assert called[0] == f"{shown} native="
    (second,) = (call for call in called[1:] if call.startswith(shown))
    assert "native=0" in second.split()


@pytest.mark.parametrize("step", ["make test native=", "make lint*", "cargo*", "make *PYTEST_ARGS*", "make -k*"])
def test_ci_tries_nothing_twice_and_tells_of_each_failure_in_the_end(clone: Path, step: str) -> None:
    status, called = steps(clone, fails=step)
    assert status == 1
    assert len(called) == len(set(called))
    assert called[-1] == "make -k -j3 -Otarget buckets engines wheel native="
