"""One class for each segment: the bits of `kind`, reduced to exactly one `SegmentClass`."""

from __future__ import annotations

from enum import IntEnum
from typing import TYPE_CHECKING

import numpy as np

from multitracer.analysis.group import SegmentKind, has
from multitracer.captured import Flag

if TYPE_CHECKING:
    from collections.abc import Mapping

    from multitracer.tables import Array, Table


class SegmentClass(IntEnum):
    """Class of a segment; if several definitions apply, the last one in this list is used."""

    ACK = 0
    DUPLICATE_ACK = 1
    WINDOW_UPDATE = 2
    DATA = 3
    FIN = 4
    SYN = 5
    RST = 6
    OUT_OF_ORDER = 7
    KEEP_ALIVE = 8
    ZERO_WINDOW_PROBE = 9
    RETRANSMISSION = 10
    """At least one of its sequence numbers was sent before, SYN and FIN included."""
    CAPTURE_DUPLICATE = 11

    @property
    def word(self) -> str:
        """The name of the class in files, for example `zero-window-probe`."""
        return self.name.lower().replace("_", "-")


def classify(segments: Mapping[str, Array] | Table, *, at_sender: tuple[bool, bool] | tuple[Array, Array]) -> Array:
    """Return the SegmentClass of each segment.

    Parameters
    ----------
    segments : Table or mapping of str to ndarray, each of shape (n_segments,)
        The columns flags, kind, reverse and payload_bytes of TCP_SEGMENTS.
    at_sender : tuple of bool, or of ndarray of bool, shape (n_segments,)
        Whether the capture was made at the sender of the initiator's data, and of the responder's; arrays if
        the segments belong to several connections. At the sender, a segment that fills a hole is a
        retransmission, because no segment leaves a sender out of order.

    Returns
    -------
    ndarray of uint8, shape (n_segments,)
    """
    flags, kind = segments["flags"], segments["kind"]
    classes = np.full(len(flags), SegmentClass.ACK, dtype=np.uint8)
    fills = (kind & np.uint32(SegmentKind.OUT_OF_ORDER)) != 0
    resent = fills & np.where(segments["reverse"], at_sender[1], at_sender[0])
    resent |= (kind & np.uint32(SegmentKind.RETRANSMISSION)) != 0
    for word, mask in (
        (SegmentClass.DUPLICATE_ACK, (kind & np.uint32(SegmentKind.DUPLICATE_ACK)) != 0),
        (SegmentClass.WINDOW_UPDATE, (kind & np.uint32(SegmentKind.WINDOW_UPDATE)) != 0),
        (SegmentClass.DATA, segments["payload_bytes"] > 0),
        (SegmentClass.FIN, has(flags, Flag.FIN)),
        (SegmentClass.SYN, has(flags, Flag.SYN)),
        (SegmentClass.RST, has(flags, Flag.RST)),
        (SegmentClass.OUT_OF_ORDER, fills),
        (SegmentClass.KEEP_ALIVE, (kind & np.uint32(SegmentKind.KEEP_ALIVE)) != 0),
        (SegmentClass.ZERO_WINDOW_PROBE, (kind & np.uint32(SegmentKind.ZERO_WINDOW_PROBE)) != 0),
        (SegmentClass.RETRANSMISSION, resent),
        (SegmentClass.CAPTURE_DUPLICATE, (kind & np.uint32(SegmentKind.CAPTURE_DUPLICATE)) != 0),
    ):
        classes[mask] = word
    return classes
