"""A socket's details in `ss -tin`: variables of struct tcp_info, and the meaning of absent ones.

iproute2 prints a variable only if it is not 0, so a variable that is not there is 0, as long as this `ss` on
this kernel can print it at all. Struct tcp_info only ever grew at its end: a log in which one variable was
printed comes from a kernel and an `ss` that know those before it, too. Missing (NA) stays what `ss` leaves
out for other reasons: a slow-start threshold of 65535 and more, a time that nobody measured yet, a window of
an `ss` that never prints it. Source: tcp_stats_print of misc/ss.c, iproute2 3.x to 6.1.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import numpy as np

from multitracer.protocols.sock_diag import LAYOUT
from multitracer.tables import NA, NOT_A_TIME
from multitracer.units import BITS_PER_BYTE, NS_PER_MS, NS_PER_S
from parsers._text.rows import times

if TYPE_CHECKING:
    from multitracer.tables import Array

_USERS = re.compile(r"users:\(\(.*\)\)")
"""Names of processes may hold anything, also what looks like a token."""
_TIMER = re.compile(r"timer:\((\w+),([^,)]*),(\d{1,3})\)")
_NUMBER = r"\d[\d.]*(?:e[+-]?\d{1,2})?"
_TOKEN = re.compile(rf"(?<!\S)([a-z_]+):({_NUMBER})(?:/({_NUMBER}))?")
_RATE = re.compile(r"(?<!\S)(send|pacing_rate|delivery_rate) (\d[\d.]{0,20})([KMGT]?)bps")
_COOKIE = re.compile(r"(?<!\S)sk:([0-9a-f]{1,16})(?!\S)")
_SPAN = re.compile(r"(\d{1,9}(?:\.\d{1,9})?)(ms|sec|min)")
_ALGORITHM = re.compile(r"(?<!\S)([a-z][\w-]{0,14}) (?:wscale|rto):")
_LIMITED = re.compile(r"(?<!\S)app_limited(?!\S)")
_VARIABLES = re.compile(r"(?<!\S)(?:rto|rtt|mss|cwnd):\d")
_FLAGS = ("ts", "sack", "ecn", "ecnseen", "fastopen")
_POWERS = {"": 1, "K": 10**3, "M": 10**6, "G": 10**9, "T": 10**12}
_TIMERS = {"on": 1, "keepalive": 2, "timewait": 3, "persist": 4}
_SPAN_NS = {"ms": NS_PER_MS, "sec": NS_PER_S, "min": 60 * NS_PER_S}
_MOST = 1 << 53
_MOST_MS = 1e12

_COUNTS = {
    "snd_mss_bytes": "mss",
    "cwnd_segments": "cwnd",
    "ssthresh_segments": "ssthresh",
    "backoff": "backoff",
    "unacked_segments": "unacked",
    "sacked_segments": "sacked",
    "lost_segments": "lost",
    "snd_wnd_bytes": "snd_wnd",
    "notsent_bytes": "notsent",
    "total_sent_bytes": "bytes_sent",
    "total_retransmitted_bytes": "bytes_retrans",
    "total_acked_bytes": "bytes_acked",
    "total_received_bytes": "bytes_received",
    "inode": "ino",
}
"""Column -> token whose unit is the column's."""
_MILLISECONDS = {
    "srtt_ns": "rtt",
    "min_rtt_ns": "minrtt",
    "rto_ns": "rto",
    "busy_ns": "busy",
    "rwnd_limited_ns": "rwnd_limited",
    "sndbuf_limited_ns": "sndbuf_limited",
}
COLUMNS = (
    "cookie", "congestion_control", "timer", "timer_expires_ns", "retransmits", "retransmitted_segments",
    "total_retransmitted_segments", "rttvar_ns", "delivery_rate", "app_limited", *_COUNTS, *_MILLISECONDS,
)  # fmt: skip
"""The columns of TCP_STATE that `details` gives, in this order."""

_PLACES = {name: place for place, (name, _) in enumerate(LAYOUT)}
_FIELD_OF = {
    "notsent": "notsent_bytes", "minrtt": "min_rtt", "delivery_rate": "delivery_rate", "busy": "busy_time",
    "rcv_ooopack": "rcv_ooopack", "pacing_rate": "pacing_rate",
}  # fmt: skip
"""Token -> field of struct tcp_info, where the names differ or the token is no `name:number`."""
_PROOFS = _PLACES | {token: _PLACES[field] for token, field in _FIELD_OF.items()}
"""Token -> place of its field."""

_ZERO_ALWAYS = (
    "backoff", "unacked_segments", "sacked_segments", "lost_segments", "retransmitted_segments",
    "total_retransmitted_segments",
)  # fmt: skip
"""Printed by every `ss` that prints variables, unless 0."""
_ZERO_IF_KNOWN = {
    "total_acked_bytes": "bytes_acked",
    "total_received_bytes": "bytes_received",
    "notsent_bytes": "notsent_bytes",
    "app_limited": "delivery_rate",
    "busy_ns": "busy_time",
    "rwnd_limited_ns": "rwnd_limited",
    "sndbuf_limited_ns": "sndbuf_limited",
    "total_sent_bytes": "bytes_sent",
    "total_retransmitted_bytes": "bytes_retrans",
    "snd_wnd_bytes": "snd_wnd",
}
"""Column -> field of struct tcp_info that was added later; not printed means 0 only where it is known."""


