"""Formats numbers with suitable units, and escapes untrusted text for a terminal, a page or a file.

Numbers have three significant digits.
"""

from __future__ import annotations

import os
import re
from datetime import UTC, datetime
from math import isnan
from typing import TYPE_CHECKING

from multitracer.units import NOT_A_TIME, NS_PER_MS, NS_PER_S, NS_PER_US

if TYPE_CHECKING:
    from collections.abc import Iterable

_SI = ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"), (1.0, ""))
_TIME = ((1.0, "s"), (1e-3, "ms"), (1e-6, "µs"))
_ROUNDS_UP = 0.9995  # with three digits 999.5 µs is shown as 1 ms
_MIN_SHORT, _MIN_SAID = 0.005, 0.0005
"""Minimum share that is shown as one percent, and as a tenth of one."""
_NOISE = 1e-9
"""Error of a sum of shares that make up all."""
_ROUNDING = 1e-4
"""Magnitude below which a number of a page is the rounding of a computation."""
_EXACT_S = 10.0
"""Length of an interval below which its ends have a tenth of a second."""
_MINUTE_S = 60
UNKNOWN = "unknown"


def size(number: float) -> str:
    """Return a number of bytes as text in decimal units: 2.4 MB."""
    return _scaled(number, "B")


def rate(bits_per_second: float) -> str:
    """Return a bit rate as text: 612 kbit/s."""
    return _scaled(bits_per_second, "bit/s")


def count(number: int, noun: str) -> str:
    """Return a number with its noun as text: 1 packet, 1,234 packets."""
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def share(part: float, complete: float) -> str:
    """Return a ratio as a percentage: 1.8 %; a ratio above 0 is never shown as 0 %."""
    if not complete:
        return UNKNOWN
    percent = 100 * part / complete
    if 0 < percent < 0.01:
        return "< 0.01 %"
    return f"{_three(percent)} %"


def percent(share: float, *, is_short: bool = False) -> str:
    """Return a share, 0 to 1, as a percentage.

    A short text has no fraction, unless that would show a share as nothing or as all; none above 0 is shown as 0 %,
    and none below 1 as 100 %.
    """
    if is_short and (_MIN_SHORT <= share < 1 - _MIN_SHORT or abs(1 - share) < _NOISE):
        return f"{100 * share:.0f} %"
    if 1 - _MIN_SAID <= share < 1 - _NOISE:
        return "> 99.9 %"
    return "< 0.1 %" if 0 < share < _MIN_SAID else f"{100 * share:.1f} %"


def ends(low: str, high: str) -> str:
    """Return a range as text: 1.2 to 1.4; only one number if both have the same text."""
    return low if low == high else f"{low} to {high}"


def duration(ns: float | None) -> str:
    """Return a duration as text: 31 s, 120 ms, 2 h 5 min; "unknown" for NA."""
    if ns is None or ns == NOT_A_TIME or isnan(ns):
        return UNKNOWN
    seconds = ns / NS_PER_S
    if abs(seconds) >= 100:
        return _long(round(seconds))
    for unit, name in _TIME:
        if abs(seconds) >= _ROUNDS_UP * unit:
            return f"{_three(seconds / unit)} {name}"
    return "0 s" if not ns else f"{ns:.0f} ns"


def clock_time(seconds: float, decimals: int = 0) -> str:
    """Return a time on an axis in minutes and seconds: 0:17, 12:05.5, 1:02:05."""
    size = round(abs(seconds), decimals)
    minutes, rest = divmod(size, 60)
    hours, minutes = divmod(int(minutes), 60)
    sign, ends_in = "−" if seconds < 0 and size else "", f"{rest:0{decimals + 3 if decimals else 2}.{decimals}f}"
    return f"{sign}{hours}:{minutes:02}:{ends_in}" if hours else f"{sign}{minutes}:{ends_in}"


def interval(begin_s: float, end_s: float, *, last_s: float) -> str:
    """Return an interval as text: 0:17 to 0:27, or 1.2 s to 3.4 s if the axis ends (`last_s`) within a minute.

    A short one has tenths: 2:16.4 to 2:17.2.
    """
    if last_s < _MINUTE_S:
        return ends(f"{begin_s:.1f} s", f"{end_s:.1f} s")
    decimals = 0 if end_s - begin_s >= _EXACT_S else 1
    return ends(clock_time(begin_s, decimals), clock_time(end_s, decimals))


