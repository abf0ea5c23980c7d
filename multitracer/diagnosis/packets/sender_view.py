"""What the sender knew at a moment: flight, windows, waiting data, and whether its buffer was full.

A moment is a row of the sender's capture; each method takes many of them at once. Variables come from the log
of the sender's TCP; without a log they are NA, never estimated.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from multitracer.analysis import SegmentKind
from multitracer.analysis.intervals import places
from multitracer.analysis.sender_state import applied
from multitracer.protocols.sock_diag import ReadBy
from multitracer.tables import NA, NOT_A_TIME
from multitracer.units import NS_PER_MS

if TYPE_CHECKING:
    from multitracer.recording.transfer import Transfer
    from multitracer.tables import Array, Table

_REACTION_NS = 2 * NS_PER_MS
"""Maximum recorded time, in ns, in which TCP answers a segment: at once in virtual time, in 0.3 ms on a busy machine.
"""


class SenderView:
    """The state of a transfer's sender at given moments.

    Moments are rows of `transfer.sender`: `rows` is int64, shape (n,). Each method returns an array of the
    same shape: int64 (units or bytes; NA if unknown), or bool for a yes-no question.

    Parameters
    ----------
    transfer : Transfer
    """

    def __init__(self, transfer: Transfer) -> None:
        self.transfer = transfer
        self._table = transfer.sender
        self._time = transfer.time_ns

    def trigger(self, rows: Array) -> Array:
        """Return for each row the row of the peer's segment that made the sender send it.

        It is NA if a timer or the application caused the row.
        """
        if not len(self.transfer.acks):
            return np.full(len(rows), NA, dtype=np.int64)
        at = np.searchsorted(self.transfer.acks, rows) - 1
        last = self.transfer.acks[np.maximum(at, 0)]
        late = self._time[rows] - self._time[last] > _REACTION_NS
        return np.where((at < 0) | late, NA, last)

    # --- from the capture ---

    def flight_bytes(self, rows: Array) -> Array:
        """Return the bytes outstanding after each row: highest end sent minus highest ACK received."""
        sent = _so_far(self.transfer.occupying, self._highest_sent, rows)
        return np.asarray(np.maximum(sent - np.maximum(self.acknowledged_by(rows), 0), 0))

    def acknowledged_by(self, rows: Array) -> Array:
        """Return the highest ACK number up to each row; 0 before the first ACK."""
        return _so_far(self.transfer.acks, self.highest_acked, rows)

    def in_recovery(self, rows: Array) -> Array:
        """Return whether a retransmission was not yet acknowledged at each row."""
        again, highest = self._retransmissions
        return np.asarray(_so_far(again, highest, rows) > self.acknowledged_by(rows))

    # Accumulated once: a transfer with a thousand timeouts is asked for each of them.

    @cached_property
    def _highest_sent(self) -> Array:
        return np.asarray(np.maximum.accumulate(self._table["end_bytes"][self.transfer.occupying]))

    @cached_property
    def highest_acked(self) -> Array:
        """The highest ACK so far, at each row of `transfer.acks`."""
        return np.asarray(np.maximum.accumulate(self._table["ack_bytes"][self.transfer.acks]))

    @cached_property
    def _retransmissions(self) -> tuple[Array, Array]:
        """Return the rows of retransmissions, and the highest end of all retransmissions up to each."""
        again = self.transfer.occupying[
            (self._table["kind"][self.transfer.occupying] & np.uint32(SegmentKind.RETRANSMISSION)) != 0
        ]
        return again, np.asarray(np.maximum.accumulate(self._table["end_bytes"][again]))

    def window_bytes(self, rows: Array) -> Array:
        """Return the last advertised window at each row, in bytes; NA before the first one."""
        at = np.searchsorted(self.transfer.acks, rows, side="right") - 1
        if not len(self.transfer.acks):
            return np.full(len(rows), NA, dtype=np.int64)
        last = self.transfer.acks[np.maximum(at, 0)]
        return np.where(at < 0, NA, self._table["window_bytes"][last])

    # --- from the log of the sender's TCP ---

    @cached_property
    def _readings(self) -> tuple[Table, Array, Table, Array]:
        """Return the sender's readings in four parts.

        They are: the table of all readings; the rows of the polled ones; the table of those from the kernel's
        trace points; and the times of the polled ones, followed by the times of the traced ones.
        """
        state = self.transfer.state
        polled = np.flatnonzero(state["method"] != ReadBy.TCP_PROBE)
        probed = applied(state, events=self.transfer.events)
        return state, polled, probed, np.concatenate([state["time_ns"][polled], probed["time_ns"]])

    @cached_property
    def _known(self) -> dict[str, tuple[Array, Array]]:
        return {}

    def _series(self, column: str) -> tuple[Array, Array]:
        """Return the times and values of a variable, without readings that lack it."""
        if column not in self._known:
            state, polled, probed, time = self._readings
            value = np.concatenate([state[column][polled], probed[column]])
            tells = np.flatnonzero((value != NA) & (value != NOT_A_TIME))
            order = tells[np.argsort(time[tells], kind="stable")]
            self._known[column] = time[order], value[order]
        return self._known[column]

    def variable_before(self, column: str, rows: Array) -> Array:
        """Return the last value of a variable read before each row; NA before the first reading."""
        time, value = self._series(column)
        return np.append(value, NA)[np.searchsorted(time, self._time[rows]) - 1]

    def buffer_is_full(self, rows: Array, until: Array) -> Array:
        """Return whether a full send buffer blocked the application between two rows.

        The kernel's count of this time decides; if it is not logged, the buffer size in the manifest does.
        """
        before = self.variable_before("sndbuf_limited_ns", rows)
        time, value = self._series("sndbuf_limited_ns")
        following, last = (np.searchsorted(time, self._time[until], side=side) for side in ("left", "right"))
        after = np.append(value, NA)[np.maximum(following, last - 1)]  # of several at once the last
        full = (before != NA) & (after > before)
        size = self._buffer_bytes
        return np.asarray(full if size is None else full | (self.variable_before("send_queue_bytes", until) >= size))

    @cached_property
    def _buffer_bytes(self) -> int | None:
        """Send buffer size of the sender's host in the manifest, in bytes; None if it has none."""
        near = self.transfer.near
        host = near.host if near is not None else self.transfer.at_sender.host
        profile = self.transfer.variables.parameters.get(host)
        size = profile.get("send_buffer_bytes") if isinstance(profile, dict) else None
        return size if isinstance(size, int) and size > 0 else None


def _so_far(among: Array, highest: Array, rows: Array) -> Array:
    """Return the highest value up to each of `rows`; 0 before the first value.

    `highest` is the running maximum at the rows `among`.
    """
    if not len(among):
        return np.zeros(len(rows), dtype=np.int64)
    if len(rows) == 1:  # thousands of dead times ask for one row each
        last = among.searchsorted(rows[0], side="right") - 1
        return highest[[last]] if last >= 0 else np.zeros(1, dtype=np.int64)
    at = places(among, rows, "right") - 1
    return np.where(at < 0, 0, highest[np.maximum(at, 0)])
