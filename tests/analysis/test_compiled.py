"""dcor's compiled code: one folder that a user alone can write to, and that no later program writes to."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING

import numpy as np
import pytest

from multitracer.analysis.statistics import correlations as compiled

if TYPE_CHECKING:
    from pathlib import Path

_PROGRAM = (
    "import sys, numpy as np;"
    "from multitracer.analysis.statistics.correlations import distance_correlation;"
    "print(distance_correlation()(np.arange(9.0), np.arange(9.0) ** 2))"
)


@pytest.mark.slow
def test_two_programs_at_once_leave_what_is_compiled_as_it_is() -> None:
    """By itself numba would keep a megabyte more for each of them."""
    here = compiled.distance_correlation()(np.arange(9.0), np.arange(9.0) ** 2)
    kept = compiled._folder()
    assert kept is not None
    before = {path: path.stat().st_mtime_ns for path in kept.rglob("*")}
    both = [subprocess.Popen([sys.executable, "-c", _PROGRAM], stdout=subprocess.PIPE, text=True) for _ in range(2)]
    assert [float(each.communicate()[0]) for each in both] == [here, here]
    assert {path: path.stat().st_mtime_ns for path in kept.rglob("*")} == before
    assert not {"NUMBA_OPT", "NUMBA_CACHE_DIR"} & set(os.environ)


@pytest.mark.parametrize(("mode", "is_own"), [(0o700, True), (0o770, False), (0o777, False)])
def test_code_is_taken_only_from_where_nobody_else_can_write(mode: int, *, is_own: bool, tmp_path: Path) -> None:
    folder = tmp_path / "kept"
    folder.mkdir()
    folder.chmod(mode)
    assert compiled._is_own(folder) == is_own
    assert not compiled._is_own(tmp_path / "absent")


def test_what_is_compiled_gets_its_name_when_it_is_whole(tmp_path: Path) -> None:
    kept = tmp_path / "cache" / "kept"
    with compiled._new_folder(kept) as made:
        assert made.parent.parent == kept.parent
        assert not kept.exists()
        made.rename(kept)
    assert [path.name for path in kept.parent.iterdir()] == ["kept"]
    assert compiled._is_own(kept)
