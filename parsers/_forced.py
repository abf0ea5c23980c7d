"""How the user wants captures to be read, whatever their files say: options such as --time-unit and --zone.

A choice holds for the whole process, because threads of a reading need it, too. A worker in another process gets it
with its task.
"""

from __future__ import annotations

import re
from contextlib import contextmanager
from datetime import UTC, date, timedelta, timezone, tzinfo
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
        none (`zone_of`); ``date``: date of the first time of logs that give none (`date_of`); ``phone``: the phone
        whose radio logs are used, of several in a recording; ``keylog``: a key log of TLS that opens QUIC.
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


@lru_cache(maxsize=64)
def date_of(text: str) -> date:
    """Return the date that a text names, as 2026-11-30.

    Raises
    ------
    ValueError
        If it names none after 1970.
    """
    try:
        stated = date.fromisoformat(text)
    except ValueError:
        stated = None
    if stated is None or not 1970 <= stated.year <= _LAST_YEAR:
        raise ValueError(f"{text!r} is not a date; write YEAR-MONTH-DAY, such as 2026-11-30")
    return stated


def forced_date() -> date | None:
    """Return the date of the first time of logs that give none, as far as the user or the manifest states one."""
    text = forced_times().get("date")
    return None if text is None else date_of(text)


def forced_zone() -> tzinfo | None:
    """Return the time zone of times that name none, as far as the user or the manifest states one."""
    name = forced_times().get("zone")
    return None if name is None else zone_of(name)


def forced_times() -> dict[str, str]:
    """Return the zone and the date of times that name none, as far as somebody states them, by `zone` and `date`."""
    forced = forced_reading()
    return {name: text for name in ("zone", "date") if isinstance(text := forced.get(name), str)}


_OFFSET = re.compile(r"([+-])([01]\d):([0-5]\d)")
"""Offset from UTC in hours and minutes; zones lie at most 14 h away."""
_LAST_YEAR = 2200
"""Times are int64 nanoseconds since 1970, which end in 2262."""
