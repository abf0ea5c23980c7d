"""Input of commands: their options, and functions that read a recording and select connections."""

from __future__ import annotations

import functools
import re
import signal
import sys
import threading
from contextlib import contextmanager, nullcontext, suppress
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from multitracer.cli import _messages
from multitracer.cli._options import EMPTY_INPUT, common_options, memory_limit
from multitracer.errors import InputError
from multitracer.recording.window import EVERYTHING, Window, WindowEdge, moment_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from contextlib import AbstractContextManager

    from multitracer.cli._progress import ProgressDisplay
    from multitracer.recording.capture import Capture
    from multitracer.recording.inputs import Inputs
    from multitracer.recording.read import Choose, Need
    from multitracer.recording.recording import Recording
    from multitracer.recording.window import Bounds

    Chosen = list[tuple[Capture, list[int] | None]]

_HOST_PORT = r"(?P<host>\[[^\]]*\]|[^:]*):(?P<port>\d{1,5})"
_TOLD = "multitracer.warnings"
"""Key in the context of a command for the warnings that it has shown."""


class ConnectionChoice(NamedTuple):
    """The user's choice of a connection: by number, or by one of its endpoints."""

    number: int | None = None
    host: str = ""
    port: int = 0

    def __str__(self) -> str:
        if self.number is not None:
            return str(self.number)
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


def moment(text: str) -> WindowEdge:
    """Return the time that the value of an option states."""
    try:
        return moment_of(text)
    except InputError as error:
        raise click.BadParameter(str(error)) from error


def connection_choice(text: str) -> ConnectionChoice:
    """Return the choice of a connection that the value of an option states."""
    if re.fullmatch(r"[0-9]{1,9}", text) and int(text) > 0:
        return ConnectionChoice(number=int(text))
    match = re.fullmatch(_HOST_PORT, text)
    if match is None or int(match["port"]) > 65535:
        examples = "10.0.0.1:80 or [fd00::1]:80"
        raise click.BadParameter(
            f"{text!r} must be a connection number from 1, or an endpoint HOST:PORT such as {examples}"
        )
    return ConnectionChoice(host=_address(match["host"].strip("[]")), port=int(match["port"]))


def _address(host: str) -> str:
    import ipaddress

    try:
        return str(ipaddress.ip_address(host.replace("%", " ")))  # a packet carries no zone
    except ValueError as error:
        raise click.BadParameter(
            f"{host!r} is not an IP address, and host names are not resolved; give an IP address"
        ) from error


def zone(text: str) -> str:
    """Return the value of an option that names a time zone."""
    from parsers import zone_of

    try:
        zone_of(text)
    except ValueError as error:
        raise click.BadParameter(str(error)) from error
    return text


def date(text: str) -> str:
    """Return the value of an option that names a date."""
    from parsers import date_of

    try:
        date_of(text)
    except ValueError as error:
        raise click.BadParameter(str(error)) from error
    return text


class InputChoice(NamedTuple):
    """The inputs of a command, and the interval and packets that the user selects."""

    inputs: tuple[str, ...]
    connection: ConnectionChoice | None = None
    window: Window = EVERYTHING
    max_packets: int | None = None

    @property
    def of_folders(self) -> bool:
        """Whether all inputs are folders."""
        return all(Path(name).is_dir() for name in self.inputs)


