"""The program itself: finds its commands in this folder, runs one, and ends with an exit status."""

from __future__ import annotations

import importlib
import io
import os
import pkgutil
import sys
import warnings
from enum import IntEnum
from pathlib import Path
from typing import TYPE_CHECKING

import click

from multitracer import __version__
from multitracer.cli import _messages
from multitracer.cli._options import debug_option, examples, first_sentence
from multitracer.errors import MultiTracerError, WindowError
from multitracer.words import portable, printable, without_secrets

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence


class Exit(IntEnum):
    """The exit status of the program; above 128 it is 128 + the signal, as in a shell."""

    ERROR = 1
    USAGE = 2
    CONDITION_TRUE = 3
    CONDITION_UNKNOWN = 4
    INTERRUPTED = 130
    READER_GONE = 141


_NO_THREAD = "can't start new thread"
"""Text of CPython's RuntimeError when no thread can be started; it has no class of its own."""
COMPLETION_VARIABLE = "_MULTITRACER_COMPLETE"
_MODULES = [
    module.name for module in pkgutil.iter_modules([str(Path(__file__).parent)]) if not module.name.startswith("_")
]
_SECTIONS: dict[str, tuple[str, ...]] = {
    "Inspect and analyse": (
        "inspect", "analyze", "diagnose", "report", "plot", "align", "correlate", "export", "dissect",
    ),
    "Many sessions": ("campaign", "compare"),
    "Record": ("capture", "merge", "testbed", "measure"),
    "This installation": ("formats", "schema", "doctor", "completion"),
}  # fmt: skip


class Commands(click.Group):
    """A click group whose subcommands are the modules of this folder."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names of all commands."""
        return sorted(name.replace("_", "-") for name in _MODULES)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import and return a command; None if there is no such command.

        If the name is similar to a command, an error suggests that command.
        """
        module = cmd_name.replace("-", "_")
        if module not in _MODULES:
            self._suggest(ctx, cmd_name)
            return None
        command = importlib.import_module(f"multitracer.cli.{module}").command
        assert isinstance(command, click.Command)
        return command

    def _suggest(self, ctx: click.Context, name: str) -> None:
        import difflib

        if like := difflib.get_close_matches(name, self.list_commands(ctx)):
            ctx.fail(f"No such command {name!r}. Did you mean {' or '.join(map(repr, like))}?")

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the commands by section; a command without a section comes last."""
        listed = {name for names in _SECTIONS.values() for name in names}
        rest = [name for name in self.list_commands(ctx) if name not in listed]
        for title, names in (*_SECTIONS.items(), ("More", rest)):
            self._format_section(ctx, formatter, title, names)

    def _format_section(
        self, ctx: click.Context, formatter: click.HelpFormatter, title: str, names: Iterable[str]
    ) -> None:
        commands = [(name, command) for name in names if (command := self.get_command(ctx, name))]
        if commands:
            with formatter.section(title):
                formatter.write_dl([(name, first_sentence(command)) for name, command in commands])


cli = Commands(
    "multitracer",
    help="""Read captures of TCP, analyse every connection, and show why it was slow.

    INPUT is a capture (pcap, pcapng; also .gz, .zst, .xz), the files of a ring buffer, a session folder, or
    - for standard input.
    """,
    epilog=examples("multitracer diagnose capture.pcap", "multitracer report capture.pcap -o report.html"),
)


click.option("-V", "--version", is_flag=True, help="Show the version and exit.")(cli)
click.option(
    "-v",
    "--verbose",
    is_flag=True,
    help="With --version: also show whether Python code or the compiled native kernel reads captures.",
)(cli)
debug_option(cli)


def run(args: Sequence[str]) -> int:
    """Run `multitracer` with these arguments.

    Returns
    -------
    int
        0 success, 1 error, 2 wrong usage, 130 interrupted, 141 if the reader of standard output is gone;
        for `capture -- COMMAND` the status of COMMAND.
    """
    # NumPy's BLAS would start a thread per core at import, and nothing here multiplies matrices
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    # and huge pages would have to be put together of free ones, which costs a third of a large figure's time
    os.environ.setdefault("NUMPY_MADVISE_HUGEPAGE", "0")
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):  # what the locale cannot show is written out
            stream.reconfigure(errors="backslashreplace")
    _messages.chosen = _messages.MessageChoice()
    warnings.showwarning = lambda message, *_, **__: _messages.warn(str(message))
    try:
        return _invoke(args)
    except (click.ClickException, WindowError) as error:
        return _show_usage(error)
    except KeyboardInterrupt:
        return _fail("interrupted", Exit.INTERRUPTED)
    except BrokenPipeError:
        _silence_stdout()
        return Exit.READER_GONE
    except ModuleNotFoundError as error:
        return _missing_package(error, args)
    except Exception as error:  # noqa: BLE001  # the border: nothing above this line could report a bug
        if (sentence := _sentence(error)) is None:
            return _report_bug(error, args)
        if _is_debugged(args):
            _show_traceback(error)
        return _fail(sentence)


