"""The progress line on a terminal, for work that takes over a second."""

from __future__ import annotations

import contextlib
import sys
import threading
from pathlib import Path
from typing import TYPE_CHECKING

from multitracer.words import size

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from rich.console import RenderableType

_PATIENCE_S = 1.0


class ProgressDisplay:
    """Name of the current work, and how much is done; the total is None if it is unknown (a pipe)."""

    def __init__(self, total_bytes: int | None, phase: str = "reading") -> None:
        self.phase = self._counted = phase
        self._total_bytes = total_bytes
        self._done_bytes = 0

    def __call__(self, stored_bytes: int) -> None:
        """Record how many bytes of all files were read; the number falls if a file is read again."""
        self._done_bytes = stored_bytes

    def __rich__(self) -> RenderableType:
        """Return the line for the terminal."""
        from rich.progress_bar import ProgressBar
        from rich.table import Table

        line = Table.grid(padding=(0, 1))
        if self.phase.startswith(self._counted) and self._total_bytes:
            bar = ProgressBar(total=self._total_bytes, completed=self._done_bytes, width=30)
            line.add_row(self.phase, bar, f"{size(self._done_bytes)} of {size(self._total_bytes)}")
        else:
            line.add_row(f"{self.phase} …", size(self._done_bytes))
        return line


@contextlib.contextmanager
def progress(paths: Iterable[str]) -> Iterator[ProgressDisplay]:
    """Show a progress line on standard error during the `with` block, if it lasts over a second.

    A line is shown only on a terminal.
    """
    with _shown(ProgressDisplay(_total_bytes(paths))) as state:
        yield state


@contextlib.contextmanager
def progress_of(phase: str, total_bytes: int) -> Iterator[ProgressDisplay]:
    """Show the progress line during the `with` block, for work other than reading files."""
    with _shown(ProgressDisplay(total_bytes, phase)) as state:
        yield state


@contextlib.contextmanager
def _shown(state: ProgressDisplay) -> Iterator[ProgressDisplay]:
    if sys.stderr is None or not sys.stderr.isatty():
        yield state
        return
    with _live_after(_PATIENCE_S, state):
        yield state


def _total_bytes(paths: Iterable[str]) -> int | None:
    sizes = [Path(path).stat().st_size if Path(path).is_file() else None for path in paths]
    known = [size for size in sizes if size is not None]
    return sum(known) if len(known) == len(sizes) else None


@contextlib.contextmanager
def _live_after(patience_s: float, state: ProgressDisplay) -> Iterator[None]:
    done = threading.Event()

    def show() -> None:
        if done.wait(patience_s):
            return
        from rich.console import Console
        from rich.live import Live

        with Live(get_renderable=lambda: state, console=Console(stderr=True), transient=True):
            done.wait()

    drawer = threading.Thread(target=show, daemon=True)
    drawer.start()
    try:
        yield
    finally:
        done.set()
        drawer.join()
