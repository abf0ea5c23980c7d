"""The columns of DIRECTIONS: one row for each direction, from the data of its segments.

A capture may have a million connections of one segment (a SYN flood, a scan). Therefore values of 0 are not
written: untouched zero pages cost no memory. A column without any known value is one repeated number until
`own` allocates it.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

import numpy as np

from multitracer.analysis.group import groups, has
from multitracer.analysis.intervals import reduce_groups
from multitracer.analysis.segments import goodput
from multitracer.analysis.segments.acknowledgments import max_flight
from multitracer.analysis.segments.examination import examine
from multitracer.analysis.segments.probes import window_is_closed
from multitracer.analysis.segments.stamp_spread import FEWEST_STAMPS, stamps_of, vantage_by_stamps
from multitracer.analysis.segments.untranslated import FEWEST, firsts, with_growing_dsacks
from multitracer.analysis.segments.window_scale import put_window_shift
from multitracer.captured import CaptureMark, Flag
from multitracer.schemas.tcp import DIRECTIONS, RoundTrips, Vantage
from multitracer.tables import NA, NOT_A_TIME, Table, between_ns
from multitracer.units import NS_PER_MS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from multitracer.analysis.connections import Partition
    from multitracer.analysis.segments.examination import Examination
    from multitracer.capture import CaptureTables
    from multitracer.tables import Array

_AT_ONCE_NS = NS_PER_MS
VANTAGE_SHARE = 0.1
"""Maximum share of the round trip between an endpoint and the capture point for a capture near that endpoint."""
_FROM_THE_OTHER_SIDE = np.array([each.opposite for each in Vantage], dtype=np.uint8)


OF_PAYLOAD = ("first_payload_ns", "last_payload_ns")
OF_ROUND_TRIPS = ("rtt_min_ns", "rtt_mean_ns", "rtt_p50_ns", "rtt_p95_ns", "rtt_max_ns")
OF_SYN = ("mss_bytes", "window_scale")


def blank(directions: int) -> dict[str, Array]:
    """Return the columns of DIRECTIONS with every value missing.

    Returns
    -------
    dict of str to ndarray, each of shape (directions,), dtype of its column
        NA where the column can be NA, else 0. Columns of NA are read-only.
    """
    shape = (directions,)
    return {
        name: np.ndarray(shape, dtype, missing, strides=(0,)) if missing else np.zeros(shape, dtype)
        for name, dtype, missing in _missing()
    }


@cache
def _missing() -> list[tuple[str, np.dtype[np.generic], bytes]]:
    """Return name, dtype and NA (as bytes) of each column of DIRECTIONS.

    The bytes are empty if the column cannot be NA.
    """
    columns = []
    for column in DIRECTIONS:
        is_time = column.unit.startswith("ns") and column.dtype == "int64"
        value = NOT_A_TIME if is_time else NA if column.na else np.nan
        can_be = is_time or column.na or column.dtype.startswith("float")
        missing = np.array([value] if can_be else [], column.dtype)
        columns.append((column.name, missing.dtype, missing.tobytes()))
    return columns


def own(columns: dict[str, Array], *names: str) -> None:
    """Make the named columns writable, in place.

    Before, a column without values is one repeated number (see the module docstring).
    """
    for name in names:
        if not columns[name].flags.writeable:
            columns[name] = columns[name].copy()


def put(column: Array, values: Array) -> None:
    """Copy `values` into `column`, which contains only zeros; zeros are not written, to save memory."""
    (there,) = values.nonzero()
    column[there] = values[there]


def count_groups(
    columns: dict[str, Array], acknowledged: Array, capture: CaptureTables, parts: Partition
) -> Iterator[Examination]:
    """Write the statistics of each direction, and whether its beginning was acknowledged, in place.

    This function is used for a capture, for the closed connections of a stream, and for aggregated connections.

    Parameters
    ----------
    columns : dict of str to ndarray, each of shape (n_directions,)
        The columns of DIRECTIONS, as returned by `blank` and filled by `announce`.
    acknowledged : ndarray of bool, shape (n_directions,)
    capture : CaptureTables
    parts : Partition

    Yields
    ------
    Examination
        The results for the segments of a group of connections that were counted.
    """
    for group in groups(capture, parts):
        examination = examine(group, capture)
        summarise(examination, columns, capture)
        acknowledged[group.first_direction :][: group.directions] = beginning_acknowledged(examination)
        yield examination


def summarise(examination: Examination, columns: dict[str, Array], capture: CaptureTables) -> None:
    """Write the statistics of each direction of the examined group into its row of `columns`, in place.

    Parameters
    ----------
    examination : Examination
    columns : dict of str to ndarray, each of shape (n_directions,)
        The columns of DIRECTIONS for all directions of the capture, as returned by `blank`.
    capture : CaptureTables
    """
    first = examination.group.first_direction
    own(columns, "first_ns", "last_ns")
    if examination.group.payload.any():
        own(columns, *OF_PAYLOAD, *goodput.COLUMNS)
    if len(examination.samples.direction):
        own(columns, *OF_ROUND_TRIPS)
    rows = {name: values[first : first + examination.group.directions] for name, values in columns.items()}
    _sent(examination, rows, capture)
    _retransmissions(examination, rows)
    put_window_shift(examination, rows, capture)
    _acknowledgments(examination, rows)
    _round_trips(examination, rows, capture)
    put_vantage(rows)
    _vantage_by_stamps(examination, rows, capture)
    put_absent_round_trips(np.diff(examination.axis.acks.bounds) > 0, rows)
    goodput.put_goodput(examination, rows, capture)


def _sent(examination: Examination, rows: dict[str, Array], capture: CaptureTables) -> None:
    group = examination.group
    put(rows["packets"], np.diff(group.bounds))
    put(rows["payload_bytes"], reduce_groups(np.add, group.payload, group.bounds, empty=0))
    with_payload = np.flatnonzero(group.payload)
    bounds = np.searchsorted(with_payload, group.bounds)
    put(rows["data_segments"], np.diff(bounds))
    if len(with_payload):
        _first_and_last(rows, "payload_ns", capture, group.rows[with_payload], bounds)
    _first_and_last(rows, "ns", capture, group.rows, group.bounds)
    for name, flag in (("syn", Flag.SYN), ("fin", Flag.FIN), ("rst", Flag.RST)):
        put(rows[name], group.count(group.special[has(group.flags[group.special], flag)]))


def _first_and_last(rows: dict[str, Array], name: str, capture: CaptureTables, captured: Array, bounds: Array) -> None:
    """Write the earliest and the latest time of each direction's segments, in place.

    These need not be the first and the last segment, since clocks may step backwards.
    """
    time_ns = capture.segments["time_ns"]
    if any(file.without_time for file in capture.files):
        timed = np.flatnonzero(time_ns[captured] != NOT_A_TIME)
        captured, bounds = captured[timed], np.searchsorted(timed, bounds)
    there = np.flatnonzero(np.diff(bounds))
    times, begins = time_ns[captured], bounds[:-1][there]
    if len(there):
        rows[f"first_{name}"][there] = np.minimum.reduceat(times, begins)
        rows[f"last_{name}"][there] = np.maximum.reduceat(times, begins)


def _retransmissions(examination: Examination, rows: dict[str, Array]) -> None:
    """Write the counts of retransmissions, and the bytes that were sent at least once, in place."""
    group, coverage, chunks = examination.group, examination.coverage, examination.axis.chunks
    refused = np.setdiff1d(examination.probes, chunks.position, assume_unique=True)
    put(rows["unique_bytes"], rows["payload_bytes"] - group.count(refused))
    put(rows["zero_window_probes"], group.count(examination.probes))
    position = chunks.position[coverage.late]
    owner = group.direction_of(position)
    repeats, old = examination.repeats_late, coverage.old_payload
    np.subtract.at(rows["unique_bytes"], owner, old)
    units = chunks.end[coverage.late] - chunks.start[coverage.late]
    np.add.at(rows["retransmitted_bytes"], owner[repeats], (units - coverage.new)[repeats])
    for name, chosen in (
        ("retransmitted_segments", repeats),
        ("partial_retransmissions", repeats & (coverage.new > 0)),
        ("out_of_order", examination.fills_late),
        ("capture_duplicates", examination.twice_late),
        ("keep_alives", examination.alive_late),
    ):
        put(rows[name], np.bincount(owner[chosen], minlength=group.directions))
    _empty_probes(examination, rows)


def _empty_probes(examination: Examination, rows: dict[str, Array]) -> None:
    """Count probes without payload, in place: window probes if the window is closed, else keep-alives."""
    closed = window_is_closed(examination.group, examination.empty_alive) if len(examination.closed) else np.False_
    probing = np.broadcast_to(closed, examination.empty_alive.shape)
    for name, chosen in (("zero_window_probes", probing), ("keep_alives", ~probing)):
        put(rows[name], rows[name] + examination.group.count(examination.empty_alive[chosen]))


def _acknowledgments(examination: Examination, rows: dict[str, Array]) -> None:
    """Write the counts of ACKs and windows that the direction sent, and its outstanding data, in place."""
    group, ack_progress, repeats = examination.group, examination.ack_progress, examination.repeats
    for name, position in (
        ("duplicate_acks", repeats.duplicate),
        ("triple_duplicate_acks", repeats.third),
        ("window_updates", repeats.window_update),
        ("zero_window_segments", examination.closed),
    ):
        put(rows[name], group.count(position))
    put(rows["capture_duplicates"], rows["capture_duplicates"] + group.count(repeats.captured_twice))
    sender = ack_progress.direction ^ 1
    put(rows["acks_of_unseen"], np.bincount(sender[ack_progress.unseen], minlength=group.directions))
    put(rows["acks_before_data"], np.bincount(sender[ack_progress.early], minlength=group.directions))
    put(rows["max_flight_bytes"], max_flight(examination.axis, examination.coverage, ack_progress))
    _unfilled(examination, rows)
    _windows(examination, rows)


def _windows(examination: Examination, rows: dict[str, Array]) -> None:
    group = examination.group
    syn = group.special[has(group.flags[group.special], Flag.SYN)]
    window, of_syn = group.window.copy(), np.zeros(group.directions, dtype=np.int64)
    window[syn] = 0
    np.maximum.at(of_syn, group.direction_of(syn), group.window[syn].astype(np.int64))
    put_windows(rows, reduce_groups(np.maximum, window, group.bounds, empty=0), of_syn)


def put_windows(rows: dict[str, Array], largest: Array, of_syn: Array) -> None:
    """Write the largest window of each direction in bytes, in place.

    `largest` is the maximum of the scaled windows; `of_syn` is the window of the SYN, which is never scaled.
    """
    put(rows["max_window_bytes"], np.maximum(largest.astype(np.int64) << rows["window_shift"], of_syn))


def _unfilled(examination: Examination, rows: dict[str, Array]) -> None:
    """Write the total length of the holes that were never filled, in bytes, in place."""
    holes = examination.coverage.holes
    owner = examination.group.direction_of(examination.axis.chunks.position[holes.after])
    np.add.at(rows["missing_bytes"], owner, holes.end - holes.start)


def _round_trips(examination: Examination, rows: dict[str, Array], capture: CaptureTables) -> None:
    """Write the statistics of the RTT samples, in place.

    Values computed from several samples are rounded to the resolution of the clock.
    """
    time_ns = capture.segments["time_ns"]
    group, axis, samples = examination.group, examination.axis, examination.samples
    sent = time_ns[group.rows[axis.chunks.position[samples.chunk]]]
    rtt = between_ns(sent, time_ns[group.rows[axis.acks.position[samples.ack]]])
    negative = (rtt < 0) & (rtt != NOT_A_TIME)
    put(rows["negative_rtts"], np.bincount(samples.direction[negative], minlength=group.directions))
    known = rtt >= 0
    rtt, direction = rtt[known], samples.direction[known]
    rtt = rtt[np.lexsort((rtt, direction))]
    counts = np.bincount(direction, minlength=group.directions)
    ends = np.cumsum(counts)
    there = np.flatnonzero(counts)
    if not len(there):
        return
    first, last = (ends - counts)[there], ends[there] - 1
    put(rows["rtt_count"], counts)
    rows["rtt_min_ns"][there] = rtt[first]
    rows["rtt_max_ns"][there] = rtt[last]
    rows["rtt_mean_ns"][there] = np.add.reduceat(rtt, first) / counts[there]
    for name, share in (("rtt_p50_ns", 0.50), ("rtt_p95_ns", 0.95)):
        rows[name][there] = _quantile(rtt, first, last, share)
    round_to_clock(rows, there, resolution_ns_of(capture))


def round_to_clock(rows: dict[str, Array], there: Array, resolution_ns: float) -> None:
    """Round values computed from several RTTs to the resolution of the capture's coarsest clock, in place."""
    for name in ("rtt_mean_ns", "rtt_p50_ns", "rtt_p95_ns"):
        rows[name][there] = np.round(rows[name][there] / resolution_ns) * resolution_ns


