"""The kernel's TCP over a recorded capacity, beside virtual time."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import numpy as np
import pytest

from multitracer.scenario import load_scenario
from multitracer.simulator.run import VirtualRun
from tests.testbed.running import document, finished, left_behind, started

if TYPE_CHECKING:
    from pathlib import Path

TEXT = """
limit_s = 60
[tcp]
profile = "modern"
mtu_bytes = 1500
congestion = "{control}"
send_buffer_bytes = 262_144
receive_buffer_bytes = 262_144
[link]
kind = "capacity"
delay_ms = 20
[link.queue]
limit_packets = 50
[link.up]
trace = "uneven.up"
[[traffic]]
bytes = 2_000_000
"""
MOST_APART = 0.03
"""Issue 20; a late machine has its allowance beside it."""


@pytest.mark.root
@pytest.mark.realtime
@pytest.mark.parametrize("control", ["reno", "cubic"])
def test_goodput_over_a_capacity_trace_is_that_of_virtual_time(control: str, tmp_path: Path) -> None:
    """2.1 Mbit/s in the mean, uneven from ms to ms, and a third of that for two seconds in ten."""
    luck = np.random.default_rng(3)
    stamps = np.sort(luck.integers(0, 10_000, 2_000))
    is_slow = (stamps > 4_000) & (stamps < 6_000) & (luck.random(len(stamps)) > 1 / 3)
    uneven = np.append(stamps[~is_slow], 10_000)
    (tmp_path / "uneven.up").write_text("".join(f"{stamp}\n" for stamp in uneven))
    _agree(control, tmp_path)


def _agree(control: str, tmp_path: Path) -> None:
    """Send the file under the kernel and in virtual time."""
    scenario, folder = tmp_path / "upload.toml", tmp_path / "run"
    scenario.write_text(TEXT.format(control=control))
    with started(scenario, folder, speed=1) as child:
        finished(child)
        assert left_behind(child.pid) == []
    expected = VirtualRun(load_scenario(str(scenario)).as_linux()).run().goodput_bytes_per_s
    assert expected is not None
    late_s = document(folder, "manifest.json")["variables"]["latest_slot_ms"] / 1000
    goodput = json.loads((folder / "summary.json").read_text())["goodput_bytes_per_s"]
    assert goodput == pytest.approx(expected, rel=MOST_APART + 2 * late_s / (2_000_000 / expected))


@pytest.mark.root
@pytest.mark.realtime
@pytest.mark.parametrize("control", ["reno", "cubic"])
def test_a_pause_costs_the_kernel_what_it_costs_in_virtual_time(control: str, tmp_path: Path) -> None:
    """The timer expires in a pause of 1.1 s, in vain; whoever believed it would send a third less."""
    luck = np.random.default_rng(4)
    stamps = np.sort(luck.integers(0, 10_000, 2_000))
    paused = np.append(stamps[(stamps < 3_000) | (stamps > 4_100)], 10_000)
    (tmp_path / "uneven.up").write_text("".join(f"{stamp}\n" for stamp in paused))
    _agree(control, tmp_path)
