"""The map of columns that may lie beside a CSV log, `drive.csv.toml` (mapped_csv.py reads it)."""

from __future__ import annotations

import os
import stat


def map_of(path: str | os.PathLike[str]) -> str:
    """Return the name that the map of a file has."""
    return f"{os.fspath(path)}.toml"


def has_map(path: str | os.PathLike[str]) -> bool:
    """Return whether a map lies beside a file."""
    try:
        return stat.S_ISREG(os.lstat(map_of(path)).st_mode)
    except (OSError, ValueError):
        return False