def resolution_ns_of(capture: CaptureTables) -> float:
    """Return the largest clock resolution among the interfaces of the capture, ns."""
    ticks = (interface.resolution_ns for file in capture.files for interface in file.interfaces)
    return max(ticks, default=1.0)


def _quantile(values: Array, first: Array, last: Array, share: float) -> Array:
    """Return the quantile `share` (0 to 1) of each sorted range values[first[i]:last[i]].

    Between two ranks it is interpolated linearly.
    """
    place = (last - first) * share
    rank = np.floor(place).astype(np.int64)
    low, high = first + rank, np.minimum(first + rank + 1, last)
    return values[low] + (values[high] - values[low]) * (place - rank)


def put_vantage(rows: dict[str, Array]) -> None:
    """Write where the capture point was (near the sender, near the receiver, between), in place.

    First the minimum round-trip times of the two directions are compared. If these do not decide (for example
    on a short path that was idle at the start), a minimum within 1 ms counts as that of a host, and is
    compared with the median of the other direction.

    Parameters
    ----------
    rows : dict of str to ndarray, each of shape (n_directions,)
        Columns of DIRECTIONS of complete connections: round trips are read, `vantage` is written in place.
    """
    forward, reverse = ([rows[name][side::2] for name in ("rtt_min_ns", "rtt_p50_ns")] for side in (0, 1))
    known = np.flatnonzero((rows["rtt_count"][0::2] > 0) & (rows["rtt_count"][1::2] > 0))
    (ahead, ahead_typical), (back, back_typical) = (
        [column[known] for column in columns] for columns in (forward, reverse)
    )
    near_initiator = back <= VANTAGE_SHARE * (ahead + back)
    near_responder = ~near_initiator & (ahead <= VANTAGE_SHARE * (ahead + back))
    at_initiator = (back <= _AT_ONCE_NS) & (back <= VANTAGE_SHARE * (ahead_typical + back))
    at_responder = (ahead <= _AT_ONCE_NS) & (ahead <= VANTAGE_SHARE * (back_typical + ahead))
    near_initiator |= ~near_responder & at_initiator & ~at_responder
    near_responder |= ~near_initiator & at_responder & ~at_initiator
    place = np.where(near_responder, np.uint8(Vantage.NEAR_RECEIVER), np.uint8(Vantage.BETWEEN))
    place[near_initiator] = Vantage.NEAR_SENDER
    rows["vantage"][0::2][known] = place
    rows["vantage"][1::2][known] = _FROM_THE_OTHER_SIDE[place]


