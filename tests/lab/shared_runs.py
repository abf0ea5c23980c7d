"""Summaries of runs in virtual time that several tests look at, made once for all workers of a run of the tests."""

from __future__ import annotations

import fcntl
import hashlib
import pickle
from typing import TYPE_CHECKING

from multitracer.lab.simulator.run import VirtualRun

if TYPE_CHECKING:
    from pathlib import Path

    from multitracer.lab.scenario.model import Scenario
    from multitracer.lab.scenario.summary import Summary


class SharedSummaries:
    """Runs each scenario once; a second worker that asks for it waits, and reads what the first one kept."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def of(self, scenario: Scenario) -> Summary:
        """Return what a run comes to."""
        name = hashlib.sha256(pickle.dumps(scenario)).hexdigest()
        kept = self._folder / f"{name}.summary"
        with kept.with_suffix(".lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not kept.exists():
                kept.write_bytes(pickle.dumps(VirtualRun(scenario).run()))
        summary: Summary = pickle.loads(kept.read_bytes())
        return summary
