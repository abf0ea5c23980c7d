"""The transactions of a recording, and the manifest facts that distinguish its variant in an experiment."""

from __future__ import annotations

from typing import TYPE_CHECKING

from multitracer.analysis.transports import SessionContent
from multitracer.manifest import Variables
from multitracer.schemas.transactions import TRANSACTIONS
from multitracer.tables import Table

if TYPE_CHECKING:
    from multitracer.recording.inputs import Inputs
    from multitracer.recording.recording import Recording

LAYER = "transactions"
_LONGEST = 60
"""Maximum length of a fact, in characters."""


def is_over_tcp(inputs: Inputs) -> bool:
    """Return whether the transactions used TCP: only then does a capture of them hold connections."""
    plan = inputs.manifest.variables.measurement if inputs.manifest else None
    return plan is None or plan.protocol == "tcp"


def source_of(recording: Recording) -> SessionContent:
    """Return the transactions of a recording, and the facts of the measurement from its manifest.

    Unusable lines of transactions.csv add a warning to the recording.
    """
    tables = []
    for log, table in recording.tables(LAYER, TRANSACTIONS.name):
        for reason, lines in (table.provenance.get("skipped") or {}).items():
            recording.warn_once(f"{log.path}: {lines:,} lines skipped: {reason}")
        tables.append(table)
    return SessionContent(recording.name, Table.concatenate(TRANSACTIONS, tables), _facts(recording), recording.speed)


def _facts(recording: Recording) -> dict[str, str]:
    """Return the facts of the manifest about the measurement that distinguish the variants, in words."""
    variables = recording.manifest.variables if recording.manifest else Variables()
    facts = {
        "link": variables.link or "",
        "tcp_profile": variables.tcp_profile or "",
        "extensions": ", ".join(variables.extensions or []).replace("_", " ").lower(),
        "time": {None: "", True: "virtual time", False: "real time"}[variables.virtual],
        "speed": f"{recording.speed:g} times as fast" if recording.speed != 1 else "",
    }
    return {name: _short(value) for name, value in facts.items() if value}


def _short(text: str) -> str:
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…"
