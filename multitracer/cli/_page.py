"""Text output for people: coloured tables on a terminal, plain aligned columns into a pipe."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TextIO

from multitracer.cli._output import standard_output
from multitracer.words import printable

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from rich.console import Console

_GAP = 2
_VERDICT_STYLES = {"good": "bold green", "caution": "bold yellow", "poor": "bold red"}


def page(stream: TextIO | None = None) -> Page:
    """Return the page that suits where it is written: a terminal or anything else."""
    out = stream or standard_output()
    return TerminalPage(out) if out.isatty() else Page(out)


class Page:
    """Plain text; every piece of it is made printable before it is written."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def _write(self, line: str) -> None:
        self._stream.write(f"{line.rstrip()}\n")

    def blank(self) -> None:
        """Write an empty line."""
        self._write("")

    def line(self, text: str) -> None:
        """Write one line."""
        self._write(printable(text))

    def heading(self, text: str) -> None:
        """Write a line that begins a part."""
        self.line(text)

    def verdict(self, verdict: str, sentence: str) -> None:
        """Write a verdict and what it means."""
        self.line(f"Trust: {verdict}{sentence}")

    def facts(self, pairs: Iterable[tuple[str, str]]) -> None:
        """Write names and values, the values in one column."""
        shown = [(printable(name), printable(value)) for name, value in pairs]
        width = max((len(name) for name, _ in shown), default=0)
        for name, value in shown:
            self._write(f"  {name:<{width}}  {value}")

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
            Columns that a narrow terminal leaves out, the first of them first.
        """
        del dispensable
        lines = [[printable(cell) for cell in row] for row in (header, *rows)]
        widths = [max(len(line[i]) for line in lines) for i in range(len(header))]
        for line in lines:
            cells = (
                f"{cell:>{width}}" if i in right else f"{cell:<{width}}"
                for i, (cell, width) in enumerate(zip(line, widths, strict=True))
            )
            self._write((" " * _GAP).join(cells))


class TerminalPage(Page):
    """The same on a terminal, with colour and tables that fit its width."""

    def __init__(self, stream: TextIO) -> None:
        super().__init__(stream)
        from rich.console import Console

        self._console: Console = Console(file=stream, highlight=False, markup=False, emoji=False)

    def _write(self, line: str, style: str = "") -> None:
        self._console.print(line, style=style, soft_wrap=True)

    def heading(self, text: str) -> None:
        """Write a line that begins a part."""
        self._write(printable(text), "bold")

    def verdict(self, verdict: str, sentence: str) -> None:
        """Write a verdict in its colour and what it means."""
        from rich.text import Text

        shown = Text.assemble("Trust: ", (verdict, _VERDICT_STYLES.get(verdict, "")), printable(sentence))
        self._console.print(shown)

    def facts(self, pairs: Iterable[tuple[str, str]]) -> None:
        """Write names and values, the values in one column that wraps."""
        grid = self._grid()
        grid.add_column(style="dim")
        grid.add_column(overflow="fold")
        for name, value in pairs:
            grid.add_row(printable(name), printable(value))
        self._console.print(grid)

    def _grid(self) -> Any:
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
