"""Lists the functions above `analysis`, `clock` and `parsers` that a command enters.

`python -m tests.entered analyze capture.pcap` runs the command, and then names them on standard error.

Special methods, properties, comprehensions and what runs only because a module is imported are no functions
here; nor is what the rooms hand each other, the modules that lie in `multitracer/` itself.
"""

from __future__ import annotations

import sys
from functools import cache, cached_property
from inspect import getattr_static
from pathlib import Path
from typing import TYPE_CHECKING

import multitracer
from multitracer.cli import main

if TYPE_CHECKING:
    from types import CodeType, FrameType

ROOT = Path(multitracer.__file__).parent
BELOW = {"analysis", "clock"}
"""Rooms of `multitracer/` that are not counted; `parsers` and `collectors` lie outside."""


def entered(arguments: list[str]) -> list[tuple[str, str]]:
    """Run `multitracer` with arguments; return file and qualified name of each function that was entered."""
    modules: dict[tuple[str, str], str] = {}

    def enter(frame: FrameType, event: str, _: object) -> None:
        if event == "call" and (path := _counted(frame.f_code)) and not _is_importing(frame):
            modules[path, frame.f_code.co_qualname] = frame.f_globals["__name__"]

    sys.argv = ["multitracer", *arguments]
    sys.setprofile(enter)
    try:
        main()
    except SystemExit:
        pass
    finally:
        sys.setprofile(None)
    return sorted(each for each, module in modules.items() if not _is_property(module, each[1]))


@cache
def _counted(code: CodeType) -> str:
    """Return the file of a function that is counted, below `multitracer/`; of any other an empty text."""
    path = Path(code.co_filename)
    if not path.is_relative_to(ROOT) or code.co_name.startswith(("__", "<")):
        return ""
    path = path.relative_to(ROOT)
    return "" if len(path.parts) == 1 or path.parts[0] in BELOW else path.as_posix()


def _is_importing(frame: FrameType | None) -> bool:
    """Return whether a frame runs because a module is being imported: a decorator, a constant."""
    while frame is not None:
        if frame.f_code.co_name == "<module>" and frame.f_globals["__name__"] != "__main__":
            return True
        frame = frame.f_back
    return False


def _is_property(module: str, qualified: str) -> bool:
    owner: object = sys.modules[module]
    for name in qualified.split("."):
        owner = getattr_static(owner, name, None)
    return isinstance(owner, property | cached_property)


if __name__ == "__main__":
    for path, name in entered(sys.argv[1:]):
        print(path, name, file=sys.stderr)  # noqa: T201  # it is a program
