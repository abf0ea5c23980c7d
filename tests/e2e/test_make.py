"""The Makefile and what it calls, as far as a test can without a machine of its own."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
INSTALLED_BY_MAKE = Path(sys.prefix, ".user").exists()


def _make(*words: str, folder: Path = ROOT) -> subprocess.CompletedProcess[str]:
    """Run make as a user does, also when a make started these tests (it would say where it is)."""
    env = {name: value for name, value in os.environ.items() if not name.startswith(("MAKE", "MFLAGS"))}
    return subprocess.run(["make", *words], cwd=folder, env=env, capture_output=True, text=True, check=False)


def test_help_lists_what_can_be_made() -> None:
    shown = _make().stdout
    for target in ("demo", "test", "lint", "bench", "causes", "fuzz", "clean"):
        assert f"make {target} " in shown


def test_papers_have_targets_of_their_own() -> None:
    shown = _make("--no-print-directory", "-C", "docs/papers").stdout
    for target in ("figures", "experiments", "studies", "wtcp", "ray", "replay", "cross-layer"):
        assert f"make -C docs/papers {target} " in shown


@pytest.mark.skipif(not INSTALLED_BY_MAKE, reason="this environment was not made by make")
def test_demo_ends_with_the_path_of_a_report(tmp_path: Path) -> None:
    report = tmp_path / "report.html"
    # Not to be made again, though pyproject.toml may be newer: other clones may use this environment
    done = _make("demo", f"--old-file={sys.prefix}/.user", f"VENV={sys.prefix}", f"REPORT={report}")
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == str(report)
    assert report.read_text().lstrip().lower().startswith("<!doctype html>")


NOTING_PYTHON = """#!/bin/sh
echo "$PYTHONPATH|$MULTITRACER_DIST|$*" >> "$(dirname "$0")/log"
"""


def test_the_folder_of_a_clone_may_have_spaces_in_its_name(tmp_path: Path) -> None:
    """The environment is made, and its Python only notes how it was called."""
    clone = tmp_path / "a clone of mine"
    made = [clone / ".venv" / each for each in (".made", ".user", ".developer", ".build/.made", ".duckdb-1.5/.made")]
    python, report = clone / ".venv" / "bin" / "python", clone / "out" / "typical-1450k.html"
    for path in [clone / "pyproject.toml", clone / ".ci" / "make-venv", *made, python, report]:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(NOTING_PYTHON)
    python.chmod(0o755)
    shutil.copy(ROOT / "Makefile", clone)
    done = _make("demo", "wheel", "engines", folder=clone)
    assert done.returncode == 0, done.stderr
    assert str(report) in done.stdout.splitlines()
    called = (python.parent / "log").read_text()
    assert f"-o {report}\n" in called
    assert f"\n{clone}/.venv/.build|{clone}/dist|-m pytest tests/native/test_wheel.py\n" in called
    assert f"\n{clone}/.venv/.duckdb-1.5||-m pytest " in called


def test_without_python_the_message_says_what_to_do(tmp_path: Path) -> None:
    for tool in ("id", "dirname"):
        (tmp_path / tool).symlink_to(str(shutil.which(tool)))
    done = subprocess.run(
        [ROOT / ".ci" / "make-venv", tmp_path / "venv"],
        env={"PATH": str(tmp_path)}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 1
    assert "Python 3.11 or newer is needed" in done.stderr
    assert "make PYTHON=" in done.stderr


def test_an_old_python_is_passed_over(tmp_path: Path) -> None:
    old = tmp_path / "python3"
    old.write_text("#!/bin/sh\nexit 1\n")
    old.chmod(0o755)
    for tool in ("id", "dirname"):
        (tmp_path / tool).symlink_to(str(shutil.which(tool)))
    (tmp_path / "python3.12").symlink_to(sys.executable)
    done = subprocess.run(
        ["/bin/sh", "-c", f". '{_functions(tmp_path)}'; find_python"],
        env={"PATH": str(tmp_path)}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.stdout.strip() == str(tmp_path / "python3.12")


def _functions(folder: Path) -> Path:
    """Return the script's functions without what it does with them."""
    text = (ROOT / ".ci" / "make-venv").read_text().partition("\nif [ -x ")[0]
    path = folder / "functions.sh"
    path.write_text(text.replace("venv=$1", ""))
    return path
