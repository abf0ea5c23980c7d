"""Packets were lost though no queue was full: the link itself loses them, such as a radio or a bad cable."""

from __future__ import annotations

from typing import TYPE_CHECKING

from multitracer.diagnosis.loss_causes import loss_finding, losses
from multitracer.diagnosis.policing import policer

if TYPE_CHECKING:
    from collections.abc import Iterator

    from multitracer.diagnosis.case import Case, Finding

KIND = "random-loss"
HELP = "A better signal, cable or port; a congestion control that takes no loss for a full queue (BBR)."


def find(case: Case) -> Iterator[Finding]:
    """Yield at most one finding, of the whole transfer."""
    found = losses(case)
    if found is None or not found.is_chance or policer(case, suspected=True) is not None:
        return
    sentence = (
        "{count:,} packets ({share:.2%}) were lost though no queue was full: those before them had waited "
        f"{found.waited_s:.4f} s only."
    )
    yield loss_finding(case, KIND, found, sentence)
