"""Runs in virtual time that several tests look at, made once for all workers of a run of the tests."""

from __future__ import annotations

import fcntl
import hashlib
import io
import pickle
from contextlib import contextmanager
from typing import TYPE_CHECKING, NamedTuple

from multitracer.lab.simulator.run import VirtualRun, record_virtual

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from multitracer.lab.scenario.model import Scenario
    from multitracer.lab.scenario.summary import Summary


class RecordedRun(NamedTuple):
    """A run in virtual time that was recorded."""

    folder: Path
    """Its session; a test that changes it copies it first."""
    summary: Summary


class SharedRuns:
    """Runs each scenario once; a second worker that asks for it waits, and reads what the first one kept."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def of(self, scenario: Scenario) -> Summary:
        """Return what a run comes to."""
        with self._locked(scenario) as kept:
            if not kept.exists():
                kept.write_bytes(pickle.dumps(VirtualRun(scenario).run()))
        return _summary(kept)

    def session(self, scenario: Scenario) -> RecordedRun:
        """Return the session of a run, and what it comes to."""
        with self._locked(scenario) as kept:
            folder = kept.with_suffix("") / scenario.name
            if not folder.exists():
                kept.write_bytes(pickle.dumps(record_virtual(scenario, folder)))
        return RecordedRun(folder, _summary(kept))

    @contextmanager
    def _locked(self, scenario: Scenario) -> Iterator[Path]:
        """Yield where the summary of a scenario is kept, while no other worker makes it."""
        kept = self._folder / f"{_name(scenario)}.summary"
        with kept.with_suffix(".lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield kept


def _name(scenario: Scenario) -> str:
    """Return the same name for equal scenarios, whichever of their values are one object."""
    octets = io.BytesIO()
    pickler = pickle.Pickler(octets)
    pickler.fast = True
    pickler.dump(scenario)
    return hashlib.sha256(octets.getvalue()).hexdigest()


def _summary(kept: Path) -> Summary:
    summary: Summary = pickle.loads(kept.read_bytes())
    return summary
