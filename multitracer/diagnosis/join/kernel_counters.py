"""The kernel's own counters of a run (nstat before and after), by which the analysis can be judged."""

from __future__ import annotations

import json
from itertools import islice
from typing import TYPE_CHECKING

import parsers
from multitracer.errors import MultiTracerError

if TYPE_CHECKING:
    from pathlib import Path

    from multitracer.recording.recording import Recording

_BEFORE, _AFTER = "nstat_before.json", "nstat_after.json"
_MOST_LINES = 10_000  # bounds memory; nstat prints some hundred lines


def counters_of(recording: Recording) -> dict[str, dict[str, int]]:
    """Return by how much each counter grew on each host whose folder holds nstat's two readings.

    What is damaged is skipped with a warning of the recording.
    """
    if recording.folder is None:
        return {}
    inputs = recording.inputs
    hosts = sorted({point.name for point in inputs.points} | {log.host for log in inputs.listed})
    growth = {}
    for host in hosts:
        before, after = (_reading(recording, recording.folder / host, name) for name in (_BEFORE, _AFTER))
        if before is not None and after is not None:
            growth[host] = {name: count - before.get(name, 0) for name, count in after.items()}
    return growth


def _reading(recording: Recording, folder: Path, name: str) -> dict[str, int] | None:
    """Return the counters of one reading, plain or compressed; None if there is none that can be read."""
    paths = [path for path in sorted(folder.glob(f"{name}*")) if path.is_file() and not path.is_symlink()]
    if not paths:
        return None
    try:
        text = "".join(islice(parsers.read_lines(str(paths[0])), _MOST_LINES))
        counters = json.loads(text)["kernel"]
        return {counter: count for counter, count in counters.items() if type(count) is int}
    except (MultiTracerError, ValueError, LookupError, TypeError, AttributeError, RecursionError) as error:
        recording.notes.append(f"{paths[0]}: not what nstat writes ({error}); skipped")
        return None
