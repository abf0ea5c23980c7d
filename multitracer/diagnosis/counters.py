"""The kernel's own counters of a run (nstat before and after), by which the analysis can be judged."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

    from multitracer.session import Session

_BEFORE, _AFTER = "nstat_before.json", "nstat_after.json"
_MOST_BYTES = 1 << 20


def counters_of(session: Session) -> dict[str, dict[str, int]]:
    """Return by how much each counter grew on each host whose folder holds nstat's two readings.

    What is damaged is passed over with a warning of the session.
    """
    if session.folder is None:
        return {}
    hosts = sorted({point.name for point in session.points} | {log.host for log in session.logs})
    found = {}
    for host in hosts:
        readings = [_reading(session, session.folder / host / name) for name in (_BEFORE, _AFTER)]
        before, after = readings
        if before is not None and after is not None:
            found[host] = {name: count - before.get(name, 0) for name, count in after.items()}
    return found


def _reading(session: Session, path: Path) -> dict[str, int] | None:
    if not path.is_file() or path.is_symlink():
        return None
    try:
        with path.open("rb") as stream:
            document = json.loads(stream.read(_MOST_BYTES))
    except (OSError, ValueError, RecursionError) as error:
        session.warnings.append(f"{path}: not what nstat writes ({error}); passed over")
        return None
    counters = document.get("kernel") if isinstance(document, dict) else None
    if not isinstance(counters, dict):
        session.warnings.append(f"{path}: holds no kernel counters; passed over")
        return None
    return {name: count for name, count in counters.items() if type(count) is int}
