"""Recorded data calls beside the same scenarios in virtual time, where our TCP does as Linux does."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import pytest

from multitracer.lab.scenario.library import load_scenario
from tests.cli.program import call
from tests.conftest import SAMPLES

if TYPE_CHECKING:
    from pathlib import Path

    from tests.lab.shared_runs import SharedRuns

CALLS = [
    pytest.param(path.parent, marks=[pytest.mark.slow] * (path.parent.name == "typical-1450k"))  # 8 s
    for path in sorted(SAMPLES.glob("*/expected.json"))
]


@dataclass(frozen=True)
class Pair:
    """What the two runs of one scenario showed."""

    name: str
    real: dict[str, Any]
    virtual: dict[str, Any]

    def both(self, key: str) -> tuple[Any, Any]:
        return self.real[key], self.virtual[key]


@pytest.fixture(scope="module", params=CALLS, ids=lambda folder: folder.name)
def pair(request: pytest.FixtureRequest, shared_runs: SharedRuns) -> Pair:
    folder: Path = request.param
    scenario = replace(load_scenario(str(folder / "scenario.toml")), name=folder.name).as_linux()
    virtual = shared_runs.of(scenario).document()
    return Pair(folder.name, json.loads((folder / "summary.json").read_text()), virtual)


def test_goodput_agrees_within_3_percent(pair: Pair) -> None:
    real, virtual = pair.both("goodput_bytes_per_s")
    assert real == pytest.approx(virtual, rel=0.03)


def test_the_link_did_the_same(pair: Pair) -> None:
    real, virtual = pair.both("rlp_resets")
    assert real == virtual
    real, virtual = pair.both("rlp_retransmissions")
    assert real == pytest.approx(virtual, rel=0.1)
    real, virtual = pair.both("rlp_slope_bytes_per_s")
    assert real == pytest.approx(virtual, rel=0.05)


def test_tcp_repaired_as_much(pair: Pair) -> None:
    real, virtual = pair.both("tcp_retransmissions")
    assert real == pytest.approx(virtual, rel=0.1, abs=2)
    real, virtual = pair.both("tcp_fast_retransmits")
    assert real == pytest.approx(virtual, abs=1)


def test_its_timer_expired_as_often(pair: Pair) -> None:
    real, virtual = pair.both("tcp_timeouts")
    assert real == virtual


def test_the_decompressor_spoiled_as_much(pair: Pair) -> None:
    real, virtual = pair.both("checksum_errors")
    assert real == pytest.approx(virtual, abs=2)


def test_the_receiver_waited_as_long(pair: Pair) -> None:
    real, virtual = pair.both("longest_receiver_hole_s")
    assert real == pytest.approx(virtual, rel=0.15, abs=0.3)  # an ACK waits up to 0.2 s


def test_the_command_makes_such_a_run(tmp_path: Path) -> None:
    folder = tmp_path / "call"
    call("testbed", "run", "fig4-slow-start", "--virtual", "--as-linux", "-o", str(folder))
    summary = json.loads((folder / "summary.json").read_text())
    assert (summary["tcp_timeouts"], summary["tcp_fast_retransmits"]) == (1, 1)
    said = json.loads((folder / "manifest.json").read_text())["variables"]["parameters"]
    assert (said["mobile"]["congestion"], said["link"]["queue"]["local_drops"]) == ("linux-reno", "silent")
    refused = call("testbed", "run", "fig4-slow-start", "--as-linux", "-o", str(tmp_path / "x"), status=2)
    assert "--virtual" in refused.stderr
