"""The command `multitracer` itself: finds its subcommands in this folder and loads them when asked for."""

from __future__ import annotations

import difflib
import functools
import importlib
import pkgutil
from typing import TYPE_CHECKING

import click

from multitracer import __version__
from multitracer.cli._options import debug_option, examples

if TYPE_CHECKING:
    from collections.abc import Iterable

_SECTIONS: dict[str, tuple[str, ...]] = {
    "Look and analyse": ("inspect", "analyze", "align", "diagnose", "plot", "report", "export", "dissect"),
    "Record": ("capture", "merge", "testbed", "measure"),
    "This installation": ("formats", "doctor", "completion"),
}


@functools.cache
def _command_names() -> tuple[str, ...]:
    package = importlib.import_module("multitracer.cli")
    names = [m.name for m in pkgutil.iter_modules(package.__path__) if not m.name.startswith("_")]
    return tuple(sorted(names))


class Commands(click.Group):
    """A group whose subcommands are the modules beside this one."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return every command's name."""
        return [name.replace("_", "-") for name in _command_names()]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import and return one command, None if there is none of that name."""
        module = cmd_name.replace("-", "_")
        if module not in _command_names():
            return None
        command = importlib.import_module(f"multitracer.cli.{module}").command
        assert isinstance(command, click.Command)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Return the command that is called; for one that does not exist, suggest those like it."""
        try:
            return super().resolve_command(ctx, args)
        except click.UsageError as error:
            if like := difflib.get_close_matches(args[0], self.list_commands(ctx)):
                ctx.fail(f"{error.message} Did you mean {' or '.join(map(repr, like))}?")
            raise

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the commands by section; one that no section names comes last."""
        listed = {name for names in _SECTIONS.values() for name in names}
        rest = [name for name in self.list_commands(ctx) if name not in listed]
        for title, names in (*_SECTIONS.items(), ("More", rest)):
            self._format_section(ctx, formatter, title, names)

    def _format_section(
        self, ctx: click.Context, formatter: click.HelpFormatter, title: str, names: Iterable[str]
    ) -> None:
        found = [(name, command) for name in names if (command := self.get_command(ctx, name))]
        if found:
            with formatter.section(title):
                formatter.write_dl([(name, command.get_short_help_str(70)) for name, command in found])


@click.command("multitracer", cls=Commands, epilog=examples("multitracer report capture.pcap -o report.html"))
@click.version_option(__version__, "-V", "--version", message="%(prog)s %(version)s")
@debug_option
def cli() -> None:
    """Read captures of TCP, analyse every connection, and show why it was slow.

    INPUT is a capture (pcap, pcapng; also .gz, .zst, .xz), the files of a ring buffer, a session folder, or
    - for standard input.
    """
