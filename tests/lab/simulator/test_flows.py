"""Several flows in one run: what each delivered, how evenly, and over which transport."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from multitracer.analysis.fairness import fairness_gap, jain_index
from multitracer.errors import FormatError
from multitracer.lab.scenario.library import load_scenario
from multitracer.lab.scenario.model import TCP_TRANSPORTS
from multitracer.lab.simulator.run import VirtualRun, record_virtual
from multitracer.recording.fair_shares import fair_shares
from multitracer.recording.read import read
from tests.lab.rig.virtual import link

if TYPE_CHECKING:
    from pathlib import Path

    from tests.lab.shared_runs import SharedRuns

rates = st.lists(st.floats(1, 1e6), min_size=2, max_size=30)


def traffic(**keys: object) -> str:
    lines = (f"{key} = {json.dumps(value)}" for key, value in keys.items())
    return "\n".join(("[[traffic]]", *lines, ""))


THREE = "limit_s = 300\n" + "".join(traffic(bytes=20_000, start_s=start_s) for start_s in (0, 15, 40))


@given(rates)
def test_the_indices_are_even_only_where_all_rates_are_alike(found: list[float]) -> None:
    index, (gap, reason) = jain_index(found), fairness_gap(found)
    assert index is not None
    assert 1 / len(found) - 1e-9 <= index <= 1 + 1e-9
    assert reason is None
    assert gap == pytest.approx(max(found) / min(found) - 1, abs=1e-9)
    assert jain_index([5.0] * len(found)) == pytest.approx(1)
    assert fairness_gap([5.0] * len(found)) == (0, None)


def test_what_has_no_gap_says_why() -> None:
    assert fairness_gap([3.0]) == (None, "a gap is between two flows or more")
    assert fairness_gap([3.0, 0.0]) == (None, "the slowest flow delivered nothing")
    assert jain_index([0.0, 0.0]) is None


def test_flows_share_a_call_and_each_arrives_complete() -> None:
    summary = VirtualRun(link(THREE)).run().document()
    flows = summary["flows"]
    assert [flow["flow"] for flow in flows] == [f"mobile:{1025 + n} > fixed:{5001 + n}" for n in range(len(flows))]
    assert [flow["delivered_bytes"] for flow in flows] == [20_000] * 3
    assert [flow["start_s"] - flows[0]["start_s"] for flow in flows] == pytest.approx([0, 15, 40])
    assert sum(flow["share"] for flow in flows) == pytest.approx(1)
    assert all(flow["delivered_packets"] >= 20_000 / 1460 for flow in flows)
    assert 1 / 3 <= summary["jain_index"] <= 1
    assert summary["fairness_gap"] >= 0
    assert summary["fairness_gap_reason"] is None


def test_the_last_third_of_a_run_shows_flows_that_drift_apart(shared_runs: SharedRuns) -> None:
    """The summary and `analyze` compare the same third; the run knows when a flow began, captures when payload came."""
    folder, summary = shared_runs.session(load_scenario("wtcp-fig6"))
    document = summary.document()
    assert document["jain_index"] > 0.95
    fair = fair_shares(read(folder))
    assert document["jain_index_last_third"] == pytest.approx(fair.late["jain"][0], abs=0.02)
    assert document["jain_index_last_third"] < 0.8
    assert document["fairness_gap_last_third"] > 10 * document["fairness_gap"]


def test_flows_one_after_the_other_have_no_last_third() -> None:
    text = "limit_s = 600\n" + traffic(bytes=5_000) + traffic(bytes=5_000, start_s=300)
    document = VirtualRun(link(text)).run().document()
    assert (document["jain_index_last_third"], document["fairness_gap_last_third"]) == (None, None)


def test_the_rate_of_a_flow_that_did_not_end_counts_until_the_run_s_end() -> None:
    summary = VirtualRun(link("limit_s = 60\n" + traffic(bytes=1_000_000))).run().document()
    (flow,) = summary["flows"]
    assert flow["delivered_bytes"] < 1_000_000
    assert flow["rate_bps"] == pytest.approx(8 * flow["delivered_bytes"] / (60 - flow["start_s"]), rel=1e-3)
    assert (summary["fairness_gap"], summary["jain_index"]) == (None, 1)
    assert summary["fairness_gap_reason"] == "a gap is between two flows or more"


@pytest.mark.parametrize("transport", TCP_TRANSPORTS)
def test_a_traffic_has_the_transport_that_it_names(transport: str, tmp_path: Path) -> None:
    scenario = link("[tcp]\nprofile = 'modern'\n" + traffic(bytes=3_000, transport=transport))
    summary = record_virtual(scenario, tmp_path / "run")
    log = (tmp_path / "run" / "mobile" / "tcp_state.jsonl").read_text("utf-8").splitlines()
    controls = {line["congestion_control"] for line in map(json.loads, log) if line["kind"] == "reading"}
    named = {"tcp": "newreno", "modern": "newreno", "bsd": "reno", "sack": "newreno"}
    named |= {"palm": "reno", "linux22": "newreno", "linux": "linux-cubic"}
    assert controls == {named.get(transport, transport)}
    assert summary.flows[0].transport == transport
    assert summary.flows[0].delivered_bytes == 3_000


@pytest.mark.parametrize(
    ("keys", "reason"),
    [
        ({"transport": "quic"}, r"\"transport\" must be one of tcp, .*, wtcp"),
        ({"host": "mobile-2"}, r"number 1: .*, but is 'mobile-2'"),
        ({"host": "fixed"}, r"hosts of the link \(mobile\), but is 'fixed'"),
    ],
)
def test_a_traffic_that_cannot_be_is_refused_in_a_sentence(keys: dict[str, object], reason: str) -> None:
    with pytest.raises(FormatError, match=reason) as caught:
        link(traffic(bytes=1, **keys))
    assert str(caught.value).startswith("test.toml")


def test_wtcp_needs_packets_of_500_bytes() -> None:
    with pytest.raises(FormatError, match=r"wtcp sends packets of 500 bytes.*mtu_bytes = 296"):
        link("[tcp]\nmtu_bytes = 296\n" + traffic(bytes=1, transport="wtcp"))
