"""The live view on a terminal: collectors, sparklines, disk space, markers."""

from __future__ import annotations

import math
import os
import sys
import termios
import time
import tty
from typing import TYPE_CHECKING

from rich.cells import cell_len
from rich.console import Console, Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from multitracer.recorder.status import CurrentLimit
from multitracer.words import clock_time, count, printable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from types import TracebackType
    from typing import Self

    from rich.console import JustifyMethod, RenderableType

    from multitracer.recorder.status import CollectorState, RecordingStatus

_BARS = "▁▂▃▄▅▆▇█"
_STYLES = {
    "recording": "green",
    "no values": "yellow",
    "silent": "yellow",
    "waiting": "red",
    "starting": "cyan",
    "ended": "dim",
}
_LONGEST_NAME, _LONGEST_LABEL, _SHORTEST_LAST = 18, 28, 8
_WIDE = 80
"""Columns of a terminal from which on sizes of logs are shown."""
_MOST_BARS = 120
_ENTER, _ESCAPE, _ERASE, _MARK = "\r\n", "\x1b", "\x7f\b", "mM"


class ScreenView:
    """The live view; the key `m` begins a marker, Enter saves it, Escape discards it.

    Parameters
    ----------
    title : str
        The session's name.
    log : callable
        Called with each warning, which stays visible here and belongs into the log of the command, too.
    now : sequence of str, optional
        The program that states what limits the transfer now.
    """

    def __init__(self, title: str, log: Callable[[str], object], now: Sequence[str] = ()) -> None:
        self._title = title
        self._log = log
        self._program = now
        self._limit = CurrentLimit(())
        self._console = Console(stderr=True)
        self._live = Live(console=self._console, auto_refresh=False, transient=False)
        self._status: RecordingStatus | None = None
        self._note: str | None = None
        self._saved: list[object] | None = None

    def __enter__(self) -> Self:
        if sys.stdin.isatty():
            self._saved = termios.tcgetattr(sys.stdin)
            tty.setcbreak(sys.stdin)
        self._live.start()
        self._limit = CurrentLimit(self._program)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._limit.close()
        try:
            self._live.stop()
            if self._saved is not None:
                termios.tcsetattr(sys.stdin, termios.TCSADRAIN, self._saved)  # type: ignore[arg-type]
        except OSError:
            pass  # the terminal is gone; there is nothing to restore

    @property
    def source(self) -> int | None:
        """Standard input, while it is a terminal."""
        return sys.stdin.fileno() if self._saved is not None else None

    def typed(self) -> str | None:
        """Read keys; return the note of a marker when it is complete."""
        try:
            keys = os.read(sys.stdin.fileno(), 256).decode("utf-8", "replace")
        except OSError:
            keys = ""
        if not keys:
            self._saved = None
            return None
        done = None
        for key in keys:
            done = self._key(key) or done
        if self._status is not None:
            self.show(self._status)
        return done

    def _key(self, key: str) -> str | None:
        if self._note is None:
            self._note = "" if key in _MARK else None
            return None
        if key in _ENTER:
            note, self._note = self._note.strip() or "(no note)", None
            return note
        if key == _ESCAPE:
            self._note = None
        elif key in _ERASE:
            self._note = self._note[:-1]
        elif key.isprintable():
            self._note += key
        return None

    def warn(self, sentence: str) -> None:
        """Write a warning above the view, where it stays visible."""
        self._log(sentence)
        try:
            self._console.print(Text(f"Warning: {printable(sentence)}"))
        except OSError:
            self._saved = None

    def show(self, status: RecordingStatus) -> None:
        """Redraw the complete view."""
        self._status = status
        status.now = self._limit.look(time.monotonic_ns())
        try:
            self._live.update(page(self._title, status, self._note, self._console.width), refresh=True)
        except OSError:
            self._saved = None  # a closed terminal: the recording goes on


