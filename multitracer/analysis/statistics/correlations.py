"""Rank correlation, distance correlation, and mutual information from nearest neighbours.

Nearest neighbours need no bins: Kraskov, Stögbauer and Grassberger (2004).

dcor compiles with numba. By default, numba caches the compiled code beside dcor's files. Two programs that
compile at the same time leave a cache that can never be loaded; and two unused functions are compiled and
cached again by each program, since their keys are random (seconds and a megabyte each time). Therefore:

- compiled code goes into a separate folder, which gets its final name when it is complete; a program that
  finds this name writes nothing into the folder;
- such a program lets numba compile the remaining functions without optimisation, which takes a fifth of the
  time and does not affect the functions in use.
"""

from __future__ import annotations

import hashlib
import os
import stat
import sys
import tempfile
import warnings
from contextlib import contextmanager, suppress
from functools import cache as once
from importlib import import_module
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from scipy.stats import spearmanr

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from multitracer.tables import Array

    Correlation = Callable[[Array, Array], float]

for needed in ("sklearn", "dcor"):  # imported where they are called: that takes longer than all the rest
    if find_spec(needed) is None:
        raise ModuleNotFoundError(f"{needed} is not installed", name=needed)


def rank_correlation(x: Array, y: Array) -> float:
    """Return Spearman's correlation of the points that both series have; NaN if a series is constant."""
    pair = _varying_pair(x, y)
    return float("nan") if pair is None else float(spearmanr(*pair).statistic)


def correlation_of_distances(x: Array, y: Array) -> float:
    """Return the distance correlation of the points that both series have; NaN if a series is constant.

    Szekely, Rizzo and Bakirov (2007), Annals of Statistics 35: it is 0 only for independent series, for any
    kind of dependence. The algorithm takes time n log n (Huo and Szekely 2016).
    """
    pair = _varying_pair(x, y)
    return float("nan") if pair is None else float(distance_correlation()(*pair))


def _varying_pair(x: Array, y: Array) -> tuple[Array, Array] | None:
    both = np.isfinite(x) & np.isfinite(y)
    x, y = x[both], y[both]
    return (x, y) if len(x) and np.ptp(x) > 0 and np.ptp(y) > 0 else None


_NEIGHBOURS = 3
"""Number of neighbours; Kraskov, Stögbauer and Grassberger recommend 2 to 4."""


def information_of_neighbours(x: Array, y: Array) -> float:
    """Return the mutual information of two series in nats, at least 0 (first KSG algorithm).

    Parameters
    ----------
    x, y : ndarray of float64, shape (n_points,)
        Without gaps. Noise of 1e-10 of their size (fixed seed) separates equal values.
    """
    from sklearn.feature_selection import mutual_info_regression  # noqa: PLC0415  # 0.7 s, and only `ksg` needs it

    information = mutual_info_regression(
        x[:, None], y, discrete_features=False, n_neighbors=_NEIGHBOURS, random_state=0
    )
    return float(information[0])


def linfoot(information: Array) -> Array:
    """Return Linfoot's informational correlation, sqrt(1 - exp(-2 I)), 0 to 1.

    Linfoot (1957), Information and Control 1. For two normal series it equals the absolute value of their correlation.
    """
    value: Array = np.sqrt(-np.expm1(-2 * np.asarray(information)))
    return value


_MODE = 0o700  # of a folder that only the user can write to or read


@once
def distance_correlation() -> Correlation:
    """Return the function of the package dcor; its first use on a machine compiles it for half a minute."""
    if "dcor" not in sys.modules:
        kept = _folder()
        if kept is not None and _is_own(kept):
            _imported(NUMBA_CACHE_DIR=str(kept), NUMBA_OPT="0")
        else:
            _compile_into(kept)
    function: Correlation = import_module("dcor").distance_correlation
    return function


def _compile_into(kept: Path | None) -> None:
    """Compile dcor's functions in a new folder, then rename the folder to `kept`.

    It is not renamed if another program has created `kept` before, or if the file system does not allow it.
    """
    with _new_folder(kept) as made:
        _imported(NUMBA_CACHE_DIR=str(made))
        some = np.arange(9.0)
        import_module("dcor").distance_correlation(some, some)
        if kept is not None:
            with suppress(OSError):  # another program was faster, or the folder is on another disk
                made.rename(kept)


@contextmanager
def _new_folder(kept: Path | None) -> Iterator[Path]:
    """Create a temporary folder beside `kept` (or in the temporary directory), and remove it at the end."""
    place = None
    if kept is not None:
        with suppress(OSError):
            kept.parent.mkdir(parents=True, exist_ok=True)
            place = kept.parent if os.access(kept.parent, os.W_OK) else None
    with tempfile.TemporaryDirectory(dir=place, prefix="new-") as name:
        made = Path(name) / "compiled"
        made.mkdir(mode=_MODE)
        yield made


def _is_own(folder: Path) -> bool:
    """Return whether the folder exists and only this user can write to it; code is loaded from it."""
    try:
        status = folder.lstat()
    except OSError:
        return False
    is_closed = status.st_uid == os.geteuid() and stat.S_IMODE(status.st_mode) == _MODE
    return stat.S_ISDIR(status.st_mode) and is_closed


def _imported(**variables: str) -> None:
    """Import dcor with these environment variables set for numba."""
    before = {name: os.environ.get(name) for name in variables}
    os.environ.update(variables)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # "Cannot cache": what is not called need not be kept
            import_module("numba").config.reload_config()
            import_module("dcor")
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value
        import_module("numba").config.reload_config()


def _folder() -> Path | None:
    """Return the folder of the compiled code; None without a home directory.

    Its name depends on the versions of dcor, numba and Python, and on the processor.
    """
    spec = find_spec("dcor")
    origin = Path(spec.origin if spec and spec.origin else "")
    llvm = import_module("llvmlite.binding")
    known = (
        str(origin), origin.stat().st_mtime_ns, version("dcor"), version("numba"), sys.version,
        llvm.get_host_cpu_name(), llvm.get_host_cpu_features().flatten(),
    )  # fmt: skip
    try:
        cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    except RuntimeError:
        return None
    return cache / "multitracer" / "dcor" / hashlib.sha256(repr(known).encode()).hexdigest()[:16]
