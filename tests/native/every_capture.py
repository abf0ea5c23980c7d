"""Reads and analyses all captures in folders by both paths: `python -m tests.native.every_capture FOLDER…`.

Prints each file whose answers differ, and a last line of counts; exit status 1 if any differ. Without folders
it takes the bundled sessions, and the captures of other projects where `MULTITRACER_FIXTURES` names them.
"""

from __future__ import annotations

import sys
from functools import partial
from pathlib import Path

from multitracer.native import state
from parsers._read import read_capture
from tests.conftest import FIXTURES, SAMPLES
from tests.native.both import analyse_by_both, read_by_both


def main(folders: list[str]) -> int:
    """Compare, and return the exit status."""
    captures = segments = 0
    differ = []
    for path in sorted(path for folder in folders for path in Path(folder).rglob("*") if path.is_file()):
        try:
            capture = read_by_both(partial(read_capture, [path]))
            if not isinstance(capture, str):
                analyse_by_both(capture)
        except AssertionError as error:
            differ.append(path)
            sys.stdout.write(f"{path}: {error}\n")
            continue
        if not isinstance(capture, str):
            captures, segments = captures + 1, segments + len(capture.segments)
    sys.stdout.write(f"{state()}: {captures} captures, {segments:,} segments, {len(differ)} differ\n")
    return bool(differ)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:] or [str(SAMPLES), str(FIXTURES)]))
