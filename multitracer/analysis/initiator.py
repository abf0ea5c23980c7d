"""Which host began a connection without captured SYN and SYN-ACK: an assumption, and its reason.

Rules of the file
-----------------
The first rule that tells the two endpoints apart decides:

- An endpoint (address, port, VLAN) that sent a SYN-ACK in another connection of the capture is a server.
- The port with the lower rank is the server's: well-known (below 1024, RFC 6335), then those above that
  servers are known to listen on, then the others below 32768, then those from which systems choose a client's
  port: once 1024 to 5000 (BSD, Windows XP, Linux 2.2), today 32768 on (Linux) or 49152 on (RFC 6335). From
  port 20 a server opens connections itself (RFC 959, 3.2).
- Who sent less payload asked, and who sent more answered.
- Who was seen first began it.

Options tell it in SYN and SYN-ACK only (MSS, window scale, SACK permitted); those that come later, timestamps
and SACK blocks, both sides send alike.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from multitracer.analysis.intervals import distinct
from multitracer.tcp import Initiator

if TYPE_CHECKING:
    from multitracer.capture import Capture
    from multitracer.tables import Array, Table

_FTP_DATA = 20  # RFC 959, 3.2
_WELL_KNOWN, _LAST_OLD_EPHEMERAL, _FIRST_EPHEMERAL = 1024, 5000, 32768
"""RFC 6335, section 6; the end of old BSD's range; the begin of Linux' range (ip_local_port_range)."""
_LISTENED_ON = (
    1080, 1194, 1433, 1521, 1723, 1883, 1935, 2049, 2181, 3128, 3268, 3306, 3389, 3478, 4433, 5000,
    5001, 5060, 5201, 5222, 5223, 5228, 5432, 5555, 5671, 5672, 5900, 5984, 6379, 6443, 6667, 7000,
    8000, 8008, 8009, 8080, 8081, 8086, 8088, 8333, 8443, 8883, 8888, 9000, 9001, 9042, 9090, 9092,
    9100, 9200, 9418, 9999, 10_000, 11_211, 25_565, 27_017,
)  # fmt: skip
"""Registered with IANA for a service or its usual port: proxies, databases, mail of phones, measurements."""
_UNTOLD = np.int8(-1)  # neither side: both have the same rank
_MIX = np.uint64(0x9E3779B97F4A7C15)
"""2^64 over the golden ratio: multiplying by it spreads neighbouring numbers (Knuth, TAOCP 3, 6.4)."""


def _ranks() -> Array:
    """Return of each port how unlikely a server listens on it."""
    rank = np.full(1 << 16, 4, dtype=np.int8)
    rank[:_FIRST_EPHEMERAL] = 2
    rank[: _LAST_OLD_EPHEMERAL + 1] = 3
    rank[list(_LISTENED_ON)] = 1
    rank[:_WELL_KNOWN] = 0
    rank[_FTP_DATA] = 5
    return rank


_RANK = _ranks()


def assumed(capture: Capture, forward_flow: Array, sent_bytes: Array, answered: Array) -> tuple[Array, Array]:
    """Return the directed flow of who is taken for the initiator, and what that rests on.

    Parameters
    ----------
    capture : Capture
    forward_flow : int32, shape (n,)
        Of each connection whose beginning was not captured, the directed flow of its first segment.
    sent_bytes : float64, shape (n, 2)
        Payload that its endpoints a and b sent.
    answered : uint64, shape (k,)
        Names of the endpoints that sent a SYN-ACK, as of `servers`.

    Returns
    -------
    flow : int32, shape (n,)
    basis : uint8, shape (n,)
        Initiator.
    """
    pair = forward_flow >> 1
    flow, basis = forward_flow.copy(), np.full(len(pair), Initiator.FIRST_SENDER, dtype=np.uint8)
    rules = (
        (Initiator.DATA, _less(sent_bytes[:, 0], sent_bytes[:, 1])),
        (Initiator.PORTS, _by_ports(capture.flows, pair)),
        (Initiator.OTHER_CONNECTIONS, _by_answers(capture.flows, pair, answered)),
    )
    for rule, side in rules:  # the strongest last
        tells = side != _UNTOLD
        flow[tells] = 2 * pair[tells] + side[tells]
        basis[tells] = rule
    return flow, basis


def _less(of_a: Array, of_b: Array) -> Array:
    """Return which endpoint has less, 0 for a and 1 for b, -1 if none."""
    return np.where(of_a == of_b, _UNTOLD, (of_b < of_a).astype(np.int8))


def _by_ports(flows: Table, pair: Array) -> Array:
    return _less(-_RANK[flows["port_a"][pair]], -_RANK[flows["port_b"][pair]])


def servers(flows: Table, answering: Array) -> Array:
    """Return the names of the endpoints that sent the directed flows `answering`.

    Returns
    -------
    ndarray of uint64, shape (n_servers,), ascending
    """
    return distinct(np.where(answering & 1, *(_names(flows, answering >> 1, end) for end in "ba")))


def _by_answers(flows: Table, pair: Array, names: Array) -> Array:
    """Return who is no server where the other one is."""
    is_server = [np.isin(_names(flows, pair, end), names) for end in "ab"]
    return _less(*is_server)


def _names(flows: Table, pair: Array, end: str) -> Array:
    """Return a number for each endpoint; two endpoints share one by a chance of 2^-64."""
    address = np.ascontiguousarray(flows[f"address_{end}"][pair]).view(np.uint64).reshape(-1, 2)
    name = flows[f"port_{end}"][pair].astype(np.uint64)
    for part in (address[:, 0], address[:, 1], flows["vlan"][pair].astype(np.uint64)):
        name = (name ^ part) * _MIX
        name ^= name >> np.uint64(29)
    return name
