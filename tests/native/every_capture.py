"""Reads and analyses all captures in folders by both paths: `python -m tests.native.every_capture FOLDER…`.

What is counted while a file is read is compared, too, where that is enough, and connections that are read
alone. Prints each file whose answers differ, and a last line of counts; exit status 1 if any differ. Without
folders it takes the bundled sessions, and the captures of other projects where `MULTITRACER_FIXTURES` names
them.
"""

from __future__ import annotations

import sys
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from multitracer.native import kernel, state
from multitracer.recording.read import analysis_of
from parsers._chunks import read_capture
from tests.conftest import FIXTURES, SAMPLES
from tests.native.both import analyse_by_both, assert_equal, assert_same, counted_alike, read_alone, read_by_both

if TYPE_CHECKING:
    from multitracer.capture import CaptureTables


def counts_alike(path: Path, capture: CaptureTables) -> bool:
    """Compare the analyses of a capture; return whether it is counted while it is read, too."""
    complete, native = analyse_by_both(capture), kernel()
    counted_alike(str(path), capture, complete)
    counted = None if native is None else analysis_of(native, str(path))
    if counted is None:
        return False
    assert_same(counted, complete)
    read_alone(counted, complete)
    read = replace(capture, files=counted.capture.files, flows=counted.capture.flows)
    assert_equal(read, capture)
    return True


def main(folders: list[str]) -> int:
    """Compare, and return the exit status."""
    captures = segments = counted = 0
    differ = []
    for path in sorted(path for folder in folders for path in Path(folder).rglob("*") if path.is_file()):
        try:
            capture = read_by_both(partial(read_capture, [path]))
            if not isinstance(capture, str):
                counted += counts_alike(path, capture)
        except AssertionError as error:
            differ.append(path)
            sys.stdout.write(f"{path}: {error}\n")
            continue
        if not isinstance(capture, str):
            captures, segments = captures + 1, segments + len(capture.segments)
    words = f"{captures} captures ({counted} counted while they were read), {segments:,} segments"
    sys.stdout.write(f"{state()}: {words}, {len(differ)} differ\n")
    return bool(differ)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:] or [str(SAMPLES), str(FIXTURES)]))
