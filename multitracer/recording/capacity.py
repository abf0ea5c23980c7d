"""The capacity of a recorded link: what one direction delivered, or what a map predicts for its radio."""

from __future__ import annotations

import socket
from typing import TYPE_CHECKING

import numpy as np

from multitracer.analysis.link_capacity import DeliveredCapacity, Mapped, capacity_by_map, delivered_to, parse_map
from multitracer.errors import InputError
from multitracer.recording.places import places_of
from multitracer.schemas.tcp import Vantage
from parsers._stream import small_text

if TYPE_CHECKING:
    from pathlib import Path

    from multitracer.recording.capture import Capture
    from multitracer.recording.recording import Recording

_ADDRESS_BYTES = 16
"""Width of the address columns of FLOWS, in bytes."""


def recorded_capacity(
    recording: Recording, capture: Capture, connection: int, *, reverse: bool | None = None
) -> DeliveredCapacity:
    """Return what a link delivered to the receiver of a connection, including the data of other connections.

    Parameters
    ----------
    recording : Recording
    capture, connection : Capture, int
        The connection, as numbered in that capture.
    reverse : bool, optional
        Whose data: False the initiator's, True the responder's; by default of whoever sent more bytes.

    Raises
    ------
    InputError
        If there is a capture at the sender only, or too little arrived.
    """
    sender, receiver = places_of(recording, capture, connection, reverse=reverse)
    place = receiver or sender
    if receiver is None and place.vantage is Vantage.NEAR_SENDER:
        raise InputError(
            f"{place.host}: this capture was recorded at the sender of the data, and does not show "
            "what the link delivered; give the capture of the receiver"
        )
    host = place.ends[1]
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    address = socket.inet_pton(family, host).ljust(_ADDRESS_BYTES, b"\0")
    return delivered_to(place.capture.tables, address, speed=recording.speed)


def mapped_capacity(recording: Recording, path: Path, *, busy_percent: float) -> Mapped:
    """Return the capacity that a map predicts for the radio readings of a drive.

    Parameters
    ----------
    recording : Recording
    path : Path
        A JSON file with the map.
    busy_percent : float
        Percentage of the cell that other users take, where the modem does not report it.

    Raises
    ------
    InputError
        If the file cannot be read, or no radio log holds an SINR.
    FormatError
        If the file holds no map.
    """
    by = parse_map(small_text(path), path=str(path))
    tables = [table for _, table in recording.tables("radio", "radio")]
    if not tables:
        raise InputError(f"{recording.name}: this recording contains no radio log; name a recording with a radio log")
    best = max(tables, key=lambda table: int(np.isfinite(table["sinr_db"]).sum()))
    return capacity_by_map(best, by, busy_percent=busy_percent)
