"""The analyser works where the folder `multitracer/lab` is not: it reads, analyses, draws and measures."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable

ROOT = Path(__file__).parents[1]
SESSION = ROOT / "sample_traces" / "fig11-fade"
DRIVE = ROOT / "sample_traces" / "rehearsed-drive"


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., subprocess.CompletedProcess[str]]:
    """Return what runs `multitracer` in a copy of the packages without the lab."""
    folder = tmp_path_factory.mktemp("without_lab")
    for name in ("multitracer", "parsers", "collectors"):  # as they are compiled: not anew for each command
        ignored = shutil.ignore_patterns("lab") if name == "multitracer" else None
        shutil.copytree(ROOT / name, folder / name, ignore=ignored)
    assert not (folder / "multitracer" / "lab").exists()

    def started(*words: object) -> subprocess.CompletedProcess[str]:
        program = "import sys; from multitracer.cli import main; sys.path[:] = sys.path[1:]; main()"
        return subprocess.run(
            [sys.executable, "-c", program, *map(str, words)],
            cwd=folder, capture_output=True, text=True, check=False,
            env={**os.environ, "PYTHONPATH": str(folder)},
        )  # fmt: skip

    return started


@pytest.mark.parametrize(
    "words",
    [
        ("--help",),
        ("inspect", SESSION),
        ("analyze", SESSION, "--json"),
        ("align", SESSION),
        ("diagnose", SESSION),
        ("correlate", DRIVE, "--permutations", "19"),
        ("report", SESSION, "-o", "report.html"),
        ("plot", SESSION, "-o", "plot.html"),
        ("export", "series", SESSION, "-o", "series.csv"),
        ("export", "errors", SESSION, "-o", "errors.txt"),
        ("formats",),
        ("doctor",),
        *((name, "--help") for name in ("dissect", "campaign", "compare", "capture", "merge", "measure", "testbed")),
    ],
    ids=lambda words: " ".join(str(word) for word in words[:2] if not isinstance(word, Path)),
)
def test_a_command_works_without_the_lab(
    run: Callable[..., subprocess.CompletedProcess[str]], words: tuple[object, ...]
) -> None:
    done = run(*words)
    assert done.returncode == 0, done.stderr
    assert "multitracer.lab" not in done.stderr


def test_a_command_of_the_lab_says_that_it_is_not_there(run: Callable[..., subprocess.CompletedProcess[str]]) -> None:
    done = run("testbed", "list")
    assert done.returncode == 1
    assert done.stderr == (
        "Error: this command needs the lab (package multitracer.lab), which is not installed; reinstall multitracer\n"
    )
