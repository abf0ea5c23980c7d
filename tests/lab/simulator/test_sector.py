"""Runs over cdma2000: what is recorded of radio and rates, the paper's control, and what it costs."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pytest

import multitracer as mt
from multitracer.analysis.common_grid import SessionQuantity
from multitracer.lab.channel.cdma2000 import mean_rate_bps
from multitracer.lab.channel.cdma2000_radio import Cdma2000Config
from multitracer.lab.scenario.library import load_scenario
from multitracer.lab.scenario.model import ScenarioTraffic
from multitracer.lab.simulator.network import NetworkObserver
from multitracer.lab.simulator.run import VirtualRun, record_virtual
from multitracer.protocols.link_events import STREAM_BITS, RateAssigned
from multitracer.recording.inputs import find_inputs
from multitracer.recording.quantities import Quantities
from multitracer.recording.read import read

if TYPE_CHECKING:
    from pathlib import Path

    from multitracer.lab.scenario.model import Scenario
    from multitracer.protocols.link_events import LinkEvent

MOBILES = 4


class Rates(NetworkObserver):
    """Keeps the rates that the fixed side assigned."""

    def __init__(self) -> None:
        self.events: list[LinkEvent] = []

    def link_events(self, host: str, events: list[LinkEvent]) -> None:
        if host == "fixed":
            self.events += [event for event in events if isinstance(event, RateAssigned)]


def measured(scenario: Scenario) -> tuple[float, float]:
    """Return the rate of the first flow and its mean assigned rate, in bit/s."""
    rates = Rates()
    run = VirtualRun(scenario, observers=[rates])
    summary = run.run()
    assigned = mean_rate_bps(rates.events, until_ns=run.network.now_ns)
    assert assigned is not None
    assert summary.flows[0].rate_bps is not None
    return summary.flows[0].rate_bps, assigned


def control(scenario: Scenario, mean_bps: float, rate: str = "mean") -> Scenario:
    assert isinstance(scenario.link, Cdma2000Config)
    link = replace(scenario.link, rate=rate, mean_bits_per_s=round(mean_bps))  # type: ignore[arg-type]
    return replace(scenario, link=link)


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("sector") / "run"
    record_virtual(load_scenario("cdma2000-sector"), folder)
    return folder


def test_the_control_has_the_same_mean_rate_and_is_faster() -> None:
    scenario = load_scenario("cdma2000-download")
    delivered, assigned = measured(scenario)
    steady, steady_assigned = measured(control(scenario, assigned))
    assert steady_assigned == pytest.approx(assigned, rel=0.01)
    assert steady > 1.15 * delivered  # 135 and 109 kbit/s
    alike, alike_assigned = measured(control(scenario, assigned, "mean-rlp"))
    assert alike_assigned == pytest.approx(assigned, rel=0.01)
    assert alike == pytest.approx(delivered, rel=0.1)  # headers, errors and RLP are the difference, not TCP


def test_a_small_window_is_assigned_a_lower_rate() -> None:
    def assigned(kilobytes: int) -> float:
        scenario = load_scenario("cdma2000-download")
        mobile = replace(scenario.mobile, receive_buffer_bytes=kilobytes << 10)
        return measured(replace(scenario, mobile=mobile))[1]

    assert assigned(8) < 0.6 * assigned(16) < 0.6 * assigned(32)


def test_the_radio_of_each_mobile_is_recorded_and_read(recorded: Path) -> None:
    session = mt.open(recorded)
    assert session.warnings == []
    radio = session.table("radio", "radio")
    assert set(radio["host"]) == {f"mobile-{number}" for number in range(1, MOBILES + 1)}
    for host in set(radio["host"]):
        ecio_db = radio["ecio_db"][radio["host"] == host].to_numpy()
        assert len(ecio_db) > 40
        assert ((ecio_db <= 0) & (ecio_db > -20)).all()
        assert np.ptp(ecio_db) > 1
    assert np.nanmax(radio["bler_pct"]) > 0
    assert set(radio["rat"]) == {"CDMA"}


def test_the_fixed_host_s_log_tells_whose_rate_it_is(recorded: Path) -> None:
    events = mt.open(recorded).link_events
    given = events[(events.event == "rate_assigned") & (events.host == "fixed")]
    mobiles = given["offset_bytes"].to_numpy().astype(np.int64) >> STREAM_BITS
    assert set(mobiles.tolist()) == set(range(MOBILES))
    assert {9_600, 153_600} <= set(given["rate_bps"].tolist()) <= {9_600, 19_200, 38_400, 76_800, 153_600}
    assert given["queue_bytes"].max() > 10_000


@pytest.mark.slow
def test_correlate_finds_the_assigned_rate_and_the_pilot(recorded: Path) -> None:
    quantities = Quantities(read(find_inputs(str(recorded))))
    for name in ("rate_bps", "link_events.queue_bytes", "ecio_db"):
        quantity = quantities.named(name)
        assert isinstance(quantity, SessionQuantity), quantity
        assert np.count_nonzero(np.isfinite(quantity.value)) > 10


def test_a_run_is_the_same_with_the_same_seed(tmp_path: Path) -> None:
    scenario = replace(load_scenario("cdma2000-sector"), limit_s=20)
    for name in ("a", "b"):
        record_virtual(scenario, tmp_path / name, seed=3)
    record_virtual(scenario, tmp_path / "c", seed=4)
    logs = ("mobile-1/radio.csv", "mobile-2/rlp.pcapng", "fixed/rlp.pcapng", "fixed/tcp-0.pcap", "summary.json")
    for log in logs:
        assert (tmp_path / "a" / log).read_bytes() == (tmp_path / "b" / log).read_bytes()
        assert (tmp_path / "a" / log).read_bytes() != (tmp_path / "c" / log).read_bytes()


def test_two_connections_of_one_mobile_share_its_buffer() -> None:
    scenario = load_scenario("cdma2000-download")
    flow = ScenarioTraffic(direction="down", bytes=150_000)
    summary = VirtualRun(replace(scenario, traffic=(flow, flow))).run()
    assert [each.delivered_bytes for each in summary.flows] == [150_000, 150_000]
