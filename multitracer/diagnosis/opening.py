"""How a connection was opened and ended, in both directions, whoever sends the data."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from multitracer.analysis import Kind
from multitracer.analysis.group import has
from multitracer.capture import Flag, Mark
from multitracer.tables import NA

if TYPE_CHECKING:
    from multitracer.diagnosis.transfer import Transfer
    from multitracer.tables import Array


class Opening:
    """The handshake and the resets of a transfer's connection, as rows of `sender`.

    Parameters
    ----------
    transfer : Transfer
    """

    def __init__(self, transfer: Transfer) -> None:
        self.transfer = transfer
        self._table = transfer.sender
        self._flags = self._table["flags"]
        self._once = (self._table["kind"] & np.uint32(Kind.CAPTURE_DUPLICATE)) == 0

    @cached_property
    def syns(self) -> Array:
        """Rows of each SYN of the initiator."""
        return self._rows(has(self._flags, Flag.SYN) & ~has(self._flags, Flag.ACK))

    @cached_property
    def syn_acks(self) -> Array:
        """Rows of each SYN-ACK of the responder."""
        return self._rows(has(self._flags, Flag.SYN) & has(self._flags, Flag.ACK))

    @cached_property
    def resets(self) -> Array:
        """Rows of each reset."""
        return self._rows(has(self._flags, Flag.RST))

    def _rows(self, chosen: Array) -> Array:
        return np.flatnonzero(chosen & self._once)

    @property
    def responder(self) -> Array:
        """Rows of what the responder sent."""
        return np.flatnonzero(self._table["reverse"])

    @property
    def is_heard_only(self) -> bool:
        """Whether the initiator sent nothing but SYNs, and a reset at most: it was never answered by data."""
        mine = self._flags[~self._table["reverse"]]
        return bool(has(mine, Flag.SYN | Flag.RST).all())

    @cached_property
    def answered_syn(self) -> int:
        """Row of the SYN that the first SYN-ACK answers; NA without one, or if that cannot be told.

        By the echoed timestamp, or as the only one sent before it.
        """
        if not len(self.syn_acks) or not len(self.syns):
            return NA
        answer = int(self.syn_acks[0])
        before = self.syns[self.syns < answer]
        if len(before) == 1:
            return int(before[0])
        if has(self._table["marks"][[answer, *before]], Mark.HAS_TIMESTAMPS).all():
            same = before[self._table["tsval"][before] == self._table["tsecr"][answer]]
            return int(same[0]) if len(same) == 1 else NA
        return NA

    def idle_ns(self, row: int) -> int:
        """Return how long nothing but keep-alives had passed, with nothing outstanding, before a row."""
        kind = np.uint32(Kind.KEEP_ALIVE)
        real = np.flatnonzero((self._table["kind"][:row] & kind) == 0)
        real = real[(self._table["payload_bytes"][real] > 0) | has(self._flags[real], Flag.SYN | Flag.FIN)]
        if not len(real):
            return 0
        covered = self._covered_ns(int(real[-1]), row)
        return 0 if covered is None else int(self._table["time_ns"][row]) - covered

    def _covered_ns(self, last: int, before: int) -> int | None:
        """Return when the last thing sent before a row was acknowledged; None if it was not by then."""
        other = self._table["reverse"] != self._table["reverse"][last]
        covers = other & (self._table["ack_bytes"] >= self._table["end_bytes"][last])
        rows = np.flatnonzero(covers[last:before]) + last
        return int(self._table["time_ns"][rows[0]]) if len(rows) else None
