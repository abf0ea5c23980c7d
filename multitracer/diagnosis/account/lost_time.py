"""The lost-time account of a transfer: what each moment was used for, and the utilization of the channel.

Paper 004, sections 4.3 and 5.1::

    utilization = 1 - (T_idle + T_redundant) / (T - T_app)

measured at the link sender of the data direction, in link time; docs/lost_time.md tells the rules.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from multitracer.diagnosis.account.by_bursts import by_bursts, has_bursts
from multitracer.diagnosis.account.by_packets import inferred
from multitracer.diagnosis.account.by_slots import measured
from multitracer.diagnosis.account.uses import LOST, SAYS, WASTED_SAYS, Use, UseCause

if TYPE_CHECKING:
    from multitracer.diagnosis.join import Join
    from multitracer.diagnosis.transfer import Transfer
    from multitracer.tables import Table

_PERCENT = 100  # percent in a whole
_WORTH_A_WORD = 0.1
"""Part of a class of time that a cause must have made of it to be named with it."""


@dataclass(frozen=True)
class Account:
    """Where the time of one transfer went.

    Attributes
    ----------
    transfer : Transfer
    uses : Table
        LINK_USE, in order of time.
    total_s : float
        T: link time from the sender's first SYN to the ACK of its last byte (of the FIN, if it was sent).
    outcome : str
        "complete", or "dropped": the last byte was never acknowledged.
    inferred : bool
        Concluded from packets and the sender's TCP, without a log of the link.
    joined : Join or None
        Segments, packets and frames, where the link was logged.
    """

    transfer: Transfer
    uses: Table
    total_s: float
    outcome: str
    inferred: bool
    joined: Join | None

    @cached_property
    def seconds(self) -> dict[Use, float]:
        """Link time of every class, those of none with 0; they sum to `total_s`."""
        sums = np.bincount(self.uses["use"], self.uses["seconds"], minlength=len(Use))
        return {use: float(sums[use]) for use in Use}

    @property
    def lost_s(self) -> float:
        """T_idle + T_redundant."""
        return sum(self.seconds[use] for use in LOST)

    @property
    def utilization(self) -> float:
        """Part of the time that the link neither waited for TCP nor worked in vain; NaN if nothing tells."""
        available_s = self.total_s - self.seconds[Use.IDLE_APP]
        if available_s <= 0 or self.seconds[Use.UNKNOWN] >= available_s:
            return math.nan
        return max(0.0, 1 - self.lost_s / available_s)

    def says(self, use: Use) -> str:
        """Return in words what a class of time was used for: of `wasted` what became of most of the data."""
        mine = self.uses["use"] == use
        if use is not Use.WASTED or not mine.any():
            return SAYS[use]
        sums = np.bincount(self.uses["cause"][mine], self.uses["seconds"][mine])
        causes = [UseCause(cause) for cause in np.argsort(-sums) if sums[cause] >= _WORTH_A_WORD * sums.sum()]
        return f"data were sent that {' or '.join(WASTED_SAYS[cause] for cause in causes)}"

    @property
    def far_buffer_s(self) -> float:
        """Time of idle gaps in which the far end still read what the link had brought: part of `xoff`."""
        chosen = self.uses["cause"] == UseCause.FAR_BUFFER
        return float(self.uses["seconds"][chosen].sum())

    @property
    def rounded_up_percent(self) -> int | None:
        """The utilization as figure 6 of the paper counts it: 99 < u <= 100 is 100; None if it is NaN."""
        share = self.utilization
        return None if math.isnan(share) else math.ceil(round(share * _PERCENT, 9))

    @property
    def payload_bytes(self) -> int:
        """Payload that the receiving TCP got first, and intact."""
        return round(float(self.uses["payload_bytes"].sum()))


def account(transfer: Transfer) -> Account:
    """Return the account of a transfer, measured where the link was logged at its sender, else inferred."""
    joined = transfer.joined
    is_logged = joined is not None or (has_bursts(transfer.near) and len(transfer.sent) > 0)
    rest = by_bursts if is_logged else inferred
    uses = measured(transfer, joined) if joined is not None else rest(transfer)
    outcome = "complete" if transfer.is_complete else "dropped"
    return Account(transfer, uses, float(uses["seconds"].sum()), outcome, not is_logged, joined)
