"""Numbers as an engineer writes them, and foreign text made harmless: for a terminal, a page, a file.

Numbers have three digits and the unit that fits.
"""

from __future__ import annotations

import os
from datetime import UTC, datetime
from math import isnan

from multitracer.units import NOT_A_TIME, NS_PER_MS, NS_PER_S, NS_PER_US

_SI = ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"), (1.0, ""))
_TIME = ((1.0, "s"), (1e-3, "ms"), (1e-6, "µs"))
_ROUNDS_UP = 0.9995  # with three digits 999.5 µs is shown as 1 ms
UNKNOWN = "unknown"


def size(number: float) -> str:
    """Return bytes in decimal units: 2.4 MB."""
    return _scaled(number, "B")


def rate(bits_per_second: float) -> str:
    """Return a bit rate: 612 kbit/s."""
    return _scaled(bits_per_second, "bit/s")


def count(number: int, noun: str) -> str:
    """Return a number with its noun: 1 packet, 1,234 packets."""
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def share(part: float, complete: float) -> str:
    """Return a percentage: 1.8 %; a share that is not nothing never reads 0 %."""
    if not complete:
        return UNKNOWN
    percent = 100 * part / complete
    if 0 < percent < 0.01:
        return "< 0.01 %"
    return f"{_three(percent)} %"


def ends(low: str, high: str) -> str:
    """Return the two ends of a range: 1.2 to 1.4; one of them if they are written alike."""
    return low if low == high else f"{low} to {high}"


def duration(ns: float | None) -> str:
    """Return a length of time: 31 s, 120 ms, 2 h 5 min; "unknown" for NA."""
    if ns is None or ns == NOT_A_TIME or isnan(ns):
        return UNKNOWN
    seconds = ns / NS_PER_S
    if abs(seconds) >= 100:
        return _long(round(seconds))
    for unit, name in _TIME:
        if abs(seconds) >= _ROUNDS_UP * unit:
            return f"{_three(seconds / unit)} {name}"
    return "0 s" if not ns else f"{ns:.0f} ns"


def three_digits(number: float) -> str:
    """Return a number with three digits that count, and all before the point: 0.00123, 12.5, 1,234."""
    return f"{number:.3g}" if abs(number) < 999.5 else f"{number:,.0f}"


def about(seconds: float) -> str:
    """Return a length of time with two digits that count: 0.41 s, 12 s; from 100 s on as `duration`."""
    return f"{seconds:.2g} s" if seconds < 99.5 else duration(seconds * NS_PER_S)


def moment(ns: int | None) -> str:
    """Return a point in time as UTC with milliseconds; the number of ns where no calendar reaches."""
    if ns is None or ns == NOT_A_TIME:
        return UNKNOWN
    try:
        when = datetime.fromtimestamp(ns // NS_PER_S, tz=UTC)
    except (ValueError, OverflowError, OSError):
        return f"{ns} ns since 1970"
    return f"{when:%Y-%m-%d %H:%M:%S}.{ns % NS_PER_S // 1_000_000:03d} UTC"


def time_error(ns: float) -> str:
    """Return the error of a time or clock with the unit that fits: 1.2 ms, 340 ns."""
    for unit_ns, name in ((NS_PER_S, "s"), (NS_PER_MS, "ms"), (NS_PER_US, "µs")):
        if abs(ns) >= _ROUNDS_UP * unit_ns:
            return (
                f"{ns / unit_ns:,.3g} {name}" if abs(ns) < 1000 * unit_ns else f"{ns / unit_ns:,.0f} {name}"
            )
    return f"{ns:.0f} ns"


def clock_offset(ns: int) -> str:
    """Return the offset of two clocks with every microsecond, so that two can be compared: +2.400148 s."""
    return f"{ns / NS_PER_S:+,.6f} s"


def _long(seconds: int) -> str:
    minutes, rest = divmod(seconds, 60)
    hours, minutes = divmod(minutes, 60)
    days, hours = divmod(hours, 24)
    parts = ((days, "d"), (hours, "h"), (minutes, "min"), (rest, "s"))
    words = [f"{number} {unit}" for number, unit in parts if number]
    return " ".join(words[:2])


def _scaled(number: float, unit: str) -> str:
    for factor, prefix in _SI:
        if abs(number) >= factor:
            scaled = number / factor
            return f"{f'{scaled:.0f}' if factor == 1 else _three(scaled)} {prefix}{unit}"
    return f"0 {unit}" if not number else f"{_three(number)} {unit}"


def _three(number: float) -> str:
    """Return up to three significant digits without an exponent: 4.0, 4.25, 31, 31.5, 1,234."""
    if abs(number) >= 99.95:
        return f"{number:,.0f}"
    if abs(number) >= 9.995:
        return f"{number:.1f}".removesuffix(".0")
    text = f"{number:.2f}"
    return text[:-1] if text.endswith("0") else text


# --- text of unknown origin ---


def printable(text: object) -> str:
    r"""Return text on one line with what a terminal would act on written out (`\x1b`, `\u202e`, `\udc80`).

    Control and formatting characters, line breaks, unassigned code points and lone surrogates are written as
    Python escapes; everything else stays.
    """
    shown = str(text)
    if shown.isprintable():
        return shown
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in shown)


def portable(path: str) -> str:
    r"""Return a file name that any UTF-8 writer takes: bytes that are not UTF-8 become `\xNN`."""
    return os.fsencode(path).decode("utf-8", "backslashreplace")


def no_formula(text: str) -> str:
    """Return printable text that a spreadsheet takes for text: an apostrophe before what it would run."""
    shown = printable(text)
    return f"'{shown}" if text.startswith(("=", "+", "-", "@", "\t", "\r")) else shown
