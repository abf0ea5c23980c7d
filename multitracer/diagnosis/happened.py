"""What happened while a limit held, in words, with its numbers."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from multitracer.diagnosis.held import shown_s, stretches
from multitracer.diagnosis.limits.at_sender import opening
from multitracer.diagnosis.limits.names import Limit, Part, View
from multitracer.diagnosis.request_pauses import pauses_s
from multitracer.units import NS_PER_S
from multitracer.words import about, count, duration, rate

if TYPE_CHECKING:
    from multitracer.diagnosis.limits.limited import Limited
    from multitracer.tables import Array

_BITS = 8  # in a byte
_SHORT_S = 0.95  # below it one digit behind the point is less than two that count
_LONG_S = 100.0  # from here on minutes and seconds, as wherever a length of time is told
_AS_ONE = 1.02
"""Highest by lowest rate of a link below which it reads as one number. Not measured."""


def what_happened(limited: Limited, limit: Limit, part: Part) -> str:
    """Return what happened, with its numbers."""
    lengths = _lengths(limited, limit, part)
    seconds = float(lengths.sum())
    if limit is Limit.APPLICATION:
        paused = pauses_s(limited) if part is Part.PEER else lengths
        asks = "asked" if limited.transfer.reverse else "answered"
        return _of_application(part, seconds, paused if len(paused) else lengths, asks=asks)
    if limit is Limit.LINK:
        if is_policed(limited):
            return f"a policer let no more through{policed_to(limited)} for {lasted(seconds)}"
        return f"it had data queued or in service for {lasted(seconds)}{at_rate(limited)}"
    if limit is Limit.RECEIVER_WINDOW and part is Part.ZERO:
        return f"it had no room for a segment for {lasted(seconds)}"
    return {
        Limit.HANDSHAKE: f"it took {_opened(limited, seconds)}",
        Limit.OUTAGE: f"nothing came through for {lasted(seconds)}, in {count(len(lengths), 'gap')}",
        Limit.RECOVERY: f"new data waited {lasted(seconds)} for it, {count(len(lengths), 'time')}",
        Limit.RECEIVER_WINDOW: f"data in flight filled it for {lasted(seconds)}",
        Limit.SENDER_BUFFER: f"it was full for {lasted(seconds)}{_or_window(limited)}",
        Limit.SLOW_START: f"for {lasted(seconds)} the congestion window was still growing",
        Limit.CONGESTION_WINDOW: f"it kept data back for {lasted(seconds)}{_though(limited)}",
    }[limit]


def is_policed(limited: Limited) -> bool:
    """Return whether the empty bucket of a policer, more than a queue, shows that the link was the limit."""
    if limited.shown is None:
        return False
    link = limited.shown.link
    return shown_s(limited, Limit.LINK, link.by_bucket) > shown_s(limited, Limit.LINK, link.by_queue)


def policed_to(limited: Limited) -> str:
    """Return what a policer lets pass: what came in bunches behind its losses is not its rate."""
    policer = None if limited.seen is None else limited.seen.policer
    return "" if policer is None else f" than {rate(policer.rate_bytes_per_s * _BITS)} with headers"


def at_rate(limited: Limited) -> str:
    """Return the rate of a link, if it is known: ", at 1.93 Mbit/s (1.85 to 1.95)"."""
    link_rate = limited.shown.link.rate if limited.shown is not None else None
    if link_rate is None:
        return ""
    low, middle, high = (rate(each * _BITS) for each in (link_rate.low, link_rate.median, link_rate.high))
    if link_rate.high <= _AS_ONE * link_rate.low or low == high:
        return f", at {middle}"
    number, _, unit = low.partition(" ")
    return f", at {middle} ({number if high.endswith(f' {unit}') else low} to {high})"


def _opened(limited: Limited, seconds: float) -> str:
    """Return how long opening took; at a client, how long to connect, and how long until its peer knew."""
    transfer = limited.transfer
    begin_ns, opened_ns, _ = opening(transfer) if len(transfer.time_ns) else (0, 0, None)
    connected_s = (opened_ns - begin_ns) * transfer.speed / NS_PER_S
    is_client = limited.view is View.RECEIVER and transfer.reverse
    if not is_client or not 0 < connected_s < seconds:
        return lasted(seconds, 2)
    return (
        f"{lasted(connected_s, 2)} to connect, and {lasted(seconds - connected_s, 2)} more until "
        "the server knew"
    )


def _though(limited: Limited) -> str:
    """Return that the path had room; "" where a policer or a router that marks said that it had none."""
    seen = limited.seen
    had_none = seen is not None and (seen.policer is not None or bool(seen.answers.marked.any()))
    return "" if had_none else " though the path had room"


def _or_window(limited: Limited) -> str:
    return ", or the congestion window stood still" if limited.view in (View.SENDER, View.RECEIVER) else ""


def _of_application(part: Part, seconds: float, lengths: Array, *, asks: str) -> str:
    """Return what happened; the peer of an initiator's data `asks` nothing, it answers."""
    usual, many = float(np.median(lengths)), len(lengths)
    part, asks = (Part.PEER, "sent more") if (part, asks) == (Part.THINK, "answered") else (part, asks)
    if part is Part.THINK:
        if many == 1:
            return f"it took {about(usual)} to begin its answer"
        return f"it took {lasted(seconds)} to begin {many} answers, usually {about(usual)} each"
    if part is Part.PEER:
        if many == 1:
            return f"it let {about(seconds)} go by before it {asks}"
        return f"it let {lasted(seconds)} go by before it {asks}, {many} times, usually {about(usual)}"
    if part is Part.LATENCY:
        pair = "an answer and the next request" if asks == "asked" else "a request and its answer"
        return f"{pair} took a round trip {count(many, 'time')}, {lasted(seconds)} in all"
    if part is Part.REPAIR:
        return f"{lasted(seconds)} went by until a lost one was sent again, {count(many, 'time')}"
    if part is Part.NAGLE:
        return f"small segments waited {lasted(seconds)} for the ACK of a small one (Nagle's algorithm)"
    return f"it had nothing to send for {lasted(seconds)}, in {count(many, 'pause')}"


def lasted(seconds: float, digits: int = 1) -> str:
    """Return a length of time: seconds with so many digits, two that count if it is below one."""
    if seconds >= _LONG_S:
        return duration(seconds * NS_PER_S)
    if seconds >= _SHORT_S:
        return f"{seconds:.{digits}f} s"
    return f"{np.format_float_positional(seconds, 2, fractional=False, trim='-')} s"


def _lengths(limited: Limited, limit: Limit, part: Part) -> Array:
    """Return the lengths of a limit's intervals (of one part, if it is named), s."""
    begin, end = stretches(limited, limit, part or None)
    return np.asarray((end - begin) * limited.transfer.speed / NS_PER_S)
