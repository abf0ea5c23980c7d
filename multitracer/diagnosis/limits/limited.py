"""What limited one transfer: intervals that partition its time, each with limit, part and confidence."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from multitracer.analysis.group import has
from multitracer.capture import Flag
from multitracer.diagnosis.account.lost_time import account as account_of
from multitracer.diagnosis.limits.at_receiver import at_receiver
from multitracer.diagnosis.limits.at_sender import at_sender, opening
from multitracer.diagnosis.limits.by_link_log import by_link_log
from multitracer.diagnosis.limits.confidence import confidence
from multitracer.diagnosis.limits.doubts import NOT_CAPTURED
from multitracer.diagnosis.limits.idle.quiet import UNTOLD
from multitracer.diagnosis.limits.names import Confidence, Limit, Part, View
from multitracer.diagnosis.limits.partition import Cells, Shown, partition
from multitracer.diagnosis.limits.shares import LimitShare, shares_of
from multitracer.findings import LIMITS
from multitracer.tables import Table
from multitracer.tcp import Vantage
from multitracer.units import NS_PER_S

if TYPE_CHECKING:
    from multitracer.diagnosis.account.lost_time import Account
    from multitracer.diagnosis.limits.observed import Observed
    from multitracer.diagnosis.transfer import Transfer
    from multitracer.tables import Array, Document


_INTERVAL = ("begin_ns", "end_ns", "limit", "part", "confidence", "evidence")
_ONE_TIME = "all packets carry the same time"
_BEGUN_BEFORE = "the connection began before the capture, which holds no data of it"
_NO_DATA_HERE = "no data arrived where it was captured; only the other end knows whether any were sent"


@dataclass(frozen=True)
class Limited:
    """What limited one transfer.

    Attributes
    ----------
    transfer : Transfer
    view : View
        What it was seen from.
    cells : Cells
        T in pieces.
    seen : Observed or None
        The transfer in the time of its sender; None where nothing can be shown, or the link's log tells.
    shown : Shown or None
        What each rule showed.
    reason : str
        Why nothing can be shown, of all of it or of a part; empty otherwise.
    """

    transfer: Transfer
    view: View
    cells: Cells
    seen: Observed | None = None
    shown: Shown | None = None
    reason: str = ""

    @cached_property
    def confidence(self) -> Array:
        """The `Confidence` of each piece, shape (n_pieces,)."""
        return confidence(self.view, self.cells, self.seen)

    @cached_property
    def seconds(self) -> Array:
        """Length of each piece in link time: float64, s, shape (n_pieces,)."""
        return np.asarray((self.cells.end - self.cells.begin) * self.transfer.speed / NS_PER_S)

    @property
    def begin_ns(self) -> int:
        """The connection's first SYN, or what was captured first."""
        return int(self.cells.begin[0]) if len(self.cells.begin) else 0

    @cached_property
    def total_s(self) -> float:
        """T, in link time."""
        return float(self.seconds.sum())

    @cached_property
    def shares(self) -> list[LimitShare]:
        """A row for each limit and part, the largest first."""
        return shares_of(self.cells, self.confidence, self.seconds)

    @cached_property
    def table(self) -> Table:
        """LIMITS."""
        cells = self.cells
        columns = {
            "begin_ns": cells.begin,
            "end_ns": cells.end,
            "limit": np.array([Limit(each).label for each in cells.limit], dtype="U17"),
            "part": np.array([Part(each).label if each else "" for each in cells.part], dtype="U8"),
            "confidence": np.array([Confidence(each).label for each in self.confidence], dtype="U8"),
            "seconds": self.seconds,
            "evidence": self._evidence(),
        }
        return Table(LIMITS, columns, {"view": self.view.label, "reason": self.reason})

    def intervals(self) -> list[Document]:
        """Return every interval as `diagnose --json --intervals` writes it."""
        table, begin = self.table, self.begin_ns
        per_ns = self.transfer.speed / NS_PER_S
        return [
            {
                "begin_ns": left,
                "end_ns": right,
                "begin_s": round((left - begin) * per_ns, 6),
                "end_s": round((right - begin) * per_ns, 6),
                "limit": limit,
                "part": part or None,
                "confidence": sure,
                "evidence": evidence.split(),
            }
            for left, right, limit, part, sure, evidence in zip(
                *(
                    table[name].tolist()
                    for name in ("begin_ns", "end_ns", "limit", "part", "confidence", "evidence")
                ),
                strict=True,
            )
        ]

    def _evidence(self) -> Array:
        """Return the rows of `sender` between which each interval lies: what a reader looks at."""
        time = self.transfer.time_ns
        if not len(time):
            return np.full(len(self.cells.begin), "", dtype="U48")
        first = np.minimum(np.searchsorted(time, self.cells.begin), len(time) - 1)
        last = np.maximum(np.searchsorted(time, self.cells.end, side="right") - 1, first)
        words = [f"sender:{a} sender:{b}" for a, b in zip(first.tolist(), last.tolist(), strict=True)]
        return np.array(words, dtype="U48")


