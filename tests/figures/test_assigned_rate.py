"""What a scheduler assigned to a cdma2000 channel, and what RLP repeated there: series, panels, names."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pytest

from multitracer.analysis.common_grid import QuantityKind, SessionQuantity, grid_of, on_grid, step_ns_of
from multitracer.figures.link_panels import in_link_time
from multitracer.figures.stacked import stacked_panels
from multitracer.lab.scenario.library import load_scenario
from multitracer.protocols.link_events import STREAM_BITS
from multitracer.recording.inputs import find_inputs
from multitracer.recording.quantities import Missing, Quantities
from multitracer.recording.read import read
from multitracer.recording.transfer import Transfer
from multitracer.units import NS_PER_S

if TYPE_CHECKING:
    from pathlib import Path

    from tests.lab.shared_runs import SharedRuns


@pytest.fixture(scope="module")
def download(shared_runs: SharedRuns) -> Path:
    return shared_runs.session(load_scenario("cdma2000-download")).folder


@pytest.fixture(scope="module")
def sector(shared_runs: SharedRuns) -> Path:
    return shared_runs.session(replace(load_scenario("cdma2000-sector"), limit_s=20)).folder


def transfer_of(folder: Path, connection: int | None = None) -> Transfer:
    return Transfer.of(read(find_inputs(str(folder))), connection)


def test_the_rate_holds_from_each_assignment_to_the_next(download: Path) -> None:
    transfer = transfer_of(download)
    assert transfer.near is not None
    events = transfer.near.events
    given = events.take(transfer.near.rows("rate_assigned"))
    rate, queue = transfer.series["Link_rate_assigned"], transfer.series["Link_queue"]
    assert rate["value"][:-1].tolist() == given["rate_bps"].tolist()
    assert rate["value"][-1] == rate["value"][-2], "the last rate holds until the log ends"
    assert rate["time_ns"][-1] == events["time_ns"].max()
    assert queue["value"].tolist() == given["queue_bytes"].tolist(), "what waits is known at assignments alone"
    assert rate.provenance["unit"] == "bit/s"


def test_frames_that_rlp_repeated_are_those_that_the_run_counted(download: Path) -> None:
    transfer = transfer_of(download)
    counted = json.loads((download / "summary.json").read_text())["rlp_retransmissions"]
    again, sent, came = (transfer.series[f"Rlp{name}"] for name in ("Snd_rexmt", "Snd_data", "Rcv_data"))
    assert len(again) == counted > 100
    assert sent["value"].tolist() == sorted(sent["value"].tolist())
    assert 1_000_000 < came["value"][-1] <= sent["value"][-1] < 1.1e6, "payload, headers and PPP, once"


def test_each_mobile_of_a_sector_has_the_rates_that_it_was_assigned(sector: Path) -> None:
    recording = read(find_inputs(str(sector)))
    seen = {}
    for connection in range(1, len(recording) + 1):
        transfer = Transfer.of(recording, connection)
        assert transfer.near is not None
        given = transfer.near.events.take(transfer.near.rows("rate_assigned"))
        mine = given.take(given["offset_bytes"] >> STREAM_BITS == transfer.own_stream)
        assert transfer.link["Link_rate_assigned"]["value"][:-1].tolist() == mine["rate_bps"].tolist()
        assert transfer.link["RlpSnd_data"]["value"].max() < 1 << 30, "a position in its own stream"
        seen[transfer.receiver_host] = transfer.own_stream
    assert seen == {f"mobile-{number}": number - 1 for number in range(1, 5)}


def test_rate_and_waiting_bytes_have_panels_of_their_own(download: Path, shared_runs: SharedRuns) -> None:
    transfer = transfer_of(download)
    panels = {panel.key: panel for panel in stacked_panels(transfer)}
    rate, queue = panels["assigned_rate"], panels["assigned_rate_queue"]
    assert (rate.title, rate.unit.suffix) == ("Rate of the channel, as it was assigned", "bit/s")
    assert (queue.title, queue.unit.suffix) == ("Bytes that waited when the rate was assigned", "B")
    assert set(rate.series[0].value) <= {9_600, 19_200, 38_400, 76_800, 153_600}
    faster = in_link_time([rate], speed=10, origin_ns=0)[0]
    assert faster.series[0].value.tolist() == rate.series[0].value.tolist(), "it is per link second already"
    gsm = stacked_panels(transfer_of(shared_runs.session(load_scenario("fig5-typical")).folder))
    assert "assigned_rate" not in {panel.key for panel in gsm}


def test_correlate_knows_it_by_a_plain_name(download: Path) -> None:
    quantities = Quantities(read(find_inputs(str(download))))
    rate, column = quantities.named("rate_assigned"), quantities.named("link_events.rate_bps")
    again, goodput = quantities.named("RlpSnd_rexmt"), quantities.named("throughput")
    assert isinstance(rate, SessionQuantity)
    assert isinstance(column, SessionQuantity)
    assert isinstance(again, SessionQuantity)
    assert isinstance(goodput, SessionQuantity)
    assert (rate.name, rate.kind, rate.unit) == ("Link_rate_assigned", QuantityKind.STEPS, "bit/s")
    assert rate.value[:-1].tolist() == column.value.tolist()
    step_ns = step_ns_of([rate, goodput])
    assert step_ns == NS_PER_S, "a rate that holds is known in each second"
    grid, _ = grid_of([rate, goodput], step_ns)
    assert grid is not None
    assert np.isfinite(on_grid(rate, grid)).mean() > 0.95
    assert again.value.sum() == 210


def test_a_link_without_assignments_says_so(shared_runs: SharedRuns) -> None:
    quantities = Quantities(read(find_inputs(str(shared_runs.session(load_scenario("fig5-typical")).folder))))
    missing = quantities.named("rate_assigned")
    assert isinstance(missing, Missing)
    assert "holds no value of" in missing.reason
