"""Parts of a page that a program writes: each stands between `<!-- NAME -->` and `<!-- end of NAME -->`."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path


def read_part(page: Path, name: str) -> str:
    """Return a part as the page has it.

    Raises
    ------
    LookupError
        If the page has no such part.
    """
    return _divided(page, name)[1]


def write_part(page: Path, name: str, text: str) -> None:
    """Write a part into the page; all else of it stays.

    Raises
    ------
    LookupError
        If the page has no such part.
    """
    before, _, after = _divided(page, name)
    page.write_text(f"{before}{text}{after}", "utf-8")


def _divided(page: Path, name: str) -> tuple[str, str, str]:
    """Return what is before a part with its begin, the part, and its end with what follows."""
    begin, end = f"<!-- {name} -->\n", f"<!-- end of {name} -->"
    before, found, rest = page.read_text("utf-8").partition(begin)
    text, ended, after = rest.partition(end)
    if not found or not ended:
        raise LookupError(f"{page}: has no part {name}")
    return before + begin, text, end + after
