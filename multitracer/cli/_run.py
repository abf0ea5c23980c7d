"""Runs the command line and turns whatever ends it into one line on standard error and an exit status."""

from __future__ import annotations

import io
import os
import signal
import sys
from typing import TYPE_CHECKING

import click

from multitracer.cli._group import cli
from multitracer.cli._options import Settings
from multitracer.errors import MultiTracerError
from multitracer.words import portable, printable

if TYPE_CHECKING:
    from collections.abc import Sequence

ERROR, USAGE, INTERRUPTED, READER_GONE = 1, 2, 130, 141
COMPLETION_VARIABLE = "_MULTITRACER_COMPLETE"


def run(args: Sequence[str]) -> int:
    """Run `multitracer` with these arguments.

    Returns
    -------
    int
        0 fine, 1 an error, 2 wrong usage, 130 interrupted, 141 when the reader of standard output is gone.
    """
    # NumPy's BLAS would start a thread per core at import, and nothing here multiplies matrices
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    # and huge pages would have to be put together of free ones, which costs a third of a large figure's time
    os.environ.setdefault("NUMPY_MADVISE_HUGEPAGE", "0")
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):  # what the locale cannot show is written out
            stream.reconfigure(errors="backslashreplace")
    settings = Settings()
    try:
        return _invoke(args, settings)
    except click.ClickException as error:
        return _show_usage(error)
    except KeyboardInterrupt:
        return _fail("interrupted", INTERRUPTED)
    except BrokenPipeError:
        _silence_stdout()
        return READER_GONE
    except (MultiTracerError, OSError, MemoryError) as error:
        if settings.debug:
            sys.excepthook(type(error), error, error.__traceback__)
        return _fail(_sentence(error))
    except ModuleNotFoundError as error:
        return _missing_package(error, settings)
    except Exception as error:  # noqa: BLE001  # the border: nothing above this line could report a bug
        return _report_bug(error, settings)


def end_orderly() -> None:
    """Let SIGTERM and SIGHUP end this process as an exit does, which removes what is half written."""

    def end(number: int, _: object) -> None:
        signal.signal(number, signal.SIG_IGN)  # a second one must not end the removal
        sys.exit(128 + number)

    for number in (signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) is signal.SIG_DFL:  # not under nohup
            signal.signal(number, end)


def _invoke(args: Sequence[str], settings: Settings) -> int:
    if instruction := os.environ.get(COMPLETION_VARIABLE):
        from click.shell_completion import shell_complete

        return shell_complete(cli, {}, "multitracer", COMPLETION_VARIABLE, instruction)
    try:
        with cli.make_context("multitracer", list(args), obj=settings) as context:
            cli.invoke(context)
    except click.exceptions.Exit as stop:
        status = stop.exit_code
    else:
        status = 0
    _flush_stdout()  # here, where a full disk can still be reported
    return status


def _show_usage(error: click.ClickException) -> int:
    shown = io.StringIO()
    error.show(file=shown)
    click.echo("\n".join(map(printable, shown.getvalue().splitlines())), err=True)
    return error.exit_code


def _sentence(error: Exception) -> str:
    if isinstance(error, MemoryError):
        return "out of memory; read less with --max-packets N"
    if isinstance(error, OSError) and not isinstance(error, MultiTracerError):
        where = portable(os.fspath(error.filename)) if error.filename else "output"
        return f"{where}: {error.strerror or error}"
    return str(error)


def _fail(sentence: str, status: int = ERROR) -> int:
    try:
        _flush_stdout()
    except OSError:
        _silence_stdout()
    click.echo(f"Error: {printable(sentence)}", err=True)
    return status


def _flush_stdout() -> None:
    if sys.stdout is not None:  # None: it was closed before the program began
        sys.stdout.flush()


def _silence_stdout() -> None:
    """Send what is still buffered nowhere, so that the interpreter does not fail on it again at its end."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _missing_package(error: ModuleNotFoundError, settings: Settings) -> int:
    from multitracer.cli._checks import how_to_install

    name = (error.name or "").partition(".")[0]
    fix = how_to_install(name)
    if fix is None:
        return _report_bug(error, settings)
    return _fail(f"this needs {name}, which is not installed; {fix}")


def _report_bug(error: Exception, settings: Settings) -> int:
    import traceback

    text = "".join(traceback.format_exception(error))
    if settings.debug:
        click.echo(text, err=True, nl=False)
        return ERROR
    what = f"this is a bug in MultiTracer ({type(error).__name__}: {error})"
    try:
        where = f"its log is {_write_log(text)}"
    except OSError:
        where = "its log could not be written; --debug shows it"
    return _fail(f"{what}; {where}")


def _write_log(text: str) -> str:
    """Write the log of a bug to the user's cache folder, to the temporary folder where that fails."""
    import platform
    import tempfile
    from pathlib import Path

    import multitracer

    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "multitracer"
    try:
        cache.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(".log", "bug-", cache)
    except (OSError, RuntimeError):  # RuntimeError: no home folder
        handle, name = tempfile.mkstemp(".log", "multitracer-bug-")
    about = (
        f"multitracer {multitracer.__version__}, Python {platform.python_version()}, {platform.platform()}"
    )
    with os.fdopen(handle, "w", encoding="utf-8", errors="backslashreplace") as stream:
        stream.write(f"{about}\n{sys.argv!r}\n{text}")
    return name
