"""The same connection at another capture point: the one rule by which it is found.

Rules of the file
-----------------
- It is the connection that shares most packets with it. Times do not count: clocks may be hours apart. Nor
  does who was seen first: a capture that began late may call the responder the initiator.
- Connections with the same addresses and ports are tried first. If none of these shares a packet, an address
  may have been translated on the way (NAT): then every connection of the other capture is tried.
- A packet is told as `multitracer.clock.captures.matching` tells it, without addresses. Where that finds
  nothing, a router may have written IP identifications of its own (a NAT, "scrub random-id"): it is tried
  without.
- Tools that send one packet to many ports (scanners) give many connections the same packet: a translated one
  counts only if it shares most of its packets, and more than any other.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from multitracer.analysis.intervals import distinct
from multitracer.clock.captures.matching import EXACT, RENUMBERED, copy_numbers, identities, join, shared

if TYPE_CHECKING:
    from multitracer.analysis.tcp import Analysis
    from multitracer.tables import Array

_FIRST_ROWS = 1 << 12
"""Packets of a connection that settle whether it is the same, where only one comes into question."""
_MOST_OF = 0.5
"""Share of the fewer packets of the two that a translated connection must have in common."""
_LEAST_PACKETS = 3
"""And so many at least: a connection of a scanner has two, SYN and RST."""


class Counterpart(NamedTuple):
    """A connection at another capture point."""

    connection: int
    """Its number there, from 1."""
    is_turned: bool
    """Whether that capture calls the initiator of the first one the responder."""


@dataclass(frozen=True)
class Counterparts:
    """The connections of one capture in another one.

    Parameters
    ----------
    near, far : Analysis
        Any two captures; their clocks do not matter.
    fields : tuple of str
        By which a packet is told.
    """

    near: Analysis
    far: Analysis
    fields: tuple[str, ...] = EXACT

    def of(self, connection: int) -> Counterpart | None:
        """Return a connection of the near capture (from 1) in the far one, None if it is not there."""
        candidates = self._by_endpoints.get(_endpoints(self.near, connection), [])
        other = self._most_alike(connection, candidates)
        if other is None:
            other = self._translated(connection)
        if other is not None:
            return Counterpart(other, self._is_turned(connection, other))
        return self._renumbered.of(connection) if self.fields == EXACT else None

    def all(self) -> list[tuple[int, Counterpart]]:
        """Return every connection that both captures hold, as numbered in the near one."""
        pairs = ((n, self.of(n)) for n in range(1, len(self.near.connections) + 1))
        return [(n, there) for n, there in pairs if there is not None]

    @cached_property
    def _renumbered(self) -> Counterparts:
        return Counterparts(self.near, self.far, RENUMBERED)

    @cached_property
    def _by_endpoints(self) -> dict[bytes, list[int]]:
        numbers: dict[bytes, list[int]] = {}
        for number in range(1, len(self.far.connections) + 1):
            numbers.setdefault(_endpoints(self.far, number), []).append(number)
        return numbers

    def _most_alike(self, connection: int, candidates: list[int]) -> int | None:
        """Return the candidate that shares the most packets, None if none shares any.

        Where there is one alone, some of the first packets settle it in most cases.
        """
        if len(candidates) == 1 and self._shared(connection, candidates[0], first=_FIRST_ROWS):
            return candidates[0]
        shared = [(self._shared(connection, other), -other) for other in candidates]
        most = max(shared, default=(0, 0))
        return -most[1] if most[0] else None

    def _shared(self, connection: int, other: int, *, first: int | None = None) -> int:
        """Return how many packets two connections share, both ways; of all, or of the first ones."""
        mine, theirs = (
            _keys(self.near, connection, self.fields, first),
            _keys(self.far, other, self.fields, first),
        )
        return len(join(mine, copy_numbers(mine), theirs, copy_numbers(theirs))[0])

    @cached_property
    def _far_keys(self) -> tuple[Array, Array]:
        """Return the identities of all packets of the far capture, sorted, and the connection of each."""
        keys = identities(self.far.capture.segments, None, self.fields)
        order = np.argsort(keys, kind="stable")
        return keys[order], (self.far.partition.direction >> 1)[order]

    def _translated(self, connection: int) -> int | None:
        """Return the connection, whatever its ends, that shares most of its packets with this one."""
        mine = distinct(_keys(self.near, connection, self.fields, _FIRST_ROWS))
        keys, connections = self._far_keys
        begin, end = np.searchsorted(keys, mine), np.searchsorted(keys, mine, side="right")
        rows = np.concatenate([np.arange(a, b) for a, b in zip(begin.tolist(), end.tolist(), strict=True)])
        if not len(rows):
            return None
        shared = np.bincount(connections[rows.astype(np.int64)])
        best = int(shared.argmax())
        rows_there = len(_keys(self.far, best + 1, self.fields, _FIRST_ROWS))
        enough = max(_LEAST_PACKETS, _MOST_OF * min(len(mine), rows_there))
        is_alone = np.count_nonzero(shared == shared[best]) == 1
        return best + 1 if shared[best] >= enough and is_alone else None

    def _is_turned(self, connection: int, other: int) -> bool:
        """Return whether what one capture calls forward is reverse in the other."""
        for first in (_FIRST_ROWS, None):  # of one way alone the first packets settle it
            sent = _keys_one_way(self.near, connection, self.fields, reverse=False, first=first)
            ways = (False, True)
            there = [_keys_one_way(self.far, other, self.fields, reverse=way, first=first) for way in ways]
            forward, back = shared(sent, there)
            if (forward == 0) != (back == 0):
                break
        if forward or back:
            return back > forward
        answers = _keys_one_way(self.near, connection, self.fields, reverse=True)
        return shared(answers, there[:1])[0] > 0


def _endpoints(analysis: Analysis, number: int) -> bytes:
    """Return the endpoints of a connection without their VLAN, the same whoever was seen first."""
    pair = int(analysis.connections["forward_flow"][number - 1]) >> 1
    flows = analysis.capture.flows
    ends = sorted(
        bytes(flows[f"address_{e}"][pair]) + int(flows[f"port_{e}"][pair]).to_bytes(2) for e in "ab"
    )
    return bytes([int(flows["ip_version"][pair])]) + b"".join(ends)


def _keys(analysis: Analysis, connection: int, fields: tuple[str, ...], first: int | None = None) -> Array:
    """Return the identities of a connection's packets, of all or of the first ones each way."""
    ways = (False, True)
    return np.concatenate(
        [_keys_one_way(analysis, connection, fields, reverse=way, first=first) for way in ways]
    )


def _keys_one_way(
    analysis: Analysis,
    connection: int,
    fields: tuple[str, ...],
    *,
    reverse: bool,
    first: int | None = None,
) -> Array:
    bounds, direction = analysis.partition.bounds, 2 * (connection - 1) + reverse
    rows = analysis.partition.order[bounds[direction] : bounds[direction + 1]][:first]
    return identities(analysis.capture.segments, rows, fields)
