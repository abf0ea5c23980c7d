"""One rule per file: `find(diagnosis)` yields a `Finding` for each occurrence of one problem.

A rule reads the measurements of a `Diagnosis`, not other findings. It concludes nothing from a missing log,
asserts nothing that its evidence merely allows, and names the rows that support it. A new rule is a new file
in the folder of its family, or beside the folders; it is found by its name.
"""

from __future__ import annotations

import importlib
import pkgutil
from functools import partial
from typing import TYPE_CHECKING, Protocol, cast

from multitracer.analysis.parallel import FEWEST_ROWS, in_parallel
from multitracer.diagnosis.finding import ORDER_DIGITS, rank

if TYPE_CHECKING:
    from collections.abc import Iterable

    from multitracer.diagnosis.diagnosis import Diagnosis
    from multitracer.diagnosis.finding import Finding
    from multitracer.recording.transfer import Transfer


class Rule(Protocol):
    """The names that each rule module defines.

    A module may also define `HELP`, one sentence: the remedy, for findings without one of their own; and `WHEN`, the
    name of a property of `Diagnosis`: the rule is asked only if that is true. A module about one piece of evidence
    with several kinds has them as `RULES`, objects with these names.
    """

    KIND: str
    """Kind of its findings: the name of the file with hyphens, for example `link-reset`."""

    def find(self, diagnosis: Diagnosis, /) -> Iterable[Finding]:
        """Yield a finding for each occurrence."""


def _rules() -> tuple[Rule, ...]:
    modules = pkgutil.walk_packages(__path__, f"{__name__}.")
    names = [module.name for module in modules if not module.ispkg]
    imported = [importlib.import_module(name) for name in names]
    rules = [rule for module in imported for rule in getattr(module, "RULES", [cast("Rule", module)])]
    return tuple(sorted(rules, key=lambda rule: (rank(rule.KIND), rule.KIND)))


RULES = _rules()


def findings(diagnosis: Diagnosis) -> list[Finding]:
    """Return the findings of all rules, those with the most lost time first; each has a remedy."""
    transfer = diagnosis.transfer
    rows = 0 if transfer.recording.inputs.listed else len(transfer.sender)  # one thread parses logs
    if rows >= FEWEST_ROWS:
        diagnosis.measure_shared()
    conditions = [getattr(rule, "WHEN", None) for rule in RULES]
    rules = [rule for rule, when in zip(RULES, conditions, strict=True) if when is None or getattr(diagnosis, when)]
    of_rules = in_parallel([partial(lambda rule: list(rule.find(diagnosis)), rule) for rule in rules], rows=rows)
    concluded = [
        each._replace(help=each.help or getattr(rule, "HELP", ""), reverse=transfer.reverse)
        for rule, own in zip(rules, of_rules, strict=True)
        for each in own
        if not transfer.clock_steps or not _rests_on_steps(transfer, rule, each)
    ]
    return sorted(concluded, key=lambda each: -round(each.cost_s, ORDER_DIGITS))


_OF_DELAYS = tuple(f"{__name__}.{family}." for family in ("delay", "limits", "link"))
"""Families of rules that compare times of the whole transfer."""


def _rests_on_steps(transfer: Transfer, rule: Rule, finding: Finding) -> bool:
    """Return whether a finding compares times of before and after a step of the capture's clock."""
    if rule.find.__module__.startswith(_OF_DELAYS):
        return True
    time_ns = transfer.at_sender.capture.tables.segments["time_ns"]
    for step in transfer.clock_steps:
        around = sorted((int(time_ns[step.before_row]), int(time_ns[step.after_row])))
        if finding.begin_ns <= around[0] and finding.end_ns >= around[1]:
            return True
    return False
