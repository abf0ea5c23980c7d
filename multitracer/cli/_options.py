"""Options that several commands share, and functions that convert their values.

A named range of seconds on a figure's axis (`plot --trend`, `--mark`) is written NAME=FROM:TO.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

import click

from multitracer.cli import _messages
from multitracer.units import NS_PER_S

if TYPE_CHECKING:
    from collections.abc import Callable

_PICTURES = (".png", ".svg", ".pdf", ".jpg", ".jpeg", ".gif", ".webp")


EMPTY_INPUT = "the value is empty; name a capture, a session folder, or - for standard input"
"""Error message for an empty INPUT."""


def named_input(text: str) -> str:
    """Return the name of an input.

    Raise an error if it is empty, for example from an unset shell variable.
    """
    if not text:
        raise click.BadParameter(EMPTY_INPUT)
    return text


def target(text: str) -> str:
    """Return the output path of option -o; raise an error if it is empty. The path `-` is standard output."""
    if not text:
        raise click.BadParameter("the value is empty; name a file or a folder")
    return text


def named(text: str) -> str:
    """Return the output path of option -o for a command that cannot write to standard output."""
    if text == "-":
        raise click.BadParameter(
            "the output of this command cannot be written to standard output; name a file or a folder"
        )
    return target(text)


def named_page(text: str) -> str:
    """Return the path of the HTML page in option -o; raise an error for the suffix of a picture format."""
    if text.lower().endswith(_PICTURES):
        raise click.BadParameter(
            "the output is an HTML page; give a file name that ends in .html (an image can be saved from the page)"
        )
    return named(text)


def byte_count(text: str) -> int:
    """Return the number of bytes that the value of an option states: 500M, 2G, 1500000."""
    number, unit = (text[:-1], text[-1:].upper()) if text[-1:].isalpha() else (text, "")
    try:
        count = int(float(number) * _UNIT_BYTES[unit])
    except (ValueError, KeyError, OverflowError):
        count = 0
    if count <= 0:
        raise click.BadParameter(f"{text!r} is not a size; write a number of bytes such as 500M or 2G")
    return count


_MIN_MEMORY_BYTES = 64_000_000


def memory_limit(text: str) -> int:
    """Return the number of bytes that the value of --max-memory states, if the program itself fits into them."""
    if (limit := byte_count(text)) < _MIN_MEMORY_BYTES:
        raise click.BadParameter(f"{text!r} is less than the 64M that the program itself needs")
    return limit


_UNIT_BYTES = {"": 1, "K": 10**3, "M": 10**6, "G": 10**9, "T": 10**12}


class FiniteRange(click.FloatRange):
    """A click parameter type: a number within a range; unlike click's own type it refuses NaN."""

    def convert(self, value: float, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """Return the number; raise an error for NaN and infinity."""
        number = float(super().convert(value, param, ctx))
        if not math.isfinite(number):
            self.fail(f"the value must be a finite number, but is {value}", param, ctx)
        return number


class CommandGroup(click.Group):
    """A click group that lists each command with a complete sentence; click's own group truncates them."""

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write each command with the first sentence of its help."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, first_sentence(each)) for name, each in sorted(self.commands.items())])


def first_sentence(command: click.Command) -> str:
    """Return the first sentence of a command's help."""
    return command.get_short_help_str(limit=1_000)


debug_option = click.option(
    "--debug", is_flag=True, expose_value=False, help="Show the Python traceback if an error occurs."
)
"""Option --debug; the program that runs the command evaluates it."""


def _message_option(
    *names: str, words: str, metavar: str | None = None
) -> Callable[[Callable[..., object]], Callable[..., object]]:
    """Return an option that sets an attribute of `_messages.chosen`: a flag, or a text if it has a metavar."""
    return click.option(
        *names,
        is_flag=metavar is None,
        metavar=metavar,
        expose_value=False,
        callback=lambda _, option, value: _messages.choose(option.name, value) if value else None,
        help=words,
    )


_COMMON = (
    _message_option(
        "-q", "--quiet", "errors_only",
        words="Write only errors to standard error: no warnings, no progress, even with --verbose.",
    ),
    _message_option("-v", "--verbose", words="Also write to standard error what is read, and by which code."),
    _message_option(
        "--log", metavar="FILE", words="Append all messages to this file, with their times, even with --quiet."
    ),
    debug_option,
)  # fmt: skip


def common_options(function: Callable[..., object]) -> Callable[..., object]:
    """Add the options that every command has; used as a decorator. The command does not get them."""
    for add in reversed(_COMMON):
        function = add(function)
    return function


pool_option = click.option(
    "--pool", is_flag=True, help="Combine folders of `measure run` with equal settings and labels into one experiment."
)


assets_option = click.option(
    "--assets",
    type=click.Choice(["inline", "shared"]),
    default="inline",
    help="Store scripts and styles in each page (inline, the default), or once in a folder beside the pages (shared).",
)


def examples(*lines: str) -> str:
    """Return the end of a command's help: example command lines, one per line."""
    return "\n".join(("\b", "Example:" if len(lines) == 1 else "Examples:", *(f"  {line}" for line in lines)))


_MOST_S = 1e9
"""Maximum number of seconds, 30 years: longer than any recording."""

_LONGEST_S = 86_400
"""Maximum length of a window in s: one day."""


class NamedSpan(NamedTuple):
    """A named range on the axis, in ns; None: unbounded."""

    name: str
    from_ns: int | None = None
    to_ns: int | None = None


class Wish(NamedTuple):
    """The parts of the stacked figure that the user requested."""

    series: tuple[str, ...] = ()
    offset_bytes: int | None = None
    trends: tuple[NamedSpan, ...] = ()
    marks: tuple[NamedSpan, ...] = ()
    distance: bool = False
    """Whether the axis is the distance along the route."""

    @property
    def of_time(self) -> bool:
        """Whether one of the requested parts has a meaning only over time."""
        return bool(self.trends or self.marks)

    @property
    def patterns(self) -> list[str]:
        """Patterns of the labels of the series to draw."""
        return [pattern for given in self.series for pattern in given.split(",") if pattern]


def trend(text: str) -> NamedSpan:
    """Return the label and range of `--trend LABEL` or `--trend LABEL=FROM:TO`."""
    label, equals, seconds = text.partition("=")
    if not label:
        raise click.BadParameter(f"{text!r} does not name a series; write for example TcpRcv_data=10:60")
    return NamedSpan(label, *_seconds(seconds)) if equals else NamedSpan(label)


def mark(text: str) -> NamedSpan:
    """Return the name and range of `--mark FROM:TO` or `--mark NAME=FROM:TO`."""
    name, _, seconds = text.rpartition("=")
    return NamedSpan(name, *_seconds(seconds))


def length_s(text: str) -> float:
    """Return the duration in the value of `--window`, in seconds."""
    try:
        seconds = float(text)
    except ValueError:
        seconds = math.nan
    if not 0 < seconds <= _LONGEST_S:
        raise click.BadParameter(f"{text} must be a number of seconds above 0 and up to {_LONGEST_S}")
    return seconds


def _seconds(text: str) -> tuple[int, int]:
    try:
        begin, end = (float(number) for number in text.split(":"))
    except ValueError as error:
        raise click.BadParameter(
            f"{text!r} is not an interval; write begin and end in seconds, for example 10:60"
        ) from error
    if not all(math.isfinite(s) and abs(s) <= _MOST_S for s in (begin, end)) or begin >= end:
        raise click.BadParameter(f"{text!r}: the end must be after the begin, and both must be at most 292 years")
    return round(begin * NS_PER_S), round(end * NS_PER_S)