def _invoke(args: Sequence[str]) -> int:
    if instruction := os.environ.get(COMPLETION_VARIABLE):
        from click.shell_completion import shell_complete

        return shell_complete(cli, {}, "multitracer", COMPLETION_VARIABLE, instruction)
    status = 0
    try:
        with cli.make_context("multitracer", list(args)) as context:
            if context.params["version"]:
                _show_version(verbose=context.params["verbose"])
            else:
                cli.invoke(context)
    except click.exceptions.Exit as stop:
        status = stop.exit_code
    print(end="", flush=True)  # noqa: T201  # here, where a full disk can still be reported
    return status


def _show_version(*, verbose: bool) -> None:
    click.echo(f"multitracer {__version__}")
    if verbose:
        from multitracer import native

        click.echo(f"captures are read by {native.state()}")


def _is_debugged(args: Sequence[str]) -> bool:
    """Return whether `--debug` is an option of this program; options after `--` belong to another program."""
    own = args[: list(args).index("--")] if "--" in args else args
    return "--debug" in own


def _show_usage(error: click.ClickException | WindowError) -> int:
    if isinstance(error, WindowError):
        error = click.BadParameter(str(error), param_hint="'--to'")
    shown = io.StringIO()
    error.show(file=shown)
    click.echo("\n".join(map(printable, shown.getvalue().splitlines())), err=True)
    return error.exit_code


def _sentence(error: Exception) -> str | None:
    """Return the message of an expected error; None for an error that only a bug can cause."""
    if isinstance(error, MemoryError):
        return "out of memory; read fewer packets with --max-packets N, or raise --max-memory"
    if isinstance(error, RuntimeError) and str(error) == _NO_THREAD:
        return "cannot start a thread; raise the limit of memory or processes (ulimit -v, ulimit -u)"
    if isinstance(error, OSError) and not isinstance(error, MultiTracerError):
        where = portable(os.fspath(error.filename)) if error.filename else "output"
        return f"{where}: {error.strerror or error}"
    return str(error) if isinstance(error, MultiTracerError) else None


def _fail(sentence: str, status: int = Exit.ERROR) -> int:
    try:
        print(end="", flush=True)  # noqa: T201
    except OSError:
        _silence_stdout()
    _messages.fail(sentence)
    return status


def _silence_stdout() -> None:
    """Discard the buffered output, so that the flush at the exit of the interpreter does not fail again."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _missing_package(error: ModuleNotFoundError, args: Sequence[str]) -> int:
    from multitracer.cli._checks import how_to_install

    if error.name == "multitracer.lab":
        return _fail(
            "this command needs the lab (package multitracer.lab), which is not installed; reinstall multitracer"
        )
    name = (error.name or "").partition(".")[0]
    fix = how_to_install(name)
    if fix is None:
        return _report_bug(error, args)
    return _fail(f"this command needs {name}, which is not installed; {fix}")


def _report_bug(error: Exception, args: Sequence[str]) -> int:
    import traceback

    if _is_debugged(args):
        _show_traceback(error)
        return Exit.ERROR
    text = without_secrets("".join(traceback.format_exception(error)))
    what = without_secrets(f"this is a bug in MultiTracer ({type(error).__name__}: {error})")
    try:
        where = f"details are in {_write_log(text)}"
    except OSError:
        where = "the error log could not be written; --debug shows the traceback"
    return _fail(f"{what}; {where}")


def _show_traceback(error: Exception) -> None:
    import traceback

    lines = without_secrets("".join(traceback.format_exception(error))).splitlines()
    click.echo("\n".join(map(printable, lines)), err=True)


def _write_log(text: str) -> str:
    """Write the log of a bug to the user's cache folder, or else to the temporary folder; return its path."""
    import platform
    import tempfile

    import multitracer

    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "multitracer"
    try:
        cache.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(".log", "bug-", cache)
    except (OSError, RuntimeError):  # RuntimeError: no home folder
        handle, name = tempfile.mkstemp(".log", "multitracer-bug-")
    about = f"multitracer {multitracer.__version__}, Python {platform.python_version()}, {platform.platform()}"
    with os.fdopen(handle, "w", encoding="utf-8", errors="backslashreplace") as stream:
        stream.write(without_secrets(f"{about}\n{sys.argv!r}\n{text}"))
    return name