def page(title: str, status: RecordingStatus, note: str | None, width: int) -> RenderableType:
    """Return the complete view for a terminal with `width` columns.

    `note` is the note of a marker that is being typed, None if none is.
    """
    return Group(
        *_head(title, status, width), _collectors(status.lines, width), _series(status, width), *_foot(status, note)
    )


def _head(title: str, status: RecordingStatus, width: int) -> Iterator[Text]:
    """Yield the lines above the tables; a line that is full continues in the next one."""
    parts = [Text(f"{title}  {clock_time(int(status.elapsed_s))}", style="bold")]
    parts[0].truncate(width, overflow="ellipsis")
    if (room := status.room) is not None:
        lasts = "" if room.lasts_s is None else f", enough for {_long(room.lasts_s)}"
        style = "red bold" if room.is_short else "default"
        parts.append(Text(f"{room.free_bytes / 1e9:.1f} GB free{lasts}", style=style))
    parts.append(Text(f"{count(status.sync_probes, 'sync probe')}, {count(status.markers, 'marker')}"))
    line = parts[0]
    for part in parts[1:]:
        if line.cell_len + 3 + part.cell_len > width:
            yield line
            line = part
        else:
            line = Text("   ").join([line, part])
    yield line
    facts = (("now", status.now), ("place", status.place))
    yield from (Text(f"{name}: {printable(words)}") for name, words in facts if words)


def _foot(status: RecordingStatus, note: str | None) -> Iterator[Text]:
    if note is not None:
        yield Text(f"Marker: {note}▏  (Enter saves, Escape cancels)", style="reverse")
        return
    if status.message:
        yield Text(status.message, style="red bold")
    yield Text("m sets a marker with a note · Ctrl-C ends the recording", style="dim")


def _restarted(times: int) -> str:
    return "restarted once" if times == 1 else f"restarted {times:,} times"


def _state(line: CollectorState) -> str:
    """Return the state, and for how long it has been so if the collector gives no values."""
    is_timed = line.state in ("silent", "no values", "waiting") and line.since_s >= 1
    return f"{line.state} {_short(line.since_s)}" if is_timed else line.state


def _collectors(lines: Sequence[CollectorState], width: int) -> Table:
    """Return a row for each collector; its last value gets the room that is left."""
    columns = {
        "collector": [line.name for line in lines],
        "state": [_state(line) for line in lines],
        "rate": [f"{line.records_per_s:,.0f}/s" for line in lines],
        "bytes": [f"{line.bytes / 1e6:,.2f} MB" for line in lines],
        "drops": [f"{line.dropped:,}" for line in lines],
    }
    if width < _WIDE:
        del columns["bytes"]
        columns = columns if any(line.dropped for line in lines) else {k: v for k, v in columns.items() if k != "drops"}
    table = Table(box=None, pad_edge=False, padding=(0, 1, 0, 0))
    used = 0
    for name, texts in columns.items():
        size = min(max(cell_len(text) for text in (name, *texts)), _LONGEST_NAME)
        used += size + 1
        side: JustifyMethod = "left" if name in ("collector", "state") else "right"
        table.add_column(name, justify=side, no_wrap=True, overflow="ellipsis", width=size)
    table.add_column("last", no_wrap=True, overflow="ellipsis", max_width=max(width - used, _SHORTEST_LAST))
    for line, cells in zip(lines, zip(*columns.values(), strict=True), strict=True):
        name, state, *numbers = cells
        words = [*([_restarted(line.restarts)] if line.restarts else []), *([line.last] if line.last else [])]
        style = _STYLES.get(line.state, "default")
        table.add_row(name, Text(state, style=style), *numbers, Text(printable("; ".join(words))))
    return table