def _vantage_by_stamps(examination: Examination, rows: dict[str, Array], capture: CaptureTables) -> None:
    """Write where the capture point was, for connections with round-trip times in at most one direction.

    Timestamps decide (see `stamp_spread`). This case occurs if a capture began after the handshake and data
    go in one direction only.
    """
    group = examination.group
    for connection in without_vantage(rows).tolist():
        sides = [2 * connection, 2 * connection + 1]
        rows_of = (group.rows[group.bounds[s] : group.bounds[s + 1]] for s in sides)
        place = vantage_by_stamps(*(stamps_of(each, capture) for each in rows_of))
        rows["vantage"][sides] = place, place.opposite


def without_vantage(rows: dict[str, Array]) -> Array:
    """Return the numbers, from 0, of connections whose capture point only timestamps can locate."""
    packets = rows["packets"].reshape(-1, 2).min(axis=1)
    return np.flatnonzero((rows["vantage"][0::2] == Vantage.UNKNOWN) & (packets >= FEWEST_STAMPS))


def put_absent_round_trips(answered: Array, rows: dict[str, Array]) -> None:
    """Write the reason why a direction has no round-trip times, in place.

    One reason is a capture near the receiver: there, the samples measure only the delay of that host.
    """
    reason = np.where(answered, RoundTrips.NO_EXACT_ACK, RoundTrips.NO_ACK)
    reason = np.where(answered & (rows["first_ns"] == NOT_A_TIME), RoundTrips.NO_TIME, reason)
    reason = np.where(rows["rtt_count"] > 0, RoundTrips.MEASURED, reason)
    reason = np.where((rows["rtt_count"] > 0) & (rows["rtt_p50_ns"] == 0), RoundTrips.BELOW_GRAIN, reason)
    reason = np.where(rows["vantage"] == Vantage.NEAR_RECEIVER, RoundTrips.NEAR_RECEIVER, reason)
    put(rows["rtt_absent"], reason)