def limited(transfer: Transfer, account: Account | None = None) -> Limited:
    """Return what limited a transfer, by all that is known of it.

    Parameters
    ----------
    transfer : Transfer
    account : Account, optional
        Of the same transfer; where it is measured by the link's log, its classes are mapped onto limits.
    """
    begin, end = _whole(transfer)
    if _never_opened(transfer):
        return Limited(transfer, _view(transfer), _all(begin, end, Limit.HANDSHAKE))
    reason = _untold(transfer)
    if reason:
        return Limited(transfer, View.NOWHERE, _all(begin, end, Limit.UNKNOWN), reason=reason)
    if not len(transfer.data):
        return _without_data(transfer, begin, end)
    if account is not None and not account.inferred:
        return Limited(transfer, View.LINK_LOG, by_link_log(account, begin))
    view = _view(transfer)
    seen = at_receiver(transfer) if view is View.RECEIVER else at_sender(transfer, view)
    if not len(seen.sends) or seen.end_ns <= seen.begin_ns:
        reason = _ONE_TIME if len(seen.sends) else "no data were seen"
        return Limited(transfer, view, _all(begin, end, Limit.UNKNOWN), reason=reason)
    shown = Shown.of(seen)
    cells = partition(seen, shown)
    reason = _unknown(shown) if (cells.limit == Limit.UNKNOWN).any() else ""
    return Limited(transfer, view, cells, seen, shown, reason)


def _unknown(shown: Shown) -> str:
    """Return why the limit of some time is unknown."""
    reasons = ((shown.missing, NOT_CAPTURED), (shown.untold, UNTOLD))
    return "; ".join(words for spans, words in reasons if spans.total_ns)


def _without_data(transfer: Transfer, begin: int, end: int) -> Limited:
    """Return what limited a connection that carried no data this way: opening it, if that was captured.

    What came after the handshake is no part of it: the connection was idle, and nobody waited for data.
    """
    reason = ""
    if (transfer.sender["payload_bytes"] > 0).any():
        reason = "no data were sent in this direction"
    elif _view(transfer) is View.RECEIVER:
        reason = _NO_DATA_HERE
    elif not has(transfer.sender["flags"], Flag.SYN).any():
        reason = _BEGUN_BEFORE
    if reason:
        return Limited(transfer, View.NOWHERE, _all(begin, end, Limit.UNKNOWN), reason=reason)
    _, opened, _ = transfer.once(opening)
    return Limited(transfer, _view(transfer), _all(begin, max(opened, begin), Limit.HANDSHAKE))


def limited_beside_account(transfer: Transfer) -> Limited:
    """Return what limited a transfer whose account will be asked for, too: it is kept in the transfer."""
    if transfer.near is not None:
        return limited(transfer, transfer.once(account_of))
    with transfer.meanwhile(lambda: transfer.once(account_of)):  # inferred, so the limits do not need it
        return limited(transfer)


def _view(transfer: Transfer) -> View:
    """Return what the transfer is seen from."""
    if transfer.layers.vantage is Vantage.NEAR_RECEIVER:
        return View.RECEIVER
    pairs = transfer.data_pairs
    if pairs is not None and transfer.layers.is_related and (pairs.arrived >= 0).any():
        return View.BOTH_ENDS
    return View.SENDER_STATE if len(transfer.state) else View.SENDER


def _never_opened(transfer: Transfer) -> bool:
    """Return whether nothing but SYNs, and refusals of them, was captured."""
    flags = transfer.sender["flags"]
    opening = has(flags, Flag.SYN) | has(flags, Flag.RST)
    return bool(len(flags)) and bool(opening.all()) and bool(has(flags, Flag.SYN).any())


def _untold(transfer: Transfer) -> str:
    """Return why nothing can be shown; empty if something can."""
    if len(transfer.sent) == 0 or len(transfer.sent) == len(transfer.sender):
        return "only one direction was captured" if len(transfer.sender) else "there are no packets of it"
    return ""


def _whole(transfer: Transfer) -> tuple[int, int]:
    time = transfer.time_ns
    if not len(time):
        return 0, 0
    begin, _, _ = transfer.once(opening)
    return begin, max(int(time[-1]), begin)


def _all(begin: int, end: int, limit: Limit) -> Cells:
    one = np.array([0])
    return Cells(one + begin, one + end, one + int(limit), one + int(Part.NONE), one != 0)
