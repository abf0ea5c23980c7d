"""The new records of a log since the last look, for the screen; the log itself is only read."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

_MOST_BYTES = 256 << 10
"""Of one look; what came before is passed over, so that a flood does not hold up the supervisor."""


class Follower:
    """Follows the JSON lines of a log, which may also hold other lines."""

    def __init__(self) -> None:
        self._path: Path | None = None
        self._place = 0
        self.lines = 0
        """Whole lines of the last look, other lines included."""

    def records(self, path: Path) -> Iterator[dict[str, object]]:
        """Yield the whole records since the last call; a new path is followed from its begin."""
        self.lines = 0
        if path != self._path:
            self._path, self._place = path, 0
        try:
            with path.open("rb") as stream:
                size = stream.seek(0, 2)
                self._place = max(self._place, size - _MOST_BYTES)
                stream.seek(self._place)
                text = stream.read(_MOST_BYTES)
        except OSError:
            return
        whole = text.rpartition(b"\n")[0]
        self._place += len(whole) + 1 if whole else 0
        lines = whole.splitlines()
        self.lines = len(lines)
        for line in lines:
            if (record := _record(line)) is not None:
                yield record


def _record(line: bytes) -> dict[str, object] | None:
    line = line.removeprefix(b"# multitracer ")
    if not line.startswith(b"{"):
        return None
    try:
        record = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return record if isinstance(record, dict) else None
