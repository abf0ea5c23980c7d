"""What tunnels a block of packets showed, and how much TCP was inside them."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from multitracer.captured import Tunnel
from parsers._forced import FORCED

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from multitracer.captured import SourceFile
    from multitracer.tables import Numbers

    Words = NDArray[np.uint64]

_MOST_KNOWN = 10_000
"""Maximum number of pairs of ends, and of identifiers, that are told apart for each kind of tunnel, so that a
hostile capture cannot fill the memory: a core network's capture has some hundred. Not measured."""


class SeenTunnel(NamedTuple):
    """Packets of one kind of tunnel in a block; arrays of shape (n,)."""

    name: str
    record: Numbers
    """Index of each packet's record in the block."""
    source: tuple[Words, Words] | None = None
    """Both halves of the outer address; None for a tunnel below IP."""
    destination: tuple[Words, Words] | None = None
    identifier: Numbers | None = None
    """Number of the tunnel, such as a TEID, a VNI or a mux id; None if this kind has none."""
    unread: int = 0
    """Further packets in the same frames, which are not read."""


def tunnels_are_closed() -> bool:
    """Return whether packets of tunnels are counted as they are (--no-decap), and not read inside."""
    return bool(FORCED) and FORCED[-1].get("decap") is False


def note_tunnels(source: SourceFile, seen: list[SeenTunnel], tcp: Numbers) -> None:
    """Add the tunnels of a block to the facts of its file; `tcp` are the records with a TCP segment."""
    for each in seen:
        tunnel = source.tunnels.setdefault(each.name, Tunnel())
        tunnel.packets += len(each.record)
        tunnel.tcp_packets += int(np.count_nonzero(np.isin(each.record, tcp)))
        tunnel.unread_packets += each.unread
        if each.identifier is not None and len(tunnel.identifiers) < _MOST_KNOWN:
            tunnel.identifiers.update(np.unique(each.identifier)[:_MOST_KNOWN].tolist())
        if each.source is not None and each.destination is not None and len(tunnel.ends) < _MOST_KNOWN:
            columns = np.stack([*each.source, *each.destination]).astype(np.uint64)
            for a_high, a_low, b_high, b_low in np.unique(columns, axis=1).T[:_MOST_KNOWN].tolist():
                one, two = (a_high, a_low), (b_high, b_low)
                tunnel.ends.add((min(one, two), max(one, two)))
