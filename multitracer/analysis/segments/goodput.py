"""Goodput of each direction, and the reason where it is not known.

Goodput is new payload divided by the time between the first and the last delivery. A delivery is an ACK of
new payload or, if the capture was made near the receiver, the arrival of new payload. The payload of the
first delivery is not counted, because the begin of its transfer is not known. Send times show nothing about
goodput: on any link a sender passes its first window to the network within a millisecond.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from multitracer.analysis.group import has
from multitracer.captured import Flag
from multitracer.schemas.tcp import GoodputBy, Vantage
from multitracer.tables import NOT_A_TIME
from multitracer.units import NS_PER_S

if TYPE_CHECKING:
    from multitracer.analysis.segments.examination import Examination
    from multitracer.capture import CaptureTables
    from multitracer.tables import Array

COLUMNS = ("goodput_bytes_per_s", "goodput_ns")


class Moments(NamedTuple):
    """Deliveries of data, direction after direction, in capture order."""

    direction: Array
    position: Array
    new_bytes: Array
    """Payload bytes delivered at that moment; the value of a direction's first delivery is not used."""


class DeliveryBounds(NamedTuple):
    """Times of the first and the last delivery of directions; int64, shape (n,)."""

    first_ns: Array
    last_ns: Array
    carried_bytes: Array
    """Payload bytes delivered after the first delivery."""


def put_goodput(examination: Examination, rows: dict[str, Array], capture: CaptureTables) -> None:
    """Write the goodput, its time span and its method into the rows of a group, in place.

    Parameters
    ----------
    examination : Examination
    rows : dict of str to ndarray, each of shape (n_directions_of_group,)
        The rows of the group in the columns of DIRECTIONS.
    capture : CaptureTables
    """
    sends = np.bincount(_senders(examination), minlength=examination.group.directions) > 0
    arrived = sends & (rows["vantage"] == Vantage.NEAR_RECEIVER)
    for chosen, by, moments in (
        (arrived, GoodputBy.ARRIVED, _arrivals),
        (sends & ~arrived, GoodputBy.ACKNOWLEDGED, _acknowledged),
    ):
        if chosen.any():
            rows["goodput_by"][chosen] = GoodputBy.NOTHING_CAME_THROUGH
            _put_rates(_timed(moments(examination), chosen, examination, capture), rows, by, examination, capture)


def moments_by(examination: Examination, by: GoodputBy) -> Moments:
    """Return the deliveries of each direction, found by the method `by`: arrivals, or ACKs of new data."""
    return _arrivals(examination) if by is GoodputBy.ARRIVED else _acknowledged(examination)


def _senders(examination: Examination) -> Array:
    return examination.group.direction_of(np.flatnonzero(examination.group.payload))


def _arrivals(examination: Examination) -> Moments:
    new = new_bytes(examination)
    position = np.flatnonzero(new > 0)
    return Moments(examination.group.direction_of(position), position, new[position])


def new_bytes(examination: Examination) -> Array:
    """Return for each segment the number of payload bytes that no earlier segment carried.

    Returns
    -------
    ndarray of int32, bytes, shape (n_segments,)
        At least 0, in the order of the group.
    """
    coverage, chunks = examination.coverage, examination.axis.chunks
    new = examination.group.payload.copy()
    new[chunks.position[coverage.late]] -= coverage.old_payload.astype(np.int32)
    new[np.setdiff1d(examination.probes, chunks.position, assume_unique=True)] = 0
    return new


def _acknowledged(examination: Examination) -> Moments:
    """Return the ACKs that acknowledge new payload as deliveries; SYN and FIN do not count as payload."""
    acks = examination.axis.acks
    begin, end = _payload_range(examination)
    direction = acks.direction[acks.advancing]
    value = np.clip(acks.highest[acks.advancing], begin[direction], end[direction])
    new = np.diff(value, prepend=value[:1])
    first = np.flatnonzero(np.diff(direction, prepend=-1))
    new[first] = value[first] - begin[direction[first]]
    advancing = np.flatnonzero(new > 0)
    return Moments(direction[advancing], acks.position[acks.advancing][advancing], new[advancing])


def _payload_range(examination: Examination) -> tuple[Array, Array]:
    """Return begin and end of each direction's payload on the axis; an empty range without payload."""
    group, chunks = examination.group, examination.axis.chunks
    carries = np.flatnonzero(group.payload[chunks.position] > 0)
    position, owner = chunks.position[carries], group.direction_of(chunks.position[carries])
    begin, end = np.full(group.directions, np.iinfo(np.int64).max), np.zeros(group.directions, dtype=np.int64)
    flags = group.flags[position]
    np.minimum.at(begin, owner, chunks.start[carries] + has(flags, Flag.SYN))
    np.maximum.at(end, owner, chunks.end[carries] - has(flags, Flag.FIN))
    return np.minimum(begin, end), end


def _timed(moments: Moments, chosen: Array, examination: Examination, capture: CaptureTables) -> Moments:
    """Return the deliveries of the directions in `chosen` whose segment has a capture time."""
    time_ns = capture.segments["time_ns"][examination.group.rows[moments.position]]
    kept = chosen[moments.direction] & (time_ns != NOT_A_TIME)
    return Moments(*(column[kept] for column in moments))


def _put_rates(
    moments: Moments, rows: dict[str, Array], by: GoodputBy, examination: Examination, capture: CaptureTables
) -> None:
    direction = moments.direction
    first = np.flatnonzero(np.diff(direction, prepend=-1))
    if not len(first):
        return
    last = np.append(first[1:], len(direction)) - 1
    time_ns = capture.segments["time_ns"]
    begin, end = (time_ns[examination.group.rows[moments.position[each]]] for each in (first, last))
    carried = np.add.reduceat(moments.new_bytes.astype(np.int64), first) - moments.new_bytes[first]
    put_rates(rows, direction[first], by, DeliveryBounds(begin, end, carried))


def put_rates(rows: dict[str, Array], there: Array, by: GoodputBy, delivered: DeliveryBounds) -> None:
    """Write the goodput of directions with deliveries, in place.

    Parameters
    ----------
    rows : dict of str to ndarray, each of shape (n_directions,)
        Columns of DIRECTIONS.
    there : ndarray of int64, shape (n,)
        The directions.
    by : GoodputBy
    delivered : DeliveryBounds
    """
    begin, end, carried = delivered
    rows["goodput_by"][there] = GoodputBy.ONE_MOMENT
    lasting = np.flatnonzero(end > begin)
    rows["goodput_by"][there[lasting]] = by
    rows["goodput_ns"][there[lasting]] = (end - begin)[lasting]
    rows["goodput_bytes_per_s"][there[lasting]] = carried[lasting] * float(NS_PER_S) / (end - begin)[lasting]
