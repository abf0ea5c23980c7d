"""The bridge to Wireshark's dissectors, for packets that MultiTracer does not decode.

It drives tshark through pyshark, at some hundred packets a second; use it to look, not to measure.
"""

from __future__ import annotations

import os
import signal
import threading
from contextlib import suppress
from dataclasses import dataclass, replace
from decimal import Decimal
from itertools import chain, islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from multitracer.captured import SourceFile
from multitracer.errors import (
    CollectorError,
    FormatError,
    InputError,
    MultiTracerError,
    PreflightError,
    UnknownFormatError,
)
from multitracer.tables import NOT_A_TIME
from multitracer.units import NS_PER_S
from parsers._capture.time_unit import forced_tick_ns
from parsers._ip_packets import read_records
from parsers._packets.tunnels_seen import tunnels_are_closed

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator

_TUNNELS = ("gtp", "vxlan", "geneve", "gre", "l2tp", "teredo")
"""Wireshark's names of the tunnels that --no-decap leaves closed; IP in IP is no protocol of its own there."""
_OPEN: set[int] = set()
"""Identities of the dissections that run: they share an event loop."""


@dataclass(frozen=True, slots=True)
class WiresharkPacket:
    """Wireshark's description of one packet."""

    frame: int
    """Packet number in its file, from 1."""
    time_ns: int
    """Nanoseconds since 1970 UTC."""
    protocols: tuple[str, ...]
    """Protocol names from the link upwards, for example ("eth", "ip", "udp", "dns")."""
    fields: dict[str, str]
    """Fields of the highest layer, named as display filters name them, with their shown values."""


def dissect(
    path: str | os.PathLike[str], *, display_filter: str | None = None, max_packets: int = 1000
) -> Generator[WiresharkPacket, None, None]:
    """Yield Wireshark's description of each packet of a capture.

    Parameters
    ----------
    path : path
        A capture that tshark can open.
    display_filter : str, optional
        Only packets that match, for example ``"dns"``; wireshark-filter(4).
    max_packets : int
        Stop after this many matching packets.

    Raises
    ------
    PreflightError
        If pyshark or tshark is not installed.
    InputError
        If the file is not there or the filter cannot be used.
    FormatError
        If Wireshark does not know the file's format.
    CollectorError
        If tshark fails on the file otherwise.
    """
    if not Path(path).is_file():
        raise InputError(f"{os.fspath(path)}: file not found; name one capture")
    pyshark = _pyshark()
    # An absolute path cannot be taken for an option.
    absolute = str(Path(path).absolute())
    own = _own_times(path)
    options = list(chain.from_iterable(("--disable-protocol", name) for name in _TUNNELS if tunnels_are_closed()))
    capture = pyshark.FileCapture(
        absolute, display_filter=display_filter, keep_packets=False, custom_parameters=options or None
    )
    _OPEN.add(id(capture))
    started: list[Any] = []
    try:
        before = 0
        for packet in map(_dissected, islice(capture, max_packets)):
            time_ns = None if own is None else next(islice(own, packet.frame - before - 1, None), None)
            before = packet.frame
            yield packet if time_ns in (None, NOT_A_TIME) else replace(packet, time_ns=time_ns)
        started = list(capture._running_processes)
        capture.close()
    except pyshark.tshark.tshark.TSharkNotFoundException as error:
        raise PreflightError("tshark is not installed; run sudo apt-get install tshark") from error
    except pyshark.capture.capture.TSharkCrashException as error:
        started = started or list(capture._running_processes)
        capture._running_processes.clear()  # or its destructor raises the same once more
        raise _failure(path, display_filter, str(error)) from error
    finally:
        _end(capture, started or list(capture._running_processes))


def _end(capture: Any, started: list[Any]) -> None:
    """End tshark, and close what pyshark leaves open: its pipes, and the signal handler of its event loop.

    With that handler each process that ends later writes to a pipe that nobody reads, until it is full.
    """
    import asyncio  # noqa: PLC0415  # 30 ms; pyshark has imported it

    with suppress(_pyshark().capture.capture.TSharkCrashException):  # it was told, or nobody reads on
        capture.close()
    for process in started:
        process._transport.close()
    capture.eventloop.run_until_complete(asyncio.sleep(0))
    _OPEN.discard(id(capture))
    if os.name == "posix" and not _OPEN and threading.current_thread() is threading.main_thread():
        capture.eventloop.remove_signal_handler(signal.SIGCHLD)


def _pyshark() -> Any:
    try:
        import pyshark  # noqa: PLC0415  # half a second, and an optional package
    except ImportError as error:
        raise PreflightError("pyshark is not installed; run pip install 'multitracer[wireshark]'") from error
    return pyshark


def _own_times(path: str | os.PathLike[str]) -> Iterator[int] | None:
    """Return the times of a capture's packets as MultiTracer reads them, ns since 1970; None if Wireshark's hold.

    Raises
    ------
    InputError, UnknownFormatError, FormatError
        If a unit of time is forced, and the file is neither pcap nor pcapng.
    """
    source = SourceFile(os.fspath(path), "")
    blocks = read_records(path, source)
    is_forced = forced_tick_ns() is not None
    try:
        first = next(blocks, None)
    except (InputError, UnknownFormatError, FormatError):
        if is_forced:
            raise
        return None  # Wireshark reads more formats
    if first is None or not (is_forced or source.guessed_unit):
        return None
    return chain(first.time_ns.tolist(), chain.from_iterable(block.time_ns.tolist() for block in blocks))


def _dissected(packet: Any) -> WiresharkPacket:
    highest = packet.layers[-1] if packet.layers else None
    fields = {str(name): str(highest.get_field(name)) for name in highest.field_names} if highest else {}
    return WiresharkPacket(
        frame=int(packet.frame_info.number),
        time_ns=int(Decimal(packet.sniff_timestamp) * NS_PER_S),
        protocols=tuple(packet.frame_info.protocols.split(":")),
        fields=fields,
    )


def _failure(path: str | os.PathLike[str], display_filter: str | None, words: str) -> MultiTracerError:
    error = words.partition("Last error line: ")[2].partition("Try rerunning")[0].strip()
    if "isn't a capture file" in error:
        return FormatError(
            os.fspath(path),
            "Wireshark cannot read the format of this file; `multitracer formats` lists the formats of MultiTracer",
            offset=0,
        )
    if display_filter is not None:
        return InputError(f"{display_filter!r} is not a valid Wireshark display filter; correct the filter")
    return CollectorError(f"{os.fspath(path)}: tshark cannot dissect this capture: {error}")
