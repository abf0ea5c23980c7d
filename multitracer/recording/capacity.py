"""The capacity of a recorded link: what one direction delivered, by the capture at its receiver."""

from __future__ import annotations

import socket
from typing import TYPE_CHECKING

from multitracer.analysis.link_capacity import Delivered, delivered_to
from multitracer.errors import InputError
from multitracer.recording.views import view_of
from multitracer.tcp import Vantage

if TYPE_CHECKING:
    from multitracer.recording.part import Part
    from multitracer.recording.recording import Recording

_ADDRESS_BYTES = 16
"""Width of an address in FLOWS."""


def recorded_capacity(
    recording: Recording, part: Part, connection: int, *, reverse: bool | None = None
) -> Delivered:
    """Return what a link delivered to the receiver of a connection's data, other connections included.

    Parameters
    ----------
    recording : Recording
    part, connection : Part, int
        The connection, as numbered in that part.
    reverse : bool, optional
        Whose data: False the initiator's, True the responder's; by default of whoever sent more bytes.

    Raises
    ------
    InputError
        If there is a capture at the sender only, or too little arrived.
    """
    view = view_of(recording, part, connection, reverse=reverse)
    place = view.receiver or view.sender
    if view.receiver is None and place.vantage is Vantage.NEAR_SENDER:
        raise InputError(
            f"{place.host}: captured at the data's sender, where what the link delivered is not seen; "
            "give the receiver's capture"
        )
    host = place.ends[1]
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    address = socket.inet_pton(family, host).ljust(_ADDRESS_BYTES, b"\0")
    return delivered_to(place.part.capture, address, speed=recording.speed)