def beginning_acknowledged(examination: Examination) -> Array:
    """Return which directions had their first sequence number acknowledged.

    Returns
    -------
    ndarray of bool, shape (n_directions,)
    """
    acks = examination.axis.acks
    acknowledged = np.zeros(examination.group.directions, dtype=bool)
    answered = np.flatnonzero(np.diff(acks.bounds))
    last = acks.highest[acks.bounds[1:][answered] - 1]
    acknowledged[answered] = last > examination.axis.origin[answered]
    return acknowledged


def announce(columns: dict[str, Array], capture: CaptureTables, partition: Partition) -> None:
    """Write the values that each direction announces in its TCP options into `columns`, in place.

    Parameters
    ----------
    columns : dict of str to ndarray, each of shape (n_directions,)
        The columns of DIRECTIONS for all directions of the capture, as returned by `blank`.
    capture : CaptureTables
    partition : Partition
    """
    direction, marks = partition.direction, capture.segments["marks"]
    _syn_options(columns, capture.syn_options, direction)
    columns["mptcp"][direction[np.flatnonzero(marks & np.uint16(CaptureMark.MPTCP))]] = True
    _timestamps(columns, capture, partition)
    blocks = capture.sack_blocks
    first = firsts(blocks["row"])
    dsack = first[is_dsack(blocks, capture.segments["ack"])[first]]
    for name, chosen in (("sack_segments", first), ("dsack_segments", dsack)):
        np.add.at(columns[name], direction[blocks["row"][chosen]], 1)
    if len(dsack) >= FEWEST:
        columns["dsack_segments"][with_growing_dsacks(blocks, capture.segments["ack"], direction)] = 0


