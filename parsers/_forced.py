"""How the user wants captures to be read, whatever their files say: options such as --time-unit and --zone.

A choice holds for the whole process, because threads of a reading need it, too. A worker in another process gets it
with its task.
"""

from __future__ import annotations

import re
from contextlib import contextmanager
from datetime import UTC, timedelta, timezone, tzinfo
from functools import lru_cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

FORCED: list[dict[str, object]] = []
"""The choices by name; the last entry holds, and contains those before it. Without an entry, the files decide."""


@contextmanager
def force_reading(**choices: object) -> Iterator[None]:
    """Read captures in this way during the `with` block.

    Parameters
    ----------
    **choices
        ``time_unit``: unit of the time stamps of pcap and pcapng, one of "s", "ms", "us", "ns"; ``decap``: False
        counts the packets of tunnels as they are, and does not read what is inside them; ``keep_duplicates``: True
        keeps the copies of packets that were captured more than once; ``zone``: time zone of times of logs that name
        none (`zone_of`).
    """
    held = forced_reading() | choices
    FORCED.append(held)
    try:
        yield
    finally:
        del FORCED[next(at for at, each in enumerate(FORCED) if each is held)]  # other threads may force, too


def forced_reading() -> dict[str, object]:
    """Return the choices that hold now, by name."""
    return dict(FORCED[-1]) if FORCED else {}


@lru_cache(maxsize=64)
def zone_of(text: str) -> tzinfo:
    """Return the time zone that a text names: UTC, an offset as +01:00, or an IANA name as Europe/Berlin.

    Raises
    ------
    ValueError
        If it names none.
    """
    if text in ("UTC", "Z"):
        return UTC
    if match := _OFFSET.fullmatch(text):
        offset = timedelta(hours=int(match[2]), minutes=int(match[3]))
        return timezone(offset if match[1] == "+" else -offset)
    from zoneinfo import ZoneInfo, ZoneInfoNotFoundError  # noqa: PLC0415  # few logs need it

    try:
        return ZoneInfo(text)
    except (ZoneInfoNotFoundError, ValueError, OSError) as error:  # a path, a folder of zones
        raise ValueError(f"{text!r} is not a time zone; write UTC, +01:00, or a name such as Europe/Berlin") from error


def forced_zone() -> tzinfo | None:
    """Return the time zone of times that name none, as far as the user or the manifest states one."""
    name = forced_zone_name()
    return None if name is None else zone_of(name)


def forced_zone_name() -> str | None:
    """Return the name of the time zone of times that name none; None if nobody states one."""
    zone = forced_reading().get("zone")
    return zone if isinstance(zone, str) else None


_OFFSET = re.compile(r"([+-])([01]\d):([0-5]\d)")
"""Offset from UTC in hours and minutes; zones lie at most 14 h away."""