FORCING = {
    "time_unit": click.option(
        "--time-unit",
        type=click.Choice(["s", "ms", "us", "ns"]),
        help="Read the time stamps of captures (pcap, pcapng) in this unit, whatever the files name. Default: "
        "the unit that the file names, unless its times are impossible.",
    ),
    "decap": click.option(
        "--decap/--no-decap",
        default=True,
        help="Read the packets inside tunnels (GTP-U, VXLAN, Geneve, GRE, ERSPAN, IP in IP, L2TP, Teredo), which is "
        "the default, or count the outer packets as they are.",
    ),
    "keep_duplicates": click.option(
        "--keep-duplicates",
        is_flag=True,
        help="Count packets that were captured more than once each time, as tshark and tcptrace do. Default: copies "
        "are left out of all numbers.",
    ),
    "zone": click.option(
        "--zone",
        type=zone,
        metavar="ZONE",
        help="Time zone of times in logs that name none: UTC, an offset (+01:00), or an IANA name (Europe/Berlin). "
        "Default: the zone in the manifest, else UTC.",
    ),
    "date": click.option(
        "--date",
        type=date,
        metavar="DATE",
        help="Date (2026-11-30) of the first time in logs that name the time of day only; of logs that name month and "
        "day too, the year of the first time. Default: the date in the manifest, else 1970-01-01.",
    ),
    "phone": click.option(
        "--phone",
        metavar="NAME",
        help="Use only the radio of this phone or modem, of several in a session: its host, its log, or its serial "
        "number. Default: all, of which the one with most readings is shown.",
    ),
    "keylog": click.option(
        "--keylog",
        type=click.Path(exists=True, dir_okay=False),
        metavar="FILE",
        help="Open QUIC with the secrets in this key log (SSLKEYLOGFILE), beside those of the session and of pcapng. "
        "They are written nowhere.",
    ),
}
"""Options that say how captures and logs are read, by the name that `parsers.force_reading` knows.

Every command that reads captures has all of them.
"""
_MAX_MEMORY = click.option(
    "--max-memory",
    type=memory_limit,
    metavar="N",
    help="Use at most N bytes of memory (500M, 2G). Default: four fifths of what is free. A command that needs more "
    "ends with an error.",
)
_UNFORCED = {"time_unit": None, "decap": True, "keep_duplicates": False, "zone": None, "date": None, "phone": None,
             "keylog": None}  # fmt: skip
"""The values that force nothing."""


def forces_reading(function: Callable[..., object]) -> Callable[..., object]:
    """Add the options of `FORCING`, and --max-memory, to a command; used as a decorator.

    They hold while the command runs; the command does not get them.
    """

    @functools.wraps(function)
    def command(*arguments: object, **values: object) -> object:
        from parsers import force_reading, limit_memory

        context, most_bytes = click.get_current_context(), values.pop("max_memory")
        assert most_bytes is None or isinstance(most_bytes, int)
        context.with_resource(limit_memory(most_bytes))
        forced = {name: value for name, unforced in _UNFORCED.items() if (value := values.pop(name)) != unforced}
        if forced:
            context.with_resource(force_reading(**forced))
        return function(*arguments, **values)

    for add in reversed((*FORCING.values(), _MAX_MEMORY)):
        command = add(command)
    return command


def reads_captures(function: Callable[..., object]) -> Callable[..., object]:
    """Add the argument INPUT and the reading options to a command; used as a decorator.

    The command gets them as its first argument, an `InputChoice`.
    """

    @functools.wraps(function)
    def command(**values: Any) -> object:
        names = ("inputs", "connection", "begin", "end", "max_packets")
        paths, connection, begin, end, max_packets = (values.pop(name) for name in names)
        if "" in paths:  # here and not in a type of the argument: no function more on the way of each capture
            raise click.BadParameter(EMPTY_INPUT, param_hint="'INPUT...'")
        return function(InputChoice(paths, connection, Window(begin, end), max_packets), **values)

    for add in reversed(_READING_OPTIONS):
        command = add(command)
    return command


_READING_OPTIONS = (
    click.argument("inputs", metavar="INPUT...", nargs=-1, required=True),
    click.option(
        "-c",
        "--connection",
        type=connection_choice,
        metavar="N|HOST:PORT",
        help="Use only this connection: its number (from 1) or one of its endpoints (IPv4:PORT or [IPv6]:PORT).",
    ),
    click.option(
        "--from",
        "begin",
        type=moment,
        metavar="TIME",
        help="Begin of the interval: seconds, or minutes:seconds (2:15), since the first packet (without a capture: "
        "since the first log record), or an ISO 8601 time (UTC if it has no zone).",
    ),
    click.option(
        "--to", "end", type=moment, metavar="TIME", help="End of the interval (exclusive), in the same form as --from."
    ),
    click.option(
        "--max-packets", type=click.IntRange(min=1), metavar="N", help="Stop reading each capture after N packets."
    ),
    forces_reading,
    common_options,
)


