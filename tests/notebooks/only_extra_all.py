"""Starts a kernel as `pip install '.[all]'` has it: what only the tools of developers bring cannot be imported."""

from __future__ import annotations

import sys
import tomllib
from importlib.metadata import PackageNotFoundError, packages_distributions, requires
from pathlib import Path
from typing import TYPE_CHECKING

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from importlib.machinery import ModuleSpec

_PYPROJECT = Path(__file__).parents[2] / "pyproject.toml"


def brought() -> set[str]:
    """Return the names of all distributions that `multitracer[all]` brings, with what they need in turn."""
    project = tomllib.loads(_PYPROJECT.read_text("utf-8"))["project"]
    extras = project["optional-dependencies"]
    names: set[tuple[str, str]] = set()
    waiting = [*map(Requirement, project["dependencies"]), Requirement("multitracer[all]")]
    while waiting:
        wanted = waiting.pop()
        for extra in wanted.extras or {""}:
            name = canonicalize_name(wanted.name)
            if (name, extra) in names:
                continue
            names.add((name, extra))
            needed = map(Requirement, extras.get(extra, ()) if name == "multitracer" else _needed(name))
            waiting += [each for each in needed if each.marker is None or each.marker.evaluate({"extra": extra})]
    return {name for name, _ in names}


def _needed(name: str) -> Iterable[str]:
    try:
        return requires(name) or ()
    except PackageNotFoundError:
        return ()


class Absent:
    """A finder that knows no module of other distributions."""

    def __init__(self, present: set[str]) -> None:
        of = packages_distributions().items()
        self.modules = {module for module, names in of if not present & {canonicalize_name(name) for name in names}}

    def find_spec(self, name: str, path: Sequence[str] | None = None, target: object = None) -> ModuleSpec | None:
        if name.partition(".")[0] in self.modules:
            message = f"No module named {name!r}: no part of '.[all]'"
            raise ModuleNotFoundError(message, name=name)
        return None


if __name__ == "__main__":
    absent = Absent(brought())
    for module in set(sys.modules) & absent.modules:
        del sys.modules[module]
    sys.meta_path.insert(0, absent)
    from ipykernel.kernelapp import launch_new_instance

    launch_new_instance()
