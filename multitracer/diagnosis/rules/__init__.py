"""One diagnosis, one file: `find(case)` yields a `Finding` for each time that it happened.

A rule reads only what `Case` holds, concludes nothing from a log that is missing, asserts nothing that its
evidence merely allows, and names the rows it rests on. A new one is a new file in the folder of its family,
or beside the folders, and is found by its name.
"""

from __future__ import annotations

import importlib
import pkgutil
from functools import partial
from typing import TYPE_CHECKING, Protocol, cast

from multitracer.analysis.parallel import FEWEST_ROWS, in_parallel

if TYPE_CHECKING:
    from collections.abc import Iterable

    from multitracer.diagnosis.case import Case, Finding


class Rule(Protocol):
    """What a module of this folder, or of one in it, binds.

    It may also bind `HELP`, one sentence: what would help, for findings that bring none of their own.
    """

    KIND: str
    """Name of its findings, which is that of the file with hyphens: `link-reset`."""

    def find(self, case: Case, /) -> Iterable[Finding]:
        """Yield a finding for each time that it happened."""


FIRST_CAUSES = (
    "dropped-call",
    "syn-unanswered",
    "connection-refused",
    "idle-timeout",
    "reset-by-peer",
    "path-mtu-black-hole",
    "handover",
    "blackout",
    "outage",
    "link-reset",
    "header-decompressor-failure",
    "policer",
    "ack-loss",
    "exponential-back-off",
    "spurious-timeout",
    "competing-retransmission",
    "local-buffer-overflow",
    "congestion-loss",
    "random-loss",
    "rlp-retransmission-burst",
    "radio-limited",
    "link-flow-control",
    "bufferbloat",
    "overbuffered-link",
    "stale-data",
)
"""Kinds, causes before what they lead to: the order of findings of equal cost; others follow by name."""


def rank(kind: str) -> int:
    """Return the place of a kind among the causes; those that are not listed come last."""
    return FIRST_CAUSES.index(kind) if kind in FIRST_CAUSES else len(FIRST_CAUSES)


def _rules() -> tuple[Rule, ...]:
    modules = pkgutil.walk_packages(__path__, f"{__name__}.")
    names = [module.name for module in modules if not module.ispkg]
    rules = (cast("Rule", importlib.import_module(name)) for name in names)
    return tuple(sorted(rules, key=lambda rule: (rank(rule.KIND), rule.KIND)))


RULES = _rules()


def _findings_of(rule: Rule, case: Case) -> list[Finding]:
    return list(rule.find(case))


def findings(case: Case) -> list[Finding]:
    """Return what all rules find, largest cost first, each with what would help."""
    transfer = case.transfer
    is_alone = transfer.recording is None or not transfer.recording.inputs.listed  # one thread parses logs
    rows = len(transfer.sender) if is_alone else 0
    if rows >= FEWEST_ROWS:
        case.measure_shared()
    of_rules = in_parallel([partial(_findings_of, rule, case) for rule in RULES], rows=rows)
    concluded = [
        each if each.help else each._replace(help=getattr(rule, "HELP", ""))
        for rule, own in zip(RULES, of_rules, strict=True)
        for each in own
    ]
    return sorted(concluded, key=lambda each: -each.cost_s)
