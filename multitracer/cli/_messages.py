"""What a command writes to standard error: warnings, notes, progress and errors; one place for all of them.

Standard output has the result alone. The options --quiet, --verbose and --log, which every command has, decide what
is written: with --quiet errors only, with --verbose also what is read and how long it takes; --log FILE gets
everything, a line for each message, whatever the terminal shows.
"""

from __future__ import annotations

import sys
import time
from datetime import UTC, datetime

import click

from multitracer.errors import InputError
from multitracer.words import portable, printable, without_secrets

_FIRST = "# messages of multitracer"
"""Begin of the first line of each --log file: a file without it is never appended to."""


class MessageChoice:
    """What the options of the running command say, before or after a subcommand; each run begins with a new one."""

    errors_only = False
    verbose = False
    _log: str | None = None

    @property
    def log(self) -> str | None:
        """Path of the file of --log; setting it begins the file, or raises an InputError."""
        return self._log

    @log.setter
    def log(self, path: str | None) -> None:
        self._log = None if path is None else _begin_log(path)
        if path is not None:
            _tell("INFO", " ".join(sys.argv[1:]), shown=None)

    @property
    def is_progress_shown(self) -> bool:
        """Whether work that takes long may tell how far it is."""
        return sys.stderr is not None and not self.errors_only

    @property
    def is_progress_wanted(self) -> bool:
        """Whether work that takes long may tell how far it is, on standard error or in the file of --log."""
        return self.is_progress_shown or self.log is not None

    @property
    def is_live(self) -> bool:
        """Whether progress is a line that changes, on a terminal; elsewhere it is lines with the time of day."""
        return self.is_progress_shown and sys.stderr.isatty()

    @property
    def are_details_wanted(self) -> bool:
        """Whether sentences for `detail` are wanted."""
        return (self.verbose and not self.errors_only) or self.log is not None


chosen = MessageChoice()


def choose(name: str, value: bool | str) -> None:  # as click hands it over
    """Set an attribute of the choice of this run."""
    setattr(chosen, name, value)


def warn(sentence: str) -> None:
    """Write one line of warning."""
    _tell("WARNING", sentence, shown=None if chosen.errors_only else f"Warning: {printable(sentence)}")


def log_warning(sentence: str) -> None:
    """Write one line of warning into the file of --log alone, where the terminal shows it in another way."""
    _tell("WARNING", sentence, shown=None)


def note(sentence: str) -> None:
    """Write one line that is neither a warning nor a result: what happens now, where data are kept."""
    _tell("INFO", sentence, shown=None if chosen.errors_only else printable(sentence))


def detail(sentence: str) -> None:
    """Write one line that only --verbose and --log show."""
    _tell("DEBUG", sentence, shown=printable(sentence) if chosen.verbose and not chosen.errors_only else None)


def progress(text: str) -> None:
    """Write one line of progress with the time of day, for the log of a batch job."""
    shown = f"{time.strftime('%H:%M:%S')} {printable(text)}" if chosen.is_progress_shown else None
    _tell("INFO", text, shown=shown)


def fail(sentence: str) -> None:
    """Write the sentence with which the command ends; --quiet does not suppress it."""
    _tell("ERROR", sentence, shown=f"Error: {printable(sentence)}")


def _tell(level: str, sentence: str, *, shown: str | None) -> None:
    if shown is not None:
        click.echo(shown, err=True)
    if (log := chosen.log) is None:
        return
    try:
        _append(log, level, sentence)
    except OSError as error:  # a full disk: the command goes on, and its messages are still shown
        chosen.log = None
        warn(f"{portable(log)}: {error.strerror or error}; no more messages are written to this file")


def _append(path: str, level: str, sentence: str) -> None:
    when = datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    with open(path, "a", encoding="utf-8", errors="backslashreplace") as stream:  # noqa: PTH123  # one write a line
        stream.write(f"{when} {level} {without_secrets(printable(sentence))}\n")


def _begin_log(path: str) -> str:
    """Begin the file of --log, or go on at its end; return its path.

    Raises
    ------
    InputError
        If it cannot be written, or holds anything but messages of this program.
    """
    from multitracer import __version__
    from multitracer.report.replacing import check_replaceable

    final = str(check_replaceable(path))
    try:
        with open(final, "a+", encoding="utf-8", errors="replace") as stream:  # noqa: PTH123
            stream.seek(0)
            first = stream.readline(200)
            if not first:
                stream.write(f"{_FIRST} {__version__}\n")
            elif not first.startswith(_FIRST):
                raise InputError(f"{portable(path)}: this file is not a log of --log; name a new file")
    except OSError as error:
        raise InputError(f"{portable(path)}: {error.strerror or error}; name a file that can be written") from error
    return final
