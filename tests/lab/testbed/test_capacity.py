"""The kernel's TCP over a recorded capacity, beside virtual time."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

import numpy as np
import pytest

from multitracer.lab.scenario.library import load_scenario
from multitracer.lab.simulator.run import VirtualRun
from tests.lab.testbed.running import document, finished, left_behind, started

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
CONTROLS = ("reno", "cubic")
MOST_APART = 0.03
"""Issue 20; a late machine has its allowance beside it."""


@pytest.mark.root
@pytest.mark.realtime
def test_goodput_over_a_capacity_trace_is_that_of_virtual_time(tmp_path: Path) -> None:
    """2.1 Mbit/s in the mean, uneven from ms to ms, and a third of that for two seconds in ten."""
    luck = np.random.default_rng(3)
    stamps = np.sort(luck.integers(0, 10_000, 2_000))
    is_slow = (stamps > 4_000) & (stamps < 6_000) & (luck.random(len(stamps)) > 1 / 3)
    uneven = np.append(stamps[~is_slow], 10_000)
    (tmp_path / "uneven.up").write_text("".join(f"{stamp}\n" for stamp in uneven))
    _agree(tmp_path)


def _agree(folder: Path) -> None:
    """Send the file under the kernel, by both algorithms side by side, and in virtual time."""
    for control in CONTROLS:
        (folder / f"{control}.toml").write_text(TEXT.format(control=control))
    with contextlib.ExitStack() as stack:
        children = [
            stack.enter_context(started(folder / f"{control}.toml", folder / control, speed=1)) for control in CONTROLS
        ]
        for child in children:
            finished(child)
            assert left_behind(child.pid) == []
    for control in CONTROLS:
        scenario = load_scenario(str(folder / f"{control}.toml")).as_linux()
        expected = VirtualRun(scenario).run().goodput_bytes_per_s
        assert expected is not None
        late_s = document(folder / control, "manifest.json")["variables"]["latest_slot_ms"] / 1000
        goodput = document(folder / control, "summary.json")["goodput_bytes_per_s"]
        within = MOST_APART + 2 * late_s / (2_000_000 / expected)
        assert goodput == pytest.approx(expected, rel=within), control


@pytest.mark.root
@pytest.mark.realtime
def test_a_pause_costs_the_kernel_what_it_costs_in_virtual_time(tmp_path: Path) -> None:
    """The timer expires in a pause of 1.1 s, in vain; whoever believed it would send a third less."""
    luck = np.random.default_rng(4)
    stamps = np.sort(luck.integers(0, 10_000, 2_000))
    paused = np.append(stamps[(stamps < 3_000) | (stamps > 4_100)], 10_000)
    (tmp_path / "uneven.up").write_text("".join(f"{stamp}\n" for stamp in paused))
    _agree(tmp_path)