def _series(status: RecordingStatus, width: int) -> Table:
    """Return a row for each series: label, newest value, and bars in the room that is left."""
    table = Table(box=None, pad_edge=False, show_header=False, padding=(0, 1, 0, 0))
    newest = ["–" if math.isnan(values[-1]) else f"{values[-1]:,.1f}" for values in status.series.values()]
    label = min(max(map(cell_len, status.series), default=0), _LONGEST_LABEL)
    number = max(map(cell_len, newest), default=0)
    table.add_column(no_wrap=True, overflow="ellipsis", width=label)
    table.add_column(no_wrap=True, justify="right", width=number)
    table.add_column(no_wrap=True)
    bars = min(width - label - number - 2, _MOST_BARS)
    for (name, values), text in zip(status.series.items(), newest, strict=True):
        table.add_row(name, text, sparkline(values, width=max(bars, 1)))
    return table


def sparkline(values: Iterable[float], *, width: int = 48) -> str:
    """Return the last `width` values as text bars between their minimum and maximum; NaN is a blank.

    If all values are equal, they have the lowest bar.
    """
    shown = list(values)[-width:]
    known = [value for value in shown if not math.isnan(value)]
    minimum, largest = min(known, default=0.0), max(known, default=0.0)
    steps = (largest - minimum) or 1.0
    highest = len(_BARS) - 1
    return "".join(" " if math.isnan(v) else _BARS[int((v - minimum) / steps * highest)] for v in shown)


def _short(seconds: float) -> str:
    """Return a duration in few characters: 14 s, 3 min, 2.5 h."""
    return f"{seconds:.0f} s" if seconds < 99.5 else _long(seconds)


def _long(seconds: float) -> str:
    if seconds >= 48 * 3600:
        return f"{seconds / 86400:.0f} days"
    return f"{seconds / 3600:.1f} h" if seconds >= 3600 else f"{seconds / 60:.0f} min"


# One line a second, for logs and ssh.


class PlainView:
    """Writes one line a second.

    Parameters
    ----------
    tell : callable
        Called with each warning.
    write : callable, optional
        Called with each line; None: no lines.
    now : sequence of str, optional
        The program that states what limits the transfer now; it runs in the `with` block.

    If one of them fails (a closed terminal), the recording continues without lines.
    """

    def __init__(
        self, tell: Callable[[str], object], write: Callable[[str], object] | None = None, now: Sequence[str] = ()
    ) -> None:
        self._tell = tell
        self._write = write
        self._program = now
        self._limit = CurrentLimit(())

    def __enter__(self) -> Self:
        self._limit = CurrentLimit(self._program)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._limit.close()

    @property
    def source(self) -> int | None:
        """Return None: this view reads no keys."""
        return None

    def typed(self) -> str | None:
        """Return None: this view reads no keys."""
        return None

    def warn(self, sentence: str) -> None:
        """Write a warning."""
        try:
            self._tell(sentence)
        except OSError:
            self._write = None

    def show(self, status: RecordingStatus) -> None:
        """Write the line."""
        if self._write is None:
            return
        status.now = self._limit.look(time.monotonic_ns())
        try:
            self._write(plain_line(status))
        except OSError:
            self._write = None


def plain_line(status: RecordingStatus) -> str:
    """Return the status as one line: time, disk, state, rate and drops of each collector, what limits now, place."""
    clock = time.strftime("%H:%M:%S", time.gmtime())
    room = f"{status.room.free_bytes / 1e9:.1f} GB free" if status.room else ""
    facts = [f"{name}: {printable(words)}" for name, words in (("now", status.now), ("place", status.place)) if words]
    parts = [f"{clock}Z {status.elapsed_s:.0f} s", room, *map(_line, status.lines), *facts, status.message]
    return " | ".join(part for part in parts if part)


def _line(line: CollectorState) -> str:
    dropped = f" dropped {line.dropped}" if line.dropped else ""
    restarts = f" {_restarted(line.restarts)}" if line.restarts else ""
    why = f" ({line.last})" if line.state in ("no values", "waiting") and line.last else ""
    return f"{line.name} {_state(line)}{why} {line.bytes_per_s / 1e3:.1f} kB/s{dropped}{restarts}"
