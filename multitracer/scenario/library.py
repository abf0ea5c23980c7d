"""Where scenarios come from: the bundled ones by name, others by path."""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Never

from multitracer.channel.capacity.trace import CapacityTrace, parse_capacity_trace
from multitracer.channel.shared.error_trace import ErrorTrace, parse_error_trace
from multitracer.errors import InputError
from multitracer.manifest import inside
from multitracer.scenario.toml import parse_scenario

if TYPE_CHECKING:
    from multitracer.scenario.model import Scenario

_SUFFIX = ".toml"
_LINKS = ("bluetooth", "cdma2000", "cdpd")
_MAX_BYTES = 16 << 20


def bundled_names() -> list[str]:
    """Return the names of the bundled scenarios that run by themselves, sorted."""
    folder = files("multitracer.scenario") / "bundled"
    names = [entry.name.removesuffix(_SUFFIX) for entry in folder.iterdir() if _is_scenario(entry.name)]
    return sorted(set(names) - set(_LINKS))


def bundled_links() -> list[str]:
    """Return the names of the bundled links to measure over, sorted; `load_scenario` loads them too."""
    return list(_LINKS)


def _is_scenario(name: str) -> bool:
    return name.endswith(_SUFFIX)


def load_scenario(name: str) -> Scenario:
    """Return a bundled scenario or link by name, or any other by the path of its TOML file.

    Raises
    ------
    InputError
        If there is no such scenario or file.
    FormatError
        If the file is not a scenario.
    """
    if name in bundled_names() or name in _LINKS:
        entry = files("multitracer.scenario") / "bundled" / f"{name}{_SUFFIX}"
        return parse_scenario(
            entry.read_text("utf-8"), name=name, path=name, read_trace=_no_trace, read_capacity=_no_trace
        )
    if not _is_scenario(name):
        known = ", ".join((*bundled_names(), *_LINKS))
        raise InputError(f"{name}: no such scenario; give a .toml file or one of {known}")
    path = Path(name)
    return parse_scenario(
        small_text(path),
        name=path.stem,
        path=name,
        read_trace=lambda relative: read_error_trace(inside(path.parent, relative)),
        read_capacity=lambda relative: read_capacity_trace(inside(path.parent, relative)),
    )


def _no_trace(name: str) -> Never:
    raise InputError(f"{name}: a bundled scenario has no trace beside it")


def read_error_trace(path: Path) -> ErrorTrace:
    """Return the error trace in a file.

    Raises
    ------
    InputError
        If the file cannot be read.
    FormatError
        If it is no error trace.
    """
    return parse_error_trace(small_text(path), path=str(path))


def read_capacity_trace(path: Path) -> CapacityTrace:
    """Return the capacity trace in a file of Mahimahi's format.

    Raises
    ------
    InputError
        If the file cannot be read.
    FormatError
        If it is no capacity trace.
    """
    return parse_capacity_trace(small_text(path), path=str(path))


def small_text(path: Path) -> str:
    """Return the text of a file that has no more than 16 MiB, a device or a pipe included.

    Raises
    ------
    InputError
        If it cannot be read, is longer, or is not UTF-8.
    """
    try:
        with path.open("rb") as stream:
            octets = stream.read(_MAX_BYTES + 1)  # a device has no size
        if len(octets) > _MAX_BYTES:
            raise InputError(f"{path}: longer than {_MAX_BYTES >> 20} MiB; this is another kind of file")
        return octets.decode("utf-8")
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise InputError(f"{path}: is not text") from error
