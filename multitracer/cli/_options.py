"""Options that several commands share, each described once, and what their values mean."""

from __future__ import annotations

import math

import click

_PICTURES = (".png", ".svg", ".pdf", ".jpg", ".jpeg", ".gif", ".webp")


EMPTY_INPUT = "is empty; name a capture, a session folder, or - for standard input"
"""What is said of an INPUT without a name."""


def named_input(text: str) -> str:
    """Return an INPUT; of no name, as of a variable that is not set, it would be the current folder."""
    if not text:
        raise click.BadParameter(EMPTY_INPUT)
    return text


def target(text: str) -> str:
    """Return the place that the option -o states."""
    if not text:
        raise click.BadParameter("is empty; name a file or a folder")
    return text


def named(text: str) -> str:
    """Return the place that -o states, for a command that does not write to standard output."""
    if text == "-":
        raise click.BadParameter("this does not go to standard output; name a file or a folder")
    return target(text)


def named_page(text: str) -> str:
    """Return the page that -o states; refuse the name of a picture, which would hold HTML."""
    if text.lower().endswith(_PICTURES):
        raise click.BadParameter("this writes a page; name it .html, and save a picture from there")
    return named(text)


class FiniteRange(click.FloatRange):
    """A number within a range; click's own takes "nan", which is neither below nor above any."""

    def convert(self, value: float, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """Return the number; refuse what is none, or endless."""
        number = float(super().convert(value, param, ctx))
        if not math.isfinite(number):
            self.fail(f"{value} is not a number that can be used; give a finite one", param, ctx)
        return number


class Group(click.Group):
    """A group that lists its commands with whole sentences; click's own cuts them."""

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write each command with the first sentence of its help."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, first_sentence(each)) for name, each in sorted(self.commands.items())])


def first_sentence(command: click.Command) -> str:
    """Return the first sentence of a command's help."""
    return command.get_short_help_str(limit=1_000)


debug_option = click.option(
    "--debug", is_flag=True, expose_value=False, help="On an error, show the traceback."
)
"""Read by the program that runs the command."""


pool_option = click.option(
    "--pool",
    is_flag=True,
    help="Of measured folders: treat those with equal settings and labels as one experiment.",
)


assets_option = click.option(
    "--assets",
    type=click.Choice(["inline", "shared"]),
    default="inline",
    help="Keep script and style in each page (inline, the default), or once in a folder beside them.",
)


def examples(*lines: str) -> str:
    """Return the end of a command's help: example command lines, each on a line of its own."""
    return "\n".join(("\b", "Example:" if len(lines) == 1 else "Examples:", *(f"  {line}" for line in lines)))
