"""One diagnosis, one file: `find(case)` yields a `Finding` for each time that it happened.

A rule reads only what `Transfer` and `Account` hold, concludes nothing from a log that is missing, and names
the rows it rests on. A new one is a new file, which is found by its name.
"""

from __future__ import annotations

import importlib
import pkgutil
from typing import TYPE_CHECKING, Protocol, cast

if TYPE_CHECKING:
    from collections.abc import Iterable

    from multitracer.diagnosis.case import Case, Finding


class Rule(Protocol):
    """What a module of this folder binds."""

    KIND: str
    """Name of its findings, which is that of the file with hyphens: `link-reset`."""

    def find(self, case: Case, /) -> Iterable[Finding]:
        """Yield a finding for each time that it happened."""


_FIRST = (
    "dropped_call",
    "blackout",
    "link_reset",
    "header_decompressor_failure",
    "ack_loss",
    "exponential_back_off",
    "spurious_timeout",
    "competing_retransmission",
    "local_buffer_overflow",
    "rlp_retransmission_burst",
    "radio_limited",
    "handover",
    "link_flow_control",
    "overbuffered_link",
    "stale_data",
)
"""The order in which findings of equal cost are shown: causes before what they lead to; others follow."""


def _rules() -> tuple[Rule, ...]:
    names = sorted(module.name for module in pkgutil.iter_modules(__path__))
    ordered = [*_FIRST, *(name for name in names if name not in _FIRST)]
    return tuple(cast("Rule", importlib.import_module(f"{__name__}.{name}")) for name in ordered)


RULES = _rules()
