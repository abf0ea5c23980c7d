"""Whatever a capture or a file name says, made harmless for a terminal and for any writer of UTF-8."""

from __future__ import annotations

import os


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
