"""The bridge to Wireshark's dissectors, for packets that MultiTracer does not decode.

It drives tshark through pyshark, at some hundred packets a second; use it to look, not to measure.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from decimal import Decimal
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from multitracer.errors import CollectorError, FormatError, InputError, MultiTracerError, PreflightError
from multitracer.units import NS_PER_S

if TYPE_CHECKING:
    from collections.abc import Iterator


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
) -> Iterator[WiresharkPacket]:
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
    capture = pyshark.FileCapture(absolute, display_filter=display_filter, keep_packets=False)
    try:
        yield from (_dissected(packet) for packet in islice(capture, max_packets))
        capture.close()
    except pyshark.tshark.tshark.TSharkNotFoundException as error:
        raise PreflightError("tshark is not installed; run sudo apt-get install tshark") from error
    except pyshark.capture.capture.TSharkCrashException as error:
        capture._running_processes.clear()  # or its destructor raises the same once more
        raise _failure(path, display_filter, str(error)) from error


def _pyshark() -> Any:
    try:
        import pyshark  # noqa: PLC0415  # half a second, and an optional package
    except ImportError as error:
        raise PreflightError("pyshark is not installed; run pip install 'multitracer[wireshark]'") from error
    return pyshark


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