# --- reading ---


def load(  # noqa: PLR0913  # each is what one command knows
    reading: InputChoice,
    *,
    inputs: Inputs | None = None,
    output: str | None = None,
    files: str | None = None,
    cut: bool = True,
    stream: bool | None = False,
    need: Need | None = None,
    only: Choose | None = None,
    needs: Callable[[Inputs], Sequence[str]] | None = None,
) -> Recording:
    """Read and analyse the inputs; write warnings about unusable files to standard error.

    Parameters
    ----------
    reading : InputChoice
        Inputs and options.
    inputs : Inputs, optional
        The files of the inputs, if they were already found.
    output : str, optional
        Output of the command; refused if it is one of the input files.
    files : str, optional
        Pattern of the file names in it, if the output is a folder.
    cut : bool
        Analyse only the packets between --from and --to; otherwise all packets are analysed, so that a figure
        of a part uses the packets before it.
    stream : bool, optional
        Keep only open connections in memory; None: if the captures are larger than a share of the memory.
    need : Need, optional
    only : callable, optional
        As for `read`: for a command that does not need all segments.
    needs : callable, optional
        Returns the modules that the command needs afterwards: they are loaded beside large captures.
    """
    from multitracer.recording.inputs import find_inputs
    from multitracer.recording.read import Need, read

    inputs = inputs or find_inputs(*reading.inputs)
    if not inputs.points and not inputs.listed:
        raise InputError(
            f"{inputs.folder}: this folder contains no capture and no log; name a capture or a session folder"
        )
    if output is not None:
        from multitracer.cli._output import check_output

        check_output(output, inputs.paths, files=files)
    if stream is None and (why := inputs.too_large):
        _messages.warn(
            f"{inputs.name}: {why}, so the captures are analysed as a stream (docs/large_captures.md "
            "lists the differences); add --no-stream to load the captures completely"
        )
        stream = True
    limits = None
    interrupted: AbstractContextManager[Callable[[], bool] | None] = nullcontext()
    if stream:
        from multitracer.analysis.streaming import StreamLimits

        limits, interrupted = StreamLimits(), _first_interrupt()
    shown: AbstractContextManager[ProgressDisplay | None] = nullcontext()
    if _messages.chosen.is_progress_wanted:
        from multitracer.cli._progress import progress

        shown = progress(paths=[path for point in inputs.points for path in point.paths])
    with shown as line, interrupted as stop:
        recording = read(
            inputs,
            need=need or Need.SEGMENTS,
            only=only,
            window=reading.window if cut else EVERYTHING,
            max_packets=reading.max_packets,
            progress=line,
            limits=limits,
            stop=stop,
            meanwhile=None if needs is None else partial(_load, needs(inputs)),
        )
    if _messages.chosen.are_details_wanted:
        _tell_details(recording)
    tell_warnings(recording)
    click.get_current_context().call_on_close(partial(tell_warnings, recording))
    return recording


@contextmanager
def _first_interrupt() -> Iterator[Callable[[], bool]]:
    """During the `with` block, catch the first Ctrl-C; a second one interrupts as usual.

    Yield a function that returns whether the first one has come.
    """
    stopped = threading.Event()
    before = signal.getsignal(signal.SIGINT)

    def note(*_: object) -> None:
        stopped.set()
        signal.signal(signal.SIGINT, before)

    signal.signal(signal.SIGINT, note)
    try:
        yield stopped.is_set
    finally:
        signal.signal(signal.SIGINT, before)


def _load(modules: Sequence[str]) -> None:
    with suppress(ImportError):  # who needs it says what is missing
        for module in modules:
            import_module(module)


def _tell_details(recording: Recording) -> None:
    from multitracer import native
    from multitracer.words import count, portable

    _messages.detail(f"captures are read by {native.state()}")
    for file in (file for capture in recording.captures for file in capture.tables.files):
        _messages.detail(f"{portable(file.path)}: {file.format}, {count(file.packets, 'packet')}")
    for log in recording.inputs.listed:
        _messages.detail(f"{portable(log.path)}: {log.format}, {log.layer}, host {log.host}")
    for capture in recording.captures:
        _messages.detail(f"{capture.point.name}: {count(len(capture), 'connection')}")


