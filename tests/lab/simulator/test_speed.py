"""How much processor time a recorded run in virtual time takes: who varies a number makes hundreds."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import pytest

from multitracer.lab.scenario.library import load_scenario
from multitracer.lab.simulator.record import record_virtual
from tests.lab.rig.virtual import link
from tests.lab.simulator.test_flows import traffic

if TYPE_CHECKING:
    from pathlib import Path

    from multitracer.lab.scenario.model import Scenario

pytestmark = pytest.mark.realtime


def processor_s(scenario: Scenario, folder: Path) -> float:
    began_s = time.process_time()
    summary = record_virtual(scenario, folder)
    assert sum(flow.delivered_packets for flow in summary.flows) > 150
    return time.process_time() - began_s


@pytest.mark.parametrize("transport", ["wtcp", "newreno"])
def test_three_flows_for_450_s_cost_less_than_three(transport: str, tmp_path: Path) -> None:
    """As 2 s for 300 s of the link."""
    scenario = load_scenario("wtcp-fig5").with_transport(transport)
    assert (len(scenario.traffic), scenario.limit_s) == (3, 450)
    assert processor_s(scenario, tmp_path / "run") < 3


@pytest.mark.parametrize(("transport", "direction"), [("wtcp", "up"), ("newreno", "up"), ("newreno", "down")])
def test_30_mobiles_for_six_minutes_cost_less_than_six(transport: str, direction: str, tmp_path: Path) -> None:
    """A tenth of an hour, which may cost a minute."""
    cell = 'limit_s = 360\n[tcp]\nmtu_bytes = 500\n[link]\nkind = "cdpd"\nmobiles = 30\n' + "".join(
        traffic(host=f"mobile-{k}", bytes=10_000_000, transport=transport, direction=direction, start_s=k)
        for k in range(1, 31)
    )
    assert processor_s(link(cell), tmp_path / "run") < 6
