"""Wrap the prose of Markdown pages at 100 characters: `python -m docs.programs.reflow [PAGE...]`.

Without PAGE: README.md, CONTRIBUTING.md and all of docs. Only paragraphs and items of lists with a longer
line change; code, tables, headings and HTML stay as they are, and so does what a reader sees.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
WIDTH = 100
_ITEM = re.compile(r"\s*(?:[-*+]|\d+[.)])\s+")
_ATOM = re.compile(r"(`+)(?:(?!\1).)+?\1|!?\[(?:[^\[\]`]|`[^`]*`)*\]\([^()\s]*\)")
"""A code span or a link: it is not broken, a link only up to `_LINK_CHARACTERS`."""
_LINK_CHARACTERS = 70
_OPENS_A_BLOCK = re.compile(r"(?:[-*+>=|]|#+|\d+[.)])$|[|>].*|```|~~~|<!--")
"""A word that would begin a list, a table or a heading at the start of a line: none may stand there."""


def reflowed(text: str) -> str:
    """Return a page with no line of prose longer than `WIDTH`."""
    out: list[str] = []
    block: list[str] = []
    fence = ""
    for line in text.split("\n"):
        opened = re.match(r"\s*(```+|~~~+)", line)
        cell_visits = fence or opened or not line.strip() or line.lstrip().startswith(("|", "#", "<"))
        if cell_visits or _ITEM.match(line):
            out += _wrapped(block)
            block = []
        if cell_visits:
            out.append(line)
            if fence:
                fence = "" if line.strip().startswith(fence) else fence
            elif opened:
                fence = opened[1]
        else:
            block.append(line)
    return "\n".join(out + _wrapped(block))


def _wrapped(block: list[str]) -> list[str]:
    """Return the lines of a paragraph or an item, wrapped if one of them is too long."""
    if all(len(line) <= WIDTH for line in block) or (block[0].startswith("    ") and not _ITEM.match(block[0])):
        return block
    item = _ITEM.match(block[0])
    first = item[0] if item else block[0][: len(block[0]) - len(block[0].lstrip())]
    rest = " " * len(first)
    words = _words(" ".join(line.strip() for line in (block[0][len(first) :], *block[1:])))
    lines = [first + words[0]]
    for word in words[1:]:
        if len(lines[-1]) + 1 + len(word) <= WIDTH:
            lines[-1] += f" {word}"
        else:
            lines.append(rest + word)
    return lines


def _words(text: str) -> list[str]:
    """Return what may stand at the begin of a line, in order."""
    words = [""]
    at = 0
    while at < len(text):
        atom = _ATOM.match(text, at)
        if atom and (atom[1] or len(atom[0]) <= _LINK_CHARACTERS):
            words[-1] += atom[0]
            at = atom.end()
            continue
        if text[at] == " ":
            words.append("")
        else:
            words[-1] += text[at]
        at += 1
    joined = words[:1]
    for word in filter(None, words[1:]):
        if _OPENS_A_BLOCK.match(word):
            joined[-1] += f" {word}"
        else:
            joined.append(word)
    return joined


def main() -> None:
    """Wrap the pages."""
    pages = [Path(name) for name in sys.argv[1:]]
    for page in pages or [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").rglob("*.md")]:
        text = page.read_text("utf-8")
        if reflowed(text) != text:
            page.write_text(reflowed(text), "utf-8")


if __name__ == "__main__":
    main()
