"""Finds scenarios: bundled ones by name, others by path."""

from __future__ import annotations

import json
import tomllib
from contextlib import suppress
from dataclasses import replace
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Never

from multitracer.errors import FormatError, InputError
from multitracer.lab.channel.switched import MOST_POWER_BYTES, PowerTrace, parse_power_trace
from multitracer.lab.scenario.toml import parse_scenario
from multitracer.manifest import inside
from multitracer.protocols.capacity_trace import CapacityTrace, parse_capacity_trace
from multitracer.protocols.error_trace import ErrorTrace, parse_error_trace
from parsers._stream import SMALL_BYTES, small_text

if TYPE_CHECKING:
    from collections.abc import Mapping

    from multitracer.lab.scenario.model import Scenario
    from multitracer.schemas.schema import Document

SCENARIO = "scenario.toml"
"""Name of the scenario file in the folder of a run."""
KEPT_TRACES = "truth/traces"
"""Folder for the traces of the scenario in the folder of a run; each file has its original name."""
_SUFFIX = ".toml"
_LINKS = ("bluetooth", "bluetooth-linux22", "cdma2000", "cdpd", "cdpd-palm")


def bundled_names() -> list[str]:
    """Return the sorted names of the bundled scenarios that can be run alone."""
    folder = files("multitracer.lab.scenario") / "bundled"
    names = [entry.name.removesuffix(_SUFFIX) for entry in folder.iterdir() if _is_scenario(entry.name)]
    return sorted(set(names) - set(_LINKS))


def bundled_links() -> list[str]:
    """Return the sorted names of the bundled links for measurements; `load_scenario` accepts these names."""
    return list(_LINKS)


def _is_scenario(name: str) -> bool:
    return name.endswith(_SUFFIX)


def load_scenario(name: str, changes: Mapping[str, object] | None = None) -> Scenario:
    """Return a scenario: a bundled one by its name, or any other by the path of its TOML file.

    Parameters
    ----------
    name : str
    changes : mapping of str to object, optional
        Values that replace those of the file, by key such as `link.cell.busy_percent`.

    Raises
    ------
    InputError
        If there is no such scenario or file.
    FormatError
        If the file is not a valid scenario.
    """
    if name in bundled_names() or name in _LINKS:
        entry = files("multitracer.lab.scenario") / "bundled" / f"{name}{_SUFFIX}"
        return parse_scenario(
            _changed(entry.read_text("utf-8"), changes, name),
            name=name,
            path=name,
            read_trace=_no_trace,
            read_capacity=_no_trace,
            read_power=_no_trace,
        )
    if not _is_scenario(name):
        known = ", ".join((*bundled_names(), *_LINKS))
        raise InputError(f"{name}: no scenario has this name; give a .toml file or one of {known}")
    path = Path(name)
    named = _TraceFiles(path)
    scenario = parse_scenario(
        _changed(small_text(path), changes, name),
        name=path.stem,
        path=name,
        read_trace=lambda relative: parse_error_trace(**named.text(relative)),
        read_capacity=lambda relative: parse_capacity_trace(**named.text(relative)),
        read_power=lambda relative: parse_power_trace(**named.text(relative, MOST_POWER_BYTES)),
    )
    return replace(scenario, traces=tuple(named.texts.items()))


def _changed(text: str, changes: Mapping[str, object] | None, path: str) -> str:
    return changed_text(text, changes, path=path) if changes else text


class _TraceFiles:
    """Reads the trace files that a scenario names; in the folder of a run, the copies in that folder."""

    def __init__(self, scenario: Path) -> None:
        self._folder = scenario.parent
        self._is_kept = scenario.name == SCENARIO
        self.texts: dict[str, str] = {}

    def text(self, relative: str, most_bytes: int = SMALL_BYTES) -> dict[str, str]:
        """Return the text and the path of a trace file; raise the errors of `inside` and `small_text`."""
        path = inside(self._folder, relative)
        if self._is_kept:
            kept = inside(self._folder / KEPT_TRACES, relative)
            with suppress(OSError):  # a name that is too long
                path = kept if kept.is_file() else path
        self.texts[relative] = small_text(path, most_bytes=most_bytes)
        return {"text": self.texts[relative], "path": str(path)}


def _no_trace(name: str) -> Never:
    raise InputError(f"{name}: a bundled scenario must not name a trace file")


def read_error_trace(path: Path) -> ErrorTrace:
    """Return the error trace in a file.

    Raises
    ------
    InputError
        If the file cannot be read.
    FormatError
        If the file is not an error trace.
    """
    return parse_error_trace(small_text(path), path=str(path))


def read_capacity_trace(path: Path) -> CapacityTrace:
    """Return the capacity trace in a file of Mahimahi's format.

    Raises
    ------
    InputError
        If the file cannot be read.
    FormatError
        If the file is not a capacity trace.
    """
    return parse_capacity_trace(small_text(path), path=str(path))


def read_power_trace(path: Path) -> PowerTrace:
    """Return the power trace in a file that `testbed channel` wrote.

    Raises
    ------
    InputError
        If the file cannot be read.
    FormatError
        If the file is not a power trace.
    """
    return parse_power_trace(small_text(path, most_bytes=MOST_POWER_BYTES), path=str(path))


# A scenario's TOML with other values: what a level of a variable stands for.


def changed_text(text: str, changes: Mapping[str, object], *, path: str) -> str:
    """Return a scenario's TOML text with some values changed; new keys are added at the start of their table.

    Parameters
    ----------
    text : str
        TOML.
    changes : mapping of str to object
        Values by key, such as `link.cell.busy_percent`. A table that the text does not have is added.
    path : str
        Path of the file, for messages.

    Raises
    ------
    FormatError
        If the text is not TOML, or a key is below another key that is not a table.
    """
    try:
        document = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise FormatError(path, f"the file is not valid TOML: {error}") from error
    for key, value in changes.items():
        *tables, last = key.split(".")
        inner: Document = document
        for name in tables:
            inner = inner.setdefault(name, {})
            if not isinstance(inner, dict):
                raise FormatError(path, f'cannot set the key "{key}", because "{name}" is not a table')
        inner[last] = value
    return "".join(f"{json.dumps(key)} = {_value(value)}\n" for key, value in document.items())


def _value(value: object) -> str:
    """Return a value as TOML on one line; TOML uses the escapes of JSON strings."""
    if isinstance(value, dict):
        return "{" + ", ".join(f"{json.dumps(key)} = {_value(each)}" for key, each in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(_value, value)) + "]"
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    return str(value).lower() if isinstance(value, bool | float) else str(value)
