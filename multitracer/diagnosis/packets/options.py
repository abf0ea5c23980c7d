"""TCP options of the handshake that one end offered and the other end, or the path, did not answer."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from multitracer.analysis.group import has
from multitracer.captured import CaptureMark, Flag
from multitracer.tables import NA

if TYPE_CHECKING:
    from multitracer.recording.places import ConnectionAtPoint
    from multitracer.recording.transfer import Transfer
    from multitracer.tables import Array, Table


class MissingOption(NamedTuple):
    """An option of one SYN that is missing in the answer, or where the SYN arrived."""

    name: str
    """`mss`, `window-scale`, `sack` or `timestamps`."""
    reverse: bool
    """Whose SYN lacks it: False the initiator's, True the responder's."""
    on_the_way: bool
    """Whether captures at both ends show that the path removed it."""


def missing_options(transfer: Transfer) -> list[MissingOption]:
    """Return the options that only one of both SYNs has, or that a SYN lost between both captures.

    It is empty unless both SYNs were captured with all options.
    """
    here = _offered(transfer.at_sender, transfer.sender)
    if here is None:
        return []
    far = transfer.at_receiver
    there = _offered(far, transfer.receiver) if far is not None and transfer.receiver is not None else None
    missing = []
    for name, own in here.items():
        removed = [] if there is None else _removed(transfer, own, there[name])
        missing += [MissingOption(name, reverse, True) for reverse in removed]
        if not removed and own[0] != own[1]:
            missing.append(MissingOption(name, own[0], False))
    return missing


def _removed(transfer: Transfer, at_sender: tuple[bool, bool], at_receiver: tuple[bool, bool]) -> list[bool]:
    """Return whose SYN lost an option between both captures: False the initiator's, True the responder's."""
    lost = []
    for reverse in (False, True):
        left, came = (at_sender, at_receiver) if reverse == transfer.reverse else (at_receiver, at_sender)
        if left[reverse] and not came[reverse]:
            lost.append(reverse)
    return lost


def _offered(place: ConnectionAtPoint, table: Table) -> dict[str, tuple[bool, bool]] | None:
    """Return which options the SYNs of initiator and responder have; None if one was not captured whole."""
    syns = np.flatnonzero(has(table["flags"], Flag.SYN))
    if has(table["marks"][syns], CaptureMark.HEADER_CUT).any():
        return None
    directions = place.capture.analysis.directions
    rows = [2 * place.connection - 2, 2 * place.connection - 1]
    if place.is_turned:
        rows.reverse()
    if not directions["syn"][rows].all():
        return None
    offers: dict[str, Array] = {
        "mss": directions["mss_bytes"][rows] != NA,
        "window-scale": directions["window_scale"][rows] != NA,
        "sack": directions["sack_permitted"][rows],
        "timestamps": directions["timestamps"][rows],
    }
    return {name: (bool(offer[0]), bool(offer[1])) for name, offer in offers.items()}
