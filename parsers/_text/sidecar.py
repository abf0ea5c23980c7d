"""The map of columns next to a CSV log, `drive.csv.toml` (mapped_csv.py reads it)."""

from __future__ import annotations

import os
import stat


def map_of(path: str | os.PathLike[str]) -> str:
    """Return the name of a file's map."""
    return f"{os.fspath(path)}.toml"


def has_map(path: str | os.PathLike[str]) -> bool:
    """Return whether a file has a map next to it."""
    try:
        return stat.S_ISREG(os.lstat(map_of(path)).st_mode)
    except (OSError, ValueError):
        return False


def is_map(path: str | os.PathLike[str]) -> bool:
    """Return whether a file is the map of one that lies next to it."""
    name = os.fspath(path)
    log = name.removesuffix(".toml")
    return log != name and os.path.isfile(log) and has_map(log)  # noqa: PTH113  a name may hold NUL
