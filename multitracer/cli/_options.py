"""Options that several commands share, each described once, and what their values mean."""

from __future__ import annotations

import functools
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import click

from multitracer.errors import InputError
from multitracer.recording.window import EVERYTHING, Moment, Window, moment_of

if TYPE_CHECKING:
    from collections.abc import Callable

_HOST_PORT = re.compile(r"(?P<host>\[[^\]]*\]|[^:]*):(?P<port>\d{1,5})")
_PICTURES = (".png", ".svg", ".pdf", ".jpg", ".jpeg", ".gif", ".webp")


@dataclass(slots=True)
class Settings:
    """What holds for the whole run; the click context's `obj`."""

    debug: bool = False


@dataclass(frozen=True, slots=True)
class ConnectionChoice:
    """Which connection: by its number, or by one of its endpoints."""

    number: int | None = None
    host: str = ""
    port: int = 0

    def __str__(self) -> str:
        if self.number is not None:
            return str(self.number)
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


def moment(text: str) -> Moment:
    """Return the point in time that an option names."""
    try:
        return moment_of(text)
    except InputError as error:
        raise click.BadParameter(str(error)) from error


def connection_choice(text: str) -> ConnectionChoice:
    """Return the connection that an option names."""
    if re.fullmatch(r"[0-9]{1,9}", text) and int(text) > 0:
        return ConnectionChoice(number=int(text))
    match = _HOST_PORT.fullmatch(text)
    if match is None or int(match["port"]) > 65535:
        examples = "10.0.0.1:80 or [fd00::1]:80"
        raise click.BadParameter(f"{text!r} is neither a number from 1 nor HOST:PORT such as {examples}")
    return ConnectionChoice(host=_address(match["host"].strip("[]")), port=int(match["port"]))


def _address(host: str) -> str:
    import ipaddress

    try:
        return str(ipaddress.ip_address(host.replace("%", " ")))  # a packet carries no zone
    except ValueError as error:
        raise click.BadParameter(f"{host!r} is not an IP address; names are not looked up") from error


def target(text: str) -> str:
    """Return the place that -o names."""
    if not text:
        raise click.BadParameter("is empty; name a file or a folder")
    return text


def named(text: str) -> str:
    """Return the place that -o names, of a command that does not write to standard output."""
    if text == "-":
        raise click.BadParameter("this does not go to standard output; name a file or a folder")
    return target(text)


def named_page(text: str) -> str:
    """Return the page that -o names; one named like a picture would open nowhere."""
    if text.lower().endswith(_PICTURES):
        raise click.BadParameter("this writes a page; name it .html, and save a picture from there")
    return named(text)


def _input(text: str) -> str:
    if not text:
        raise click.BadParameter("is empty; name a capture, a session folder, or - for standard input")
    return text


def _set_debug(ctx: click.Context, _: click.Parameter, value: bool) -> None:
    if value:
        ctx.ensure_object(Settings).debug = True


debug_option = click.option(
    "--debug",
    is_flag=True,
    expose_value=False,
    callback=_set_debug,
    help="On an error, show the traceback.",
)


pool_option = click.option(
    "--pool",
    is_flag=True,
    help="Of measured folders: take those that no setting and no label tells apart as one experiment.",
)


def examples(*lines: str) -> str:
    """Return the end of a command's help: example command lines, each on a line of its own."""
    return "\n".join(("\b", "Example:" if len(lines) == 1 else "Examples:", *(f"  {line}" for line in lines)))


@dataclass(frozen=True, slots=True)
class Reading:
    """What a command reads, and which part of it the user wants."""

    inputs: tuple[str, ...]
    connection: ConnectionChoice | None = None
    window: Window = EVERYTHING
    max_packets: int | None = None


def reads_captures(function: Callable[..., Any]) -> Callable[..., Any]:
    """Add INPUT and the options of what to read; the command gets them as its first argument, a `Reading`."""

    @functools.wraps(function)
    def command(**values: Any) -> Any:
        names = ("inputs", "connection", "begin", "end", "max_packets")
        paths, connection, begin, end, max_packets = (values.pop(name) for name in names)
        return function(Reading(paths, connection, Window(begin, end), max_packets), **values)

    for add in reversed(_READING_OPTIONS):
        command = add(command)
    return command


_READING_OPTIONS = (
    click.argument("inputs", type=_input, metavar="INPUT...", nargs=-1, required=True),
    click.option(
        "-c",
        "--connection",
        type=connection_choice,
        metavar="N|HOST:PORT",
        help="Only this connection: its number (from 1), or one of its endpoints ([IPv6]:PORT).",
    ),
    click.option(
        "--from",
        "begin",
        type=moment,
        metavar="TIME",
        help="Begin: seconds since the first packet, or an ISO time (UTC unless it has a zone).",
    ),
    click.option("--to", "end", type=moment, metavar="TIME", help="End, not included."),
    click.option(
        "--max-packets", type=click.IntRange(min=1), metavar="N", help="Stop reading after N packets."
    ),
    debug_option,
)
