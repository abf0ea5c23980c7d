"""The progress line on a terminal, for work that takes over a second."""

from __future__ import annotations

import contextlib
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Self

import click

from multitracer.cli import _messages
from multitracer.words import printable, size

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from rich.console import RenderableType

_PATIENCE_S = 1.0
_STACK_BYTES = 1 << 20
"""Stack of the thread: the usual 8 MiB count as used where `--max-memory` limits the memory."""
_EVERY_S = 10.0
"""Interval of progress lines where they are no line that changes, such as in the log of a batch job."""
_TERMINAL_S = 0.5
"""Interval at which a line of text is updated on a terminal."""


class ProgressText:
    """Shows progress as text on standard error.

    On a terminal one line is updated; elsewhere a line is written every ten seconds.
    """

    def __init__(self) -> None:
        self._is_terminal = _messages.chosen.is_live
        self._every_s = _TERMINAL_S if self._is_terminal else _EVERY_S
        self._due_s = time.monotonic() + self._every_s
        self._is_open = False
        self._last = ""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._is_open:
            click.echo("", err=True)

    def tell(self, words: Callable[[], str]) -> None:
        """Show the text that `words` returns, if the next update is due and it is another one."""
        now_s = time.monotonic()
        if now_s < self._due_s:
            return
        self._due_s = now_s + self._every_s
        text = words()
        if text == self._last:
            return
        self._last = text
        if not self._is_terminal:
            _messages.progress(text)
            return
        self._is_open = True
        click.echo(f"\r\x1b[K{printable(text)}", err=True, nl=False)


class ProgressDisplay:
    """Name of the current work, and how much is done; the total is None if it is unknown (a pipe)."""

    def __init__(self, total_bytes: int | None, phase: str = "reading") -> None:
        self.phase = self._counted = phase
        self._total_bytes = total_bytes
        self._done_bytes = 0

    def __call__(self, stored_bytes: int) -> None:
        """Record how many bytes of all files were read; the number falls if a file is read again."""
        self._done_bytes = stored_bytes

    def words(self) -> str:
        """Return the progress as text."""
        total = f" of {size(self._known_bytes)}" if self._known_bytes else ""
        return f"{self.phase}: {size(self._done_bytes)}{total}"

    @property
    def _known_bytes(self) -> int:
        """The total of the current work; 0 if it is unknown."""
        return self._total_bytes or 0 if self.phase.startswith(self._counted) else 0

    def __rich__(self) -> RenderableType:
        """Return the line for the terminal."""
        from rich.progress_bar import ProgressBar
        from rich.table import Table

        line = Table.grid(padding=(0, 1))
        if total_bytes := self._known_bytes:
            bar = ProgressBar(total=total_bytes, completed=self._done_bytes, width=30)
            line.add_row(self.phase, bar, f"{size(self._done_bytes)} of {size(total_bytes)}")
        else:
            line.add_row(f"{self.phase} …", size(self._done_bytes))
        return line


@contextlib.contextmanager
def progress(
    phase: str = "reading", *, paths: Iterable[str] = (), total_bytes: int | None = None
) -> Iterator[ProgressDisplay]:
    """Show progress on standard error during the `with` block.

    On a terminal it is a line that changes, if the work lasts over a second; elsewhere a line every ten seconds.

    Parameters
    ----------
    phase : str
        Name of the work.
    paths : iterable of str
        Files whose bytes are the work, if `total_bytes` is None; the total is unknown if one is no regular file.
    total_bytes : int, optional
    """
    sizes = [Path(path).stat().st_size if Path(path).is_file() else None for path in paths]
    known = [each for each in sizes if each is not None]
    total_bytes = sum(known) if sizes and len(known) == len(sizes) else total_bytes
    state = ProgressDisplay(total_bytes, phase)
    if not _messages.chosen.is_progress_wanted:
        yield state
        return
    done, show = threading.Event(), _live if _messages.chosen.is_live else _lines
    thread = threading.Thread(target=show, args=(state, done), daemon=True)
    stack_bytes = threading.stack_size(_STACK_BYTES)
    try:
        thread.start()
    finally:
        threading.stack_size(stack_bytes)
    try:
        yield state
    finally:
        done.set()
        thread.join()


def _live(state: ProgressDisplay, done: threading.Event) -> None:
    """Show a line that changes on the terminal until the work is done, if it takes over a second."""
    if done.wait(_PATIENCE_S):
        return
    from rich.console import Console
    from rich.live import Live

    with Live(get_renderable=lambda: state, console=Console(stderr=True), transient=True):
        done.wait()


def _lines(state: ProgressDisplay, done: threading.Event) -> None:
    """Write a line every ten seconds until the work is done."""
    while not done.wait(_EVERY_S):
        _messages.progress(state.words())
