"""Options that several commands share, each described once, and what their values mean."""

from __future__ import annotations

import functools
import math
import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import click

from multitracer.units import NS_PER_S, NS_PER_US

if TYPE_CHECKING:
    from collections.abc import Callable

_FRACTION = re.compile(r"(?P<whole>.*:\d\d)[.,](?P<digits>\d+)(?P<zone>.*)")
_HOST_PORT = re.compile(r"(?P<host>\[[^\]]*\]|[^:]*):(?P<port>\d{1,5})")
_PICTURES = (".png", ".svg", ".pdf", ".jpg", ".jpeg", ".gif", ".webp")
_LAST_NS = 2**63 - 1
"""What the times of a capture are counted in ends here, in the year 2262."""
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(slots=True)
class Settings:
    """What holds for the whole run; the click context's `obj`."""

    debug: bool = False


@dataclass(frozen=True, slots=True)
class Moment:
    """A point in time as the user gave it."""

    ns: int
    relative: bool
    """Counted from the first packet of the whole recording, not from 1970."""

    def absolute_ns(self, start_ns: int, *, speed: float = 1) -> int:
        """Return nanoseconds since 1970, given those of the first packet and the link's speed."""
        if not self.relative:
            return self.ns
        since = self.ns if speed == 1 else round(self.ns / speed)
        return max(-_LAST_NS, min(start_ns + since, _LAST_NS))


@dataclass(frozen=True, slots=True)
class Window:
    """A stretch of time, open where it is None."""

    begin: Moment | None = None
    end: Moment | None = None

    def bounds_ns(self, start_ns: int, *, speed: float = 1) -> tuple[int | None, int | None]:
        """Return begin and end in nanoseconds since 1970, given those of the first packet.

        Seconds are those of the link, `speed` of them to a recorded one.
        """
        begin_ns, end_ns = (
            m.absolute_ns(start_ns, speed=speed) if m else None for m in (self.begin, self.end)
        )
        if begin_ns is not None and end_ns is not None and begin_ns >= end_ns:
            raise click.BadParameter("the end (--to) is not after the begin (--from)", param_hint="'--to'")
        return begin_ns, end_ns


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
        seconds = float(text)
    except ValueError:
        found = Moment(_iso_ns(text), relative=False)
    else:
        if not math.isfinite(seconds):
            raise click.BadParameter(f"{text} is not a number of seconds")
        found = Moment(round(min(abs(seconds), _LAST_NS) * math.copysign(NS_PER_S, seconds)), relative=True)
    if abs(found.ns) > _LAST_NS:
        raise click.BadParameter(f"{text} is too far away; times end 292 years from their origin")
    return found


def _iso_ns(text: str) -> int:
    """Return nanoseconds since 1970 of an ISO 8601 time; without a zone it is UTC."""
    match = _FRACTION.fullmatch(text)
    digits = match["digits"] if match else ""
    try:
        time = datetime.fromisoformat(match["whole"] + match["zone"] if match else text)
    except ValueError as error:
        example = "2026-11-20T10:15:00.5"
        raise click.BadParameter(f"{text!r} is neither seconds nor a time such as {example}") from error
    if time.tzinfo is None:
        time = time.replace(tzinfo=UTC)
    microseconds = (time - _EPOCH) // timedelta(microseconds=1)
    return microseconds * NS_PER_US + int(digits[:9].ljust(9, "0"))


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
    connection: ConnectionChoice | None
    window: Window
    max_packets: int | None


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
