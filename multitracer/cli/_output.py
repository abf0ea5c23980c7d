"""Files that commands write: each appears whole or not at all, and never replaces an input."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

import click

from multitracer.errors import InputError
from multitracer.report.replacing import replacing, replacing_folder
from multitracer.words import portable, printable

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = [
    "check_output",
    "output_name",
    "replacing",
    "replacing_folder",
    "warn",
]

_SECTION_HEADER, _LITTLE_ENDIAN = b"\n\r\r\n", b"\x4d\x3c\x2b\x1a"
_WRITER, _HEAD_BYTES = b"MultiTracer", 4096
"""Where `export wireshark` names itself: its own file may be written again."""


def warn(sentence: str) -> None:
    """Write one line of warning to standard error."""
    click.echo(f"Warning: {printable(sentence)}", err=True)


def check_output(target: str | None, inputs: Iterable[str], *, files: str | None = None) -> None:
    """Refuse, before any work, to write over an input (a raw log is evidence) or where writing fails.

    `files` is a pattern of the names that will be written if the target is a folder.
    """
    if target in (None, "-"):
        return
    place = Path(target or "")
    if not place.absolute().parent.is_dir():
        raise InputError(f"{portable(str(place))}: its folder does not exist; make it first")
    written = [place] if files is None else [place, *place.glob(files)]
    present = [each for each in written if each.exists()]
    for name in inputs:
        for each in present:
            if name != "-" and Path(name).exists() and each.samefile(name):
                raise InputError(
                    f"{portable(str(each))}: is also the input; choose another name for the output"
                )
    if place.is_file() and _is_capture(place):
        raise InputError(f"{portable(str(place))}: is a capture; choose another name for the output")


def _is_capture(path: Path) -> bool:
    """Return whether a file holds packets, by its content, and this program did not write it.

    Where a name was forgotten, -o takes the second capture for the output: a raw log is evidence.
    """
    from parsers._whole import is_capture

    if not is_capture(str(path)):
        return False
    with path.open("rb") as file:
        head = file.read(_HEAD_BYTES)
    return _WRITER not in head[: _section_header_bytes(head)]


def _section_header_bytes(head: bytes) -> int:
    """Return the length of the block a pcapng file begins with, 0 of what this program does not write.

    What packets hold is no name of a writer.
    """
    is_ours = head[:4] == _SECTION_HEADER and head[8:12] == _LITTLE_ENDIAN
    return int.from_bytes(head[4:8], "little") if is_ours else 0


def output_name(name: str, ending: str) -> str:
    """Return a safe file name for what is made from an input: its last part without a capture's ending."""
    from multitracer.recording.inputs import CAPTURE_NAME

    base = Path(name).resolve().name if name != "-" else "capture"
    stem = re.sub(CAPTURE_NAME, "", base)
    return (re.sub(r"[^\w.-]", "_", stem, flags=re.ASCII).lstrip(".-") or "capture") + ending
