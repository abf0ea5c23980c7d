"""One diagnosis, one file: `find(diagnosis)` yields a `Finding` for each time that it happened.

A rule reads what `Diagnosis` measures, no finding; it concludes nothing from a log that is missing, asserts
nothing that its evidence merely allows, and names the rows it rests on. A new one is a new file in the
folder of its family, or beside the folders, and is found by its name.
"""

from __future__ import annotations

import importlib
import pkgutil
from functools import partial
from typing import TYPE_CHECKING, Protocol, cast

from multitracer.analysis.parallel import FEWEST_ROWS, in_parallel
from multitracer.diagnosis.diagnosis import rank
from multitracer.diagnosis.finding import ORDER_DIGITS

if TYPE_CHECKING:
    from collections.abc import Iterable

    from multitracer.diagnosis.diagnosis import Diagnosis
    from multitracer.diagnosis.finding import Finding


class Rule(Protocol):
    """What a module of this folder, or of one in it, binds.

    It may also bind `HELP`, one sentence: what would help, for findings that bring none of their own.
    """

    KIND: str
    """Name of its findings, which is that of the file with hyphens: `link-reset`."""

    def find(self, diagnosis: Diagnosis, /) -> Iterable[Finding]:
        """Yield a finding for each time that it happened."""


def _rules() -> tuple[Rule, ...]:
    modules = pkgutil.walk_packages(__path__, f"{__name__}.")
    names = [module.name for module in modules if not module.ispkg]
    rules = (cast("Rule", importlib.import_module(name)) for name in names)
    return tuple(sorted(rules, key=lambda rule: (rank(rule.KIND), rule.KIND)))


RULES = _rules()


def findings(diagnosis: Diagnosis) -> list[Finding]:
    """Return what all rules find, largest cost first, each with what would help."""
    transfer = diagnosis.transfer
    rows = 0 if transfer.recording.inputs.listed else len(transfer.sender)  # one thread parses logs
    if rows >= FEWEST_ROWS:
        diagnosis.measure_shared()
    of_rules = in_parallel(
        [partial(lambda rule: list(rule.find(diagnosis)), rule) for rule in RULES], rows=rows
    )
    concluded = [
        each if each.help else each._replace(help=getattr(rule, "HELP", ""))
        for rule, own in zip(RULES, of_rules, strict=True)
        for each in own
    ]
    return sorted(concluded, key=lambda each: -round(each.cost_s, ORDER_DIGITS))
