"""Recorded data calls beside the same scenarios in virtual time, there with what Linux does otherwise.

The BSD of a scenario shrinks its window when its own interface drops a packet, and is Reno; Linux without
SACK is NewReno, and hears nothing of a drop in the link's queue.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import pytest

from multitracer.scenario import Scenario, load_scenario
from multitracer.simulator.run import VirtualRun
from tests.conftest import SAMPLES

if TYPE_CHECKING:
    from pathlib import Path

CALLS = sorted(path.parent for path in SAMPLES.glob("*/expected.json"))
OTHER_GOODPUT = {"fig4-slow-start", "fig10-backoff"}
"""A loss so near the end that only the timer repairs it; a timer that stood elsewhere and was doubled."""
OTHER_TIMER = {*OTHER_GOODPUT, "second-connection", "clock-shift", "sack-modern"}
"""Also a SYN that Linux repeats each second, and a present TCP with TLP and RACK."""
TOLD = "local-drop-ring"
"""Linux sends again what its own device refused, and does not count that."""


@dataclass(frozen=True)
class Pair:
    """What the two runs of one scenario showed."""

    name: str
    real: dict[str, Any]
    virtual: dict[str, Any]


@pytest.fixture(scope="module", params=CALLS, ids=lambda folder: folder.name)
def pair(request: pytest.FixtureRequest) -> Pair:
    folder: Path = request.param
    scenario = load_scenario(str(folder / "scenario.toml"))
    virtual = VirtualRun(like_linux(scenario)).run().document()
    return Pair(folder.name, json.loads((folder / "summary.json").read_text()), virtual)


def like_linux(scenario: Scenario) -> Scenario:
    changed = {
        host: replace(scenario.profile(host), congestion="newreno", quench_on_local_drop=False)
        for host in ("mobile", "fixed")
        if scenario.profile(host).quench_on_local_drop
    }
    return replace(scenario, **changed)  # type: ignore[arg-type]


def test_goodput_agrees(pair: Pair) -> None:
    close = pytest.approx(pair.virtual["goodput_bytes_per_s"], rel=0.03)
    assert (pair.real["goodput_bytes_per_s"] == close) == (pair.name not in OTHER_GOODPUT)


def test_the_link_did_the_same(pair: Pair) -> None:
    assert pair.real["rlp_resets"] == pair.virtual["rlp_resets"]
    assert pair.real["rlp_retransmissions"] == pytest.approx(pair.virtual["rlp_retransmissions"], rel=0.15)
    assert pair.real["rlp_slope_bytes_per_s"] == pytest.approx(
        pair.virtual["rlp_slope_bytes_per_s"], rel=0.35
    )


def test_tcp_repaired_as_much(pair: Pair) -> None:
    real, virtual = (each["tcp_retransmissions"] for each in (pair.real, pair.virtual))
    if pair.name == TOLD:
        assert real == 0 < virtual
    elif pair.name not in OTHER_TIMER or virtual == 0:
        assert virtual <= real + 5
        assert real <= 2 * virtual + 3


def test_timeouts_are_where_the_scenario_makes_them(pair: Pair) -> None:
    if pair.name not in OTHER_TIMER:
        assert pair.real["tcp_timeouts"] == pair.virtual["tcp_timeouts"]
    assert (pair.real["checksum_errors"] > 0) == (pair.virtual["checksum_errors"] > 0)
