"""The interface of a collector; all public modules of this package implement it."""

from __future__ import annotations

import functools
import importlib
import pkgutil
import re
import subprocess
import sys
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from multitracer.errors import PluginError, PreflightError, answering_within, bound_elsewhere, right_argument

if TYPE_CHECKING:
    from collections.abc import Callable, Container
    from importlib.metadata import EntryPoint

ENTRY_POINTS = "multitracer.collectors"
"""Entry-point group in which other packages register collectors: NAME = "MODULE"."""
_NAME = re.compile(r"[a-z][a-z0-9_]{0,31}")
_LONGEST_WORDS = 200
_CHECK_S = 10.0
"""Time for the check of another package's collector in s. Not measured."""
_SUFFIX = re.compile(r"\.[a-z0-9]{1,16}")


@dataclass(frozen=True, slots=True)
class Collector:
    """One live source.

    A module of a collector assigns it to the name `COLLECTOR` in the last line.

    The command `python -m MODULE -o LOG [--duration SECONDS] …` runs the collector; it ends as described for
    the package.
    """

    name: str
    """Name of the module, for example `tcp_info`."""
    layer: str
    """Layer of the records: packet, tcp, link, radio, position or clock."""
    description: str
    """Description in one line, for `multitracer doctor`."""
    log_format: str
    """Name of the log's format in `parsers`."""
    suffix: str
    """Suffix of the log's file name, for example `.jsonl`."""
    check: Callable[[], None]
    """Function that raises PreflightError, with a remedy, if the collector cannot run on this machine."""
    module: str = ""
    """Module that `python -m` runs; set by `collectors`."""


@dataclass(frozen=True, slots=True)
class InstalledCollectors:
    """The result of `installed`: usable collectors, and errors of the others."""

    collectors: dict[str, Collector]
    """Collectors by name: first those of this package, then those of other packages."""
    broken: tuple[PluginError, ...]
    """Errors of unusable collectors of other packages."""


def collectors() -> dict[str, Collector]:
    """Return all usable collectors by name; `installed` also returns the errors of unusable ones.

    Raises
    ------
    PluginError
        If a public module of this package binds no COLLECTOR under its own name.
    """
    return installed().collectors


@functools.cache
def installed() -> InstalledCollectors:
    """Return the collectors of this package and of all entry points, with the errors of broken plug-ins.

    Raises
    ------
    PluginError
        If a public module of this package binds no COLLECTOR under its own name.
    """
    package = importlib.import_module("collectors")
    names = sorted(m.name for m in pkgutil.iter_modules(package.__path__) if not m.name.startswith("_"))
    collectors = {name: _bound(name, f"collectors.{name}") for name in names}
    broken = []
    for point in _entry_points():
        try:
            collectors[point.name] = _external(point, taken=collectors)
        except (Exception, SystemExit) as error:  # noqa: BLE001  # a plug-in may raise anything
            why = f"{_words(error)}{right_argument(error, Collector.__dataclass_fields__)}"
            broken.append(PluginError(f"collector plug-in {point.name} ({point.value}): {why}"))
    return InstalledCollectors(collectors, tuple(broken))


def _entry_points() -> list[EntryPoint]:
    import importlib.metadata  # noqa: PLC0415  it costs 10 ms, and a collector itself does not need it

    points = importlib.metadata.entry_points(group=ENTRY_POINTS)
    return sorted(points, key=lambda point: (point.name, point.value))


def _words(error: BaseException) -> str:
    return (str(error) or repr(error))[:_LONGEST_WORDS]


def _bound(name: str, module: str) -> Collector:
    loaded = importlib.import_module(module)
    collector = getattr(loaded, "COLLECTOR", None)
    if not isinstance(collector, Collector) or collector.name != name:
        advice = f"name it so, not {collector.name!r}" if isinstance(collector, Collector) else None
        raise PluginError(
            f"{module}: the module has no COLLECTOR with the name {name!r}; "
            f"{advice or bound_elsewhere(loaded, 'COLLECTOR', Collector)}"
        )
    return replace(collector, module=module)


def _external(point: EntryPoint, *, taken: Container[str]) -> Collector:
    """Return the collector of an entry point; its name must be valid as a file name."""
    if point.name in taken:
        raise PluginError("a collector with this name already exists; rename one of the two collectors")
    collector = _bound(point.name, point.module)
    if not _NAME.fullmatch(collector.name) or not _SUFFIX.fullmatch(collector.suffix):
        raise PluginError(
            f"the name {collector.name!r} or the file suffix {collector.suffix!r} of this collector "
            "is not allowed; use letters and digits"
        )
    return replace(collector, check=functools.partial(_check, collector))


def check_alone(program: str) -> None:
    """Run a program in a process of its own; raise PreflightError with the last line of its error."""
    guarded = f"from collectors._options import run\ndef main(_):\n    {program}\nrun(main)"
    command = [sys.executable, "-c", guarded]
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    if done.returncode:
        lines = done.stderr.strip().splitlines() or ["the trial wrote no message"]
        raise PreflightError(lines[-1].removeprefix("Error: "))


def _check(collector: Collector) -> None:
    """Run the check of another package's collector; convert exceptions of all types to PreflightError."""
    try:
        with answering_within(_CHECK_S):
            collector.check()
    except PreflightError:
        raise
    except (Exception, SystemExit) as error:
        raise PreflightError(f"{collector.name}: the check of this collector failed: {_words(error)}") from error
