"""Times of a log as text: which form they have, and what instant they name.

A form is `iso`, one of `epoch_s`, `epoch_ms`, `epoch_us`, `epoch_ns`, a form of strptime, or `auto`: then the
first lines decide. A day and a month that could be exchanged in all of them are not guessed.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from multitracer.units import NS_PER_MS, NS_PER_S, NS_PER_US
from parsers._text.rows import decimal_ns

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from datetime import timezone

AUTO = "auto"
EPOCH_NS = {"epoch_s": NS_PER_S, "epoch_ms": NS_PER_MS, "epoch_us": NS_PER_US, "epoch_ns": 1}
_EPOCH_DIGITS = {10: "epoch_s", 13: "epoch_ms", 16: "epoch_us", 19: "epoch_ns"}
"""Digits of a time since 1970 between the years 2001 and 2286."""
_DAYS = ("%Y/%m/%d", "%Y.%m.%d", "%d.%m.%Y", "%d/%m/%Y", "%m/%d/%Y", "%d-%m-%Y", "%m-%d-%Y")
_CLOCKS = ("%H:%M:%S", "%I:%M:%S %p")
_DIGITS, _DIGITS_LONG = "%Y%m%d%H%M%S", 14
"""Shorter, strptime reads times since 1970 in it."""
_FORMS = (
    "iso", "%Y.%m.%d_%H.%M.%S", "%Y%m%d %H:%M:%S", _DIGITS, "%Y%m%d_%H%M%S",
    *(f"{d} {c}" for d in (*_DAYS, "%b %d, %Y", "%d %b %Y", "%d-%b-%Y") for c in _CLOCKS),
)  # fmt: skip
_UTC_BEHIND = re.compile(r"\s*(?:UTC|GMT)$", re.IGNORECASE)
"""Behind a time of the form `iso`."""
_LATEST_S = 1 << 33
"""Seconds since 1970 of the year 2242, as in `decimal_ns`."""
_LONGEST = 64
_ISO_START = re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d")
"""A day alone is no time of a reading."""


class UncertainTimeError(ValueError):
    """Times that have none of the forms that are known, or several at once; the message says which.

    Parameters
    ----------
    message : str
    form : str, optional
        One of the several.
    """

    def __init__(self, message: str, form: str | None = None) -> None:
        super().__init__(message)
        self.form = form


def is_form(form: str) -> bool:
    """Return whether a text is a form of time; each part of a form of strptime may stand in it once."""
    if form in (AUTO, "iso", *EPOCH_NS):
        return True
    try:
        datetime.strptime("", form)  # noqa: DTZ007
    except ValueError:
        return "%" in form and not form.endswith("%")
    except re.error:
        return False
    return False


def time_ns(text: str, form: str, zone: timezone | None, zoneless: Callable[[], None]) -> int | None:
    """Return the instant that a text names in ns since 1970; None if it names none.

    Parameters
    ----------
    text : str
    form : str
        Any but `auto`.
    zone : timezone or None
        Of times that name none of their own; None is UTC.
    zoneless : callable
        Called if neither the text nor `zone` names a zone.
    """
    if len(text) > _LONGEST:
        return None
    try:
        if (unit := EPOCH_NS.get(form)) is not None:
            return _of_epoch(text, unit)
        instant = _instant(text, form)
    except ValueError:
        return None
    if instant.tzinfo is None:
        if zone is None:
            zoneless()
        instant = instant.replace(tzinfo=zone or UTC)
    passed = instant - datetime(1970, 1, 1, tzinfo=UTC)
    seconds = passed.days * 86_400 + passed.seconds
    return seconds * NS_PER_S + passed.microseconds * NS_PER_US if 0 <= seconds < _LATEST_S else None


def _of_epoch(text: str, unit: int) -> int | None:
    whole, _, fraction = text.replace(",", ".").partition(".")
    if not (whole.isascii() and whole.isdigit()) or (fraction and not fraction.isdigit()):
        return None
    scale = NS_PER_S // unit
    value = decimal_ns(whole, fraction) if scale == 1 else int(whole) * unit
    return value if 0 <= value < 1 << 62 else None


def _instant(text: str, form: str) -> datetime:
    if form == "iso":
        return datetime.fromisoformat(_UTC_BEHIND.sub("Z", text))
    try:
        return datetime.strptime(text, form)  # noqa: DTZ007
    except ValueError:
        if "%S" not in form or "%f" in form or not {".", ","} & set(text):
            raise
        return datetime.strptime(text.replace(",", "."), form.replace("%S", "%S.%f", 1))  # noqa: DTZ007


def form_of(texts: Sequence[str]) -> str:
    """Return the form that the times of a log have.

    Parameters
    ----------
    texts : sequence of str
        Times of the first lines; what is empty or no time of any form is passed over.

    Raises
    ------
    UncertainTimeError
        If no form fits one of them, or several forms fit all alike and name different instants.
    """
    fits = {form: _instants(texts, form) for form in (*EPOCH_NS, *_FORMS)}
    most = max(map(len, fits.values()))
    if not most:
        shown = next((text for text in texts if text), "")[:40]
        raise UncertainTimeError(f"is in no form of time that is known, for example {shown!r}")
    best = {form: instants for form, instants in fits.items() if len(instants) == most}
    first, *others = best
    for other in others:
        if best[other] != best[first]:
            shown = texts[0][:40]
            raise UncertainTimeError(f"could be {first!r} or {other!r}, for example {shown!r}", first)
    return first


def _instants(texts: Sequence[str], form: str) -> list[int]:
    if form in EPOCH_NS:
        texts = [text for text in texts if _epoch_of(text) == form]
    elif form == "iso":
        texts = [text for text in texts if _ISO_START.match(text)]
    elif form == _DIGITS:
        texts = [text for text in texts if len(text.partition(".")[0]) == _DIGITS_LONG]
    return [ns for text in texts if (ns := time_ns(text, form, UTC, _nothing)) is not None]


def _epoch_of(text: str) -> str | None:
    whole = text.replace(",", ".").partition(".")[0]
    return _EPOCH_DIGITS.get(len(whole)) if whole.isascii() and whole.isdigit() else None


def _nothing() -> None:
    """Do nothing: what is only tried needs no zone."""
