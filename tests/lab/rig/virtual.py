"""Measurements in virtual time for tests: a link, a plan, and what a run of them left."""

from __future__ import annotations

import csv
from typing import TYPE_CHECKING, Any

from multitracer.lab.rig.virtual import run_virtual
from multitracer.lab.scenario.library import parse_scenario
from multitracer.measure.plan import Experiment, MeasurementPlan

if TYPE_CHECKING:
    from pathlib import Path

    from multitracer.lab.scenario.model import Scenario
    from multitracer.measure.plan import Connection, ProtocolName, Varied

CLEAN = """
[link]
kind = "gsm"
[[traffic]]
bytes = 1
"""
LOSSY = """
[link]
n2 = 20
[link.up]
kind = "gilbert-elliott"
good_s = 3
bad_s = 0.5
good_rate = 0.01
bad_rate = 0.8
[link.queue]
limit_packets = 4
[clock]
offset_s = 0.25
skew_ppm = 40
[[traffic]]
bytes = 1
"""
"""Frames are lost in bursts, the interface queue is short, and the fixed host's clock is wrong."""


def link(text: str = CLEAN) -> Scenario:
    """Return the scenario of a TOML text."""

    def no_trace(name: str) -> Any:
        raise AssertionError(name)

    return parse_scenario(text, name="test", path="test.toml", read_trace=no_trace)


def plan(
    protocol: ProtocolName,
    sizes: tuple[int, ...] = (64, 1500),
    sessions: int = 4,
    *,
    connection: Connection = "one",
    timeout_s: float = 60.0,
    vary: Varied = "request",
) -> MeasurementPlan:
    """Return a plan that varies one message, by default the request."""
    experiment = Experiment(vary, sizes, sessions, connection=connection)
    return MeasurementPlan(protocol, "", (experiment,), timeout_s, labels={"where": "here"})


def run(what: MeasurementPlan, folder: Path, scenario: Scenario, **more: Any) -> list[dict[str, str]]:
    """Carry a plan out, and return the lines of its transactions.csv."""
    run_virtual(what, folder, scenario, progress=lambda *_: None, **more)
    return rows(folder)


def rows(folder: Path) -> list[dict[str, str]]:
    """Return the lines of a transactions.csv."""
    with (folder / "transactions.csv").open(newline="", encoding="utf-8") as stream:
        return list(csv.DictReader(stream))