def _syn_options(columns: dict[str, Array], options: Table, direction: Array) -> None:
    owner = direction[options["row"]]
    backwards = np.arange(len(options))[::-1]  # the first SYN is written last, so it stays
    if len(options):
        own(columns, *OF_SYN)
        for name in OF_SYN:
            columns[name][owner[backwards]] = options[name][backwards]
    for name in ("sack_permitted", "mptcp"):
        columns[name][owner[options[name]]] = True


def _timestamps(columns: dict[str, Array], capture: CaptureTables, partition: Partition) -> None:
    """Write which directions use the timestamps option, in place.

    The SYNs decide; if no SYN was captured, the majority of the segments does.
    """
    flags, marks = capture.segments["flags"], capture.segments["marks"]
    syn = np.flatnonzero(flags & np.uint16(Flag.SYN))
    stamped = has(marks[syn], CaptureMark.HAS_TIMESTAMPS)
    columns["timestamps"][partition.direction[syn[stamped]]] = True
    begun = np.zeros(len(columns["timestamps"]), dtype=bool)
    begun[partition.direction[syn]] = True
    captured = partition.bounds[1:] > partition.bounds[:-1]
    if not begun[captured].all():
        rows = np.flatnonzero(marks & np.uint16(CaptureMark.HAS_TIMESTAMPS))
        packets = np.diff(partition.bounds)
        counts = np.bincount(partition.direction[rows], minlength=len(packets))
        put(columns["timestamps"], columns["timestamps"] | (~begun & (2 * counts > packets)))


def is_dsack(blocks: Table, ack: Array) -> Array:
    """Return which SACK blocks are D-SACKs, if they are the first block of their segment (RFC 2883, 4).

    Such a block begins below the cumulative ACK, or lies within the block that follows.

    Parameters
    ----------
    blocks : Table
        SACK_BLOCKS of a capture.
    ack : ndarray of uint32, shape (n_segments,)
        The acknowledgment number of each segment of the capture; it wraps around at 2^32.

    Returns
    -------
    ndarray of bool, shape (n_blocks,)
    """
    row, left, right = blocks["row"], blocks["left"], blocks["right"]
    duplicate = np.less((left - ack[row]).view(np.int32), 0)
    inside = (row[1:] == row[:-1]) & ((left[:-1] - left[1:]).view(np.int32) >= 0)
    duplicate[:-1] |= inside & ((right[1:] - right[:-1]).view(np.int32) >= 0)
    return duplicate