def three_digits(number: float) -> str:
    """Return a number with three significant digits and all integer digits: 0.00123, 12.5, 1,234.

    What is smaller than a ten-thousandth is 0: in the units of a page, it is the rounding of a computation.
    """
    if abs(number) < _ROUNDING:
        return "0"
    return f"{number:.3g}" if abs(number) < 999.5 else f"{number:,.0f}"


def about(seconds: float) -> str:
    """Return a duration with two significant digits: 0.41 s, 12 s; from 100 s on like `duration`."""
    return f"{seconds:.2g} s" if seconds < 99.5 else duration(seconds * NS_PER_S)


def moment(ns: int | None) -> str:
    """Return a time as UTC text with milliseconds; the number of ns if the calendar has no such date."""
    if ns is None or ns == NOT_A_TIME:
        return UNKNOWN
    try:
        when = datetime.fromtimestamp(ns // NS_PER_S, tz=UTC)
    except (ValueError, OverflowError, OSError):
        return f"{ns} ns since 1970"
    return f"{when:%Y-%m-%d %H:%M:%S}.{ns % NS_PER_S // 1_000_000:03d} UTC"


def time_error(ns: float) -> str:
    """Return the error of a time or a clock as text with a suitable unit: 1.2 ms, 340 ns."""
    for unit_ns, name in ((NS_PER_S, "s"), (NS_PER_MS, "ms"), (NS_PER_US, "µs")):
        if abs(ns) >= _ROUNDS_UP * unit_ns:
            return f"{ns / unit_ns:,.3g} {name}" if abs(ns) < 1000 * unit_ns else f"{ns / unit_ns:,.0f} {name}"
    return f"{ns:.0f} ns"


def clock_offset(ns: int) -> str:
    """Return the offset of two clocks as text with a resolution of 1 µs: +2.400148 s."""
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
    r"""Return text on one line, with control characters as Python escapes (`\x1b`, `\u202e`, `\udc80`).

    Control and formatting characters, line breaks, unassigned code points and lone surrogates become Python
    escapes; all other characters do not change.
    """
    shown = str(text)
    if shown.isprintable():
        return shown
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in shown)


_SECRET_NAME = re.compile(r"SECRET|TOKEN|PASSWORD|PASSWD|_KEY(_ID)?$", re.IGNORECASE)
_SECRET_FIELD = re.compile(
    r"(x-amz-security-token|authorization|signature|credential|secret_?access_?key)(['\"]?\s*[=:]\s*['\"]?)[^\s,;'\"<>&]+",
    re.IGNORECASE,
)
_MIN_SECRET = 6
"""Minimum length of a value that is taken for a secret: shorter ones are words of any text. Not measured."""


def without_secrets(text: str, secrets: Iterable[object] = ()) -> str:
    """Return text in which keys, tokens and passwords are replaced by `[secret]`.

    These are values of environment variables with such names, `secrets`, and what stands behind the names of
    the fields that carry keys to an S3 server, which a server may repeat.
    """
    named = (value for name, value in os.environ.items() if _SECRET_NAME.search(name))
    known = {str(each) for each in (*named, *secrets) if each is not None and len(str(each)) >= _MIN_SECRET}
    for each in sorted(known, key=len, reverse=True):
        text = text.replace(each, "[secret]")
    return _SECRET_FIELD.sub(r"\1\2[secret]", text)


def as_html(text: object) -> str:
    """Return printable text in which the characters of HTML markup are escaped."""
    from html import escape  # noqa: PLC0415  # only for notebooks

    return escape(printable(text))


def portable(path: str) -> str:
    r"""Return a file name as valid UTF-8: bytes that are not UTF-8 become `\xNN`."""
    return os.fsencode(path).decode("utf-8", "backslashreplace")


def no_formula(text: str) -> str:
    """Return printable text that a spreadsheet does not execute: a formula gets an apostrophe in front."""
    shown = printable(text)
    return f"'{shown}" if text.startswith(("=", "+", "-", "@", "\t", "\r")) else shown