def tell_warnings(recording: Recording) -> None:
    """Write the warnings of a recording to standard error; equal warnings are written once."""
    printed: set[str] = click.get_current_context().meta.setdefault(_TOLD, set())
    for sentence in recording.warnings:
        if sentence not in printed:
            printed.add(sentence)
            _messages.warn(sentence)


def axis_bounds_ns(
    recording: Recording, reading: InputChoice, capture: Capture | None = None, *, speed: float | None = None
) -> Bounds:
    """Return --from and --to in ns on the time axis of a figure; None where not given.

    Their seconds count from the first packet of `capture`, by default of all captures, in link
    time. Without a packet they count from the first reading.
    """
    captures = recording.captures if capture is None else [capture]
    if all(each.tables.first_ns is None for each in captures):
        return reading.window.bounds_from(recording.radio_context().first_ns or 0)
    return reading.window.axis_bounds_ns(
        (capture.tables for capture in captures), speed=recording.speed if speed is None else speed
    )


def chosen(recording: Recording, choice: ConnectionChoice | None) -> Chosen:
    """Return the numbers of the connections to show for each capture point; None means all connections."""
    if choice is None:
        return [(capture, None) for capture in recording.captures]
    return [(capture, [n]) for capture, n in named_connections(recording, choice)]


def one(recording: Recording, choice: ConnectionChoice | None) -> tuple[Capture, int]:
    """Return capture and number of the connection to draw; by default that with the most unique bytes."""
    if choice is None:
        return recording.chosen(None)
    return max(named_connections(recording, choice), key=lambda each: each[0].analysis.unique_bytes()[each[1] - 1])


def named_connections(recording: Recording, choice: ConnectionChoice) -> list[tuple[Capture, int]]:
    """Return capture and number of each chosen connection.

    A number selects one connection, an endpoint the matching connections at each capture point.
    """
    if choice.number is not None:
        return [recording.numbered(choice.number)]
    return recording.with_endpoint(choice.host, choice.port)


# --- memory of a process with large tables ---

# options of mallopt(3)
_TRIM_THRESHOLD, _MMAP_THRESHOLD, _ARENA_MAX = -1, -3, -8
_OWN_MAPPING_BYTES = 1 << 20
"""Size from which a block of memory is mapped separately, and unmapped when it is freed. By default glibc
raises this to the size freed last, up to 32 MB, and retains twice as much. Not set before a capture was read:
mapping and unmapping its blocks takes twice the system time."""
_LARGEST_MAPPING_BYTES = 32 << 20
"""Highest threshold that glibc accepts (DEFAULT_MMAP_THRESHOLD_MAX, mallopt(3))."""
_NEVER = (1 << 31) - 1  # the most that fits in an int


def keep_memory() -> None:
    """Configure the allocator so that all threads reuse freed memory; call it before threads allocate any.

    A diagnosis makes hundreds of columns of some megabytes, one after the other. By default each of
    them is mapped again, and the kernel must clear its pages.
    """
    _set_malloc(_ARENA_MAX, 1)
    _set_malloc(_MMAP_THRESHOLD, _LARGEST_MAPPING_BYTES)
    _set_malloc(_TRIM_THRESHOLD, _NEVER)


def share_memory() -> None:
    """Let all threads use one memory arena; call it before they allocate memory."""
    import os

    os.environ.setdefault("ARROW_DEFAULT_MEMORY_POOL", "system")  # of 20 MB that were freed mimalloc keeps most
    _set_malloc(_ARENA_MAX, 1)


def return_memory() -> None:
    """Configure the allocator to return large freed blocks to the system."""
    _set_malloc(_MMAP_THRESHOLD, _OWN_MAPPING_BYTES)


def _set_malloc(option: int, value: int) -> None:
    import ctypes

    if sys.platform == "linux" and hasattr(libc := ctypes.CDLL(None), "mallopt"):  # musl has none
        libc.mallopt(option, value)