def has_variables(details: str) -> bool:
    """Return whether a text holds the part that comes from struct tcp_info."""
    return _VARIABLES.search(details) is not None


def details_of(text: str) -> tuple[tuple[object, ...], int]:
    """Return the values of `COLUMNS` that a socket's text holds, and how far into struct tcp_info they reach.

    Raises
    ------
    ValueError
        If a value makes no sense.
    """
    details = _USERS.sub(" ", text)
    tokens = {name: (value, second) for name, value, second in _TOKEN.findall(details)}
    rates = {name: float(value) * _POWERS[power] for name, value, power in _RATE.findall(details)}
    cookie, algorithm = _COOKIE.search(details), _ALGORITHM.search(details)
    values = (
        int(cookie[1], 16) if cookie else 0,
        algorithm[1] if algorithm and algorithm[1] not in _FLAGS else "",
        *_timer(details), *_retransmitted(tokens), _ms(tokens["rtt"][1]) if "rtt" in tokens else NOT_A_TIME,
        *_delivery(details, rates),
        *(_count(tokens[t][0]) if t in tokens else NA for t in _COUNTS.values()),
        *(_ms(tokens[t][0]) if t in tokens else NOT_A_TIME for t in _MILLISECONDS.values()),
    )  # fmt: skip
    return values, max((_PROOFS[name] for name in (*tokens, *rates) if name in _PROOFS), default=-1)


def with_zeros(columns: dict[str, Array], has_info: Array, newest: int) -> dict[str, Array]:
    """Return columns of TCP_STATE in which variables that `ss` omits because they are 0 are 0.

    Parameters
    ----------
    columns : dict of str to ndarray, each of shape (n,)
        By name, as `details_of` gives them, and `send_queue_bytes`.
    has_info : ndarray of bool, shape (n,)
        Whether a row has variables at all.
    newest : int
        The largest place in struct tcp_info that `details_of` found in the log.

    Returns
    -------
    dict of str to ndarray, each of shape (n,)
        NA where a variable is still unknown.
    """
    known = [name for name, field in _ZERO_IF_KNOWN.items() if newest >= _PLACES[field]]
    zeros = {name: _zero(columns[name], has_info) for name in (*_ZERO_ALWAYS, *known)}
    if "notsent_bytes" not in zeros:
        # An `ss` that may be too old to print it: all that is queued is outstanding, or nobody can tell.
        outstanding = times(zeros["unacked_segments"], columns["snd_mss_bytes"])
        queued = columns["send_queue_bytes"]
        zeros["notsent_bytes"] = _zero(
            columns["notsent_bytes"], has_info & (queued != NA) & (queued <= np.maximum(outstanding, 0))
        )
    return columns | zeros


def _zero(values: Array, where: Array) -> Array:
    missing = (values == NA) | (values == NOT_A_TIME)
    return np.where(missing & where, 0, values)


def _timer(details: str) -> tuple[int, int, int]:
    """Return which timer runs, when it fires, and how often the retransmission timer fired in a row."""
    match = _TIMER.search(details)
    if match is None:
        return NA, NOT_A_TIME, NA
    kind = _TIMERS.get(match[1], NA)
    expires = sum(_span_ns(number, unit) for number, unit in _SPAN.findall(match[2]))
    return kind, expires, int(match[3]) if match[1] == "on" else NA


def _span_ns(number: str, unit: str) -> int:
    """Return a duration as `ss` prints it: 4.5 seconds are "4.500ms" there."""
    unit_ns = NS_PER_S if "." in number else _SPAN_NS[unit]
    return round(float(number) * unit_ns)


def _retransmitted(tokens: dict[str, tuple[str, str]]) -> tuple[int, int]:
    now, total = tokens.get("retrans", ("", ""))
    return (_count(now), _count(total)) if now and total else (NA, NA)


def _delivery(details: str, rates: dict[str, float]) -> tuple[int, int]:
    """Return the delivery rate in bytes/s, and whether the application limited it."""
    limited = 1 if _LIMITED.search(details) else NA
    return int(rates["delivery_rate"] / BITS_PER_BYTE) if "delivery_rate" in rates else NA, limited


def _count(text: str) -> int:
    value = float(text)
    if not 0 <= value < _MOST:
        raise ValueError(f"{text} is no count")
    return int(value)


def _ms(text: str) -> int:
    return round(_count_ms(text) * NS_PER_MS) if text else NOT_A_TIME


def _count_ms(text: str) -> float:
    value = float(text)
    if not 0 <= value < _MOST_MS:
        raise ValueError(f"{text} ms is no time")
    return value
