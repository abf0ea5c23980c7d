"""The time/sequence and flight series of one TCP direction."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from multitracer.analysis.kind import Kind
from multitracer.captured import Flag
from multitracer.figures.series import Series, in_order

if TYPE_CHECKING:
    from multitracer.figures.direction import Direction

_NOT_PLAIN_DATA = (
    Kind.RETRANSMISSION
    | Kind.OUT_OF_ORDER
    | Kind.CAPTURE_DUPLICATE
    | Kind.ZERO_WINDOW_PROBE
    | Kind.KEEP_ALIVE
)


def sequence_series(direction: Direction) -> list[Series]:
    """Return the series of the time/sequence panel, in bytes; empty ones too."""
    return [
        *_window_and_acks(direction),
        *_sack(direction),
        *_data(direction),
        *_events(direction),
    ]


def _data(direction: Direction) -> list[Series]:
    first_byte = direction.segments["seq_bytes"]
    payload = direction.sent & (direction.segments["payload_bytes"] > 0)
    kinds = (
        ("data", "data", payload & ~direction.has(_NOT_PLAIN_DATA), "first byte of each data segment"),
        (
            "rexmt",
            "retransmission",
            direction.sent & direction.has(Kind.RETRANSMISSION) & ~direction.has(Kind.CAPTURE_DUPLICATE),
            "first byte of each segment of which a unit was sent before",
        ),
        (
            "ooo",
            "out_of_order",
            direction.sent & direction.has(Kind.OUT_OF_ORDER),
            "segment that fills a hole below the highest byte seen",
        ),
        (
            "dup",
            "capture_duplicate",
            direction.sent & direction.has(Kind.CAPTURE_DUPLICATE),
            "the same packet captured twice; not a retransmission",
        ),
    )
    return [
        direction.series(name, role, rows, first_byte, rare=name != "data", doc=doc)
        for name, role, rows, doc in kinds
    ]


def _window_and_acks(direction: Direction) -> list[Series]:
    columns = direction.segments
    next_expected = columns["ack_bytes"]
    edge = next_expected + np.maximum(columns["window_bytes"], 0)
    duplicate = direction.acks & direction.has(Kind.DUPLICATE_ACK)
    return [
        replace(
            direction.series("rwnd", "window_edge", direction.acks, edge, doc="how far the sender may send"),
            bound=True,
        ),
        direction.series("ack", "ack", direction.acks, next_expected, doc="next byte the receiver expects"),
        direction.series(
            "dupack", "duplicate_ack", duplicate, next_expected, rare=True, doc="duplicate ACK (RFC 5681)"
        ),
    ]


def _events(direction: Direction) -> list[Series]:
    columns = direction.segments
    flags = columns["flags"]
    height = np.where(direction.sent, columns["seq_bytes"], np.maximum(columns["ack_bytes"], 0))
    closed = direction.acks & direction.has(Kind.ZERO_WINDOW)
    probes = direction.sent & direction.has(Kind.ZERO_WINDOW_PROBE | Kind.KEEP_ALIVE)
    resets = (flags & Flag.RST) != 0
    handshake = ((flags & (Flag.SYN | Flag.FIN)) != 0) & ~resets
    return [
        direction.series(
            "zero_window", "zero_window", closed, height, rare=True, doc="a window of 0 is offered"
        ),
        direction.series("probe", "probe", probes, height, rare=True, doc="zero-window probe or keep-alive"),
        direction.series("syn_fin", "handshake", handshake, height, rare=True, doc="SYN or FIN, either way"),
        direction.series("rst", "reset", resets, height, rare=True, doc="RST, either way"),
    ]


def _sack(direction: Direction) -> list[Series]:
    """Return the SACK blocks that the receiver sent: bars from first byte to the byte after the last."""
    row = direction.sack_blocks["row"]
    mine = direction.acks[row]
    blocks = direction.sack_blocks.take(mine)
    columns = direction.segments.take(row[mine])
    bars = Series(
        f"{direction.prefix}_sack",
        "sack",
        columns["time_ns"],
        blocks["left_bytes"],
        until=blocks["right_bytes"],
        frame=columns["frame"],
        file=columns["file"],
        rare=True,
        doc="bytes beyond a hole that the receiver reports to have (RFC 2018)",
    )
    twice = replace(
        bars,
        label=f"{direction.prefix}_dsack",
        role="dsack",
        until=None,
        doc="bytes that arrived twice, as the receiver reports (RFC 2883)",
    )
    return [in_order(bars.take(~blocks["dsack"])), in_order(twice.take(blocks["dsack"]))]


def flight_series(direction: Direction) -> list[Series]:
    """Return outstanding bytes (with and less what is SACKed) and the advertised window's size."""
    columns = direction.segments
    occupies = columns["end_bytes"] > columns["seq_bytes"]
    rows = (direction.sent & occupies) | (direction.acks & ~occupies)
    window = columns["window_bytes"]
    flight, less_sacked = columns["flight_bytes"], columns["flight_sack_bytes"]
    sacked = rows if bool(np.any(flight[rows] != less_sacked[rows])) else np.zeros_like(rows)
    return [
        replace(
            direction.series("rwnd", "window", direction.acks, window, doc="window the receiver advertises"),
            bound=True,
        ),
        direction.series(
            "flight_sack", "flight_sack", sacked, less_sacked, doc="outstanding, less what is SACKed"
        ),
        direction.series("flight", "flight", rows, flight, doc="highest byte sent minus highest ACK"),
    ]
