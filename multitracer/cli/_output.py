"""Output of commands: text, and files that appear only when complete and never replace an input.

Text goes to standard output or a file; on a terminal it has colours and tables.
"""

from __future__ import annotations

import contextlib
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

from multitracer.errors import InputError
from multitracer.report.replacing import check_replaceable, replacing, replacing_folder
from multitracer.words import portable, printable

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    import rich.table
    from rich.console import Console

__all__ = ["check_output", "output_name", "replacing", "replacing_folder"]


def check_output(target: str | None, inputs: Iterable[str], *, files: str | None = None) -> None:
    """Raise an error if the output would overwrite an input, or cannot be written.

    `files` is a pattern of the names that will be written if the target is a folder.
    """
    if target in (None, "-"):
        return
    place = Path(target or "")
    if not place.absolute().parent.is_dir():
        raise InputError(f"{portable(str(place))}: the folder does not exist; create the folder first")
    written = [place] if files is None else [place, *place.glob(files)]
    present = [each for each in written if each.exists()]
    for name in inputs:
        for each in present:
            if name != "-" and Path(name).exists() and each.samefile(name):
                raise InputError(
                    f"{portable(str(each))}: this file is also the input; choose another name for the output"
                )
    check_replaceable(place)


def output_name(name: str, ending: str) -> str:
    """Return a safe file name for output: the last part of the input's path without suffix, plus `ending`."""
    from multitracer.recording.inputs import CAPTURE_NAME

    base = Path(name).resolve().name if name != "-" else "capture"
    stem = re.sub(CAPTURE_NAME, "", base)
    return (re.sub(r"[^\w.-]", "_", stem, flags=re.ASCII).lstrip(".-") or "capture") + ending


_GAP = 2
_VERDICT_STYLES = {"good": "bold green", "caution": "bold yellow", "poor": "bold red"}


@contextlib.contextmanager
def text_output(target: str | None) -> Iterator[TextIO]:
    """Open a file, or standard output (None or "-"), for text during the `with` block."""
    if target not in (None, "-"):
        with replacing(target) as temporary, temporary.open("w", encoding="utf-8", newline="") as stream:
            yield stream
        return
    out: TextIO | None = sys.stdout
    if out is None:
        raise InputError("standard output is closed; open standard output, or write to a file with -o FILE")
    yield out


def standard_output() -> TextIO:
    """Return standard output; raise an error if it was closed before the program began."""
    with text_output(None) as stream:
        return stream


def page(stream: TextIO | None = None) -> Page:
    """Return the output page for a stream: with colours and tables on a terminal, otherwise plain."""
    out = stream or standard_output()
    return TerminalPage(out) if out.isatty() else Page(out)


class Page:
    """Writes plain text; characters that cannot be printed are escaped."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def line(self, text: str = "", *, bold: bool = False, verdict: str = "") -> None:
        """Write one line; on a terminal it can be bold, or have the colour of a verdict."""
        del bold, verdict
        self._stream.write(f"{printable(text).rstrip()}\n")

    def facts(self, pairs: Iterable[tuple[str, str]]) -> None:
        """Write a line for each pair of name and value, with aligned values."""
        shown = [(printable(name), printable(value)) for name, value in pairs]
        width = max((len(name) for name, _ in shown), default=0)
        self._stream.writelines(f"{f'  {name:<{width}}  {value}'.rstrip()}\n" for name, value in shown)

    def table(
        self,
        header: Sequence[str],
        rows: Iterable[Sequence[str]],
        *,
        right: Sequence[int] = (),
        dispensable: Sequence[int] = (),
    ) -> None:
        """Write a table.

        Parameters
        ----------
        header, rows : sequences of str
        right : sequence of int
            Columns (from 0) that are aligned right.
        dispensable : sequence of int
            Columns that are omitted on a narrow terminal, in this order.
        """
        del dispensable
        lines = [[printable(cell) for cell in row] for row in (header, *rows)]
        widths = [max(len(line[i]) for line in lines) for i in range(len(header))]
        for line in lines:
            cells = (
                f"{cell:>{width}}" if i in right else f"{cell:<{width}}"
                for i, (cell, width) in enumerate(zip(line, widths, strict=True))
            )
            self._stream.write(f"{(' ' * _GAP).join(cells).rstrip()}\n")


class TerminalPage(Page):
    """Writes text on a terminal, with colours, and with tables that fit the width."""

    def __init__(self, stream: TextIO) -> None:
        super().__init__(stream)
        from rich.console import Console

        self._console: Console = Console(file=stream, highlight=False, markup=False, emoji=False)

    def line(self, text: str = "", *, bold: bool = False, verdict: str = "") -> None:
        """Write one line; see `Page.line`."""
        from rich.text import Text

        shown = Text(printable(text), "bold" if bold else "")
        if verdict:
            shown.highlight_words([verdict], _VERDICT_STYLES.get(verdict, ""))
        self._console.print(shown, soft_wrap=True)

    def facts(self, pairs: Iterable[tuple[str, str]]) -> None:
        """Write a line for each pair of name and value, with aligned values that wrap."""
        grid = self._grid()
        grid.add_column(style="dim")
        grid.add_column(overflow="fold")
        for name, value in pairs:
            grid.add_row(printable(name), printable(value))
        self._console.print(grid)

    def _grid(self) -> rich.table.Table:
        from rich.table import Table

        return Table.grid(padding=(0, 2), pad_edge=True)

    def table(
        self,
        header: Sequence[str],
        rows: Iterable[Sequence[str]],
        *,
        right: Sequence[int] = (),
        dispensable: Sequence[int] = (),
    ) -> None:
        """Write a table that fits the terminal; see `Page.table`."""
        from rich.table import Table

        lines = [[printable(cell) for cell in row] for row in (header, *rows)]
        kept = self._fitting([max(map(len, column)) for column in zip(*lines, strict=True)], dispensable)
        shown = Table(box=None, pad_edge=False, padding=(0, _GAP, 0, 0), header_style="bold")
        for i in kept:
            shown.add_column(lines[0][i], justify="right" if i in right else "left", overflow="fold")
        for line in lines[1:]:
            shown.add_row(*(line[i] for i in kept))
        self._console.print(shown)

    def _fitting(self, widths: list[int], dispensable: Sequence[int]) -> list[int]:
        kept = list(range(len(widths)))
        for i in dispensable:
            if sum(widths[k] + _GAP for k in kept) <= self._console.width + _GAP:
                break
            kept.remove(i)
        return kept
