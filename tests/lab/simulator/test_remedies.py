"""What each remedy of `make -C docs/papers ray` does to a run: after one fade, and on a link without any."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from functools import cache

import numpy as np
import pytest

from docs.papers.programs import ray, ray_page
from multitracer.lab.channel.ray import Channel
from multitracer.lab.channel.switched import PowerTrace, SwitchedConfig
from multitracer.lab.simulator.run import VirtualRun
from multitracer.units import NS_PER_MS, NS_PER_S

FADE_S = 3.0, 6.0
"""The timer of 400 ms, twice backed off, expires at 3.4, 4.2 and 5.8 s, and then at 9 s."""
RUN_S = 14.0
STEP_NS = 100 * NS_PER_MS


class Sent(ray.Traced):
    """What left and what arrived, each packet with data."""

    def after(self, begin_s: float) -> list[float]:
        """Return when packets left after a time, in s."""
        return [ns / NS_PER_S for ns, _ in self.sent if ns / NS_PER_S > begin_s]

    @property
    def lengths(self) -> set[int]:
        """Lengths of the IP packets that arrived."""
        return {octets for _, octets in self.arrived}

    @property
    def payload_bytes(self) -> int:
        """Of the packets that arrived, those that arrived twice included."""
        return sum(octets - 40 for _, octets in self.arrived)

    @property
    def first_after_fade_s(self) -> float:
        """How long after the fade's end the first packet arrived."""
        return min(ns / NS_PER_S for ns, _ in self.arrived if ns / NS_PER_S > FADE_S[1]) - FADE_S[1]


@cache
def seen(remedy: str, *, fades: bool = True) -> Sent:
    """Run Tahoe of paper 002 under a remedy, over a link that is down once or never."""
    begin, end = (round(at * NS_PER_S / STEP_NS) for at in FADE_S)
    power_dbm = np.full(round(RUN_S * NS_PER_S / STEP_NS), -60.0)
    power_dbm[begin:end] = -90 if fades else -60
    of_hosts, of_link = ray.REMEDY[remedy]
    scenario = ray.CLEAN.scenario("tahoe", initial_ssthresh_segments=16, **of_hosts)
    power = PowerTrace(Channel(STEP_NS, power_dbm))
    link = SwitchedConfig(power=power, queue=scenario.link.queue, **of_link)
    scenario = replace(scenario, link=link, limit_s=RUN_S)
    traced = Sent(scenario.sender)
    VirtualRun(scenario, observers=[traced]).run()
    return traced


def first_burst(run: Sent) -> int:
    """Return how many packets left together, as the first after the fade."""
    times = run.after(FADE_S[1])
    return times.count(times[0])


def test_a_cap_on_the_timer_shortens_the_silence_after_a_fade() -> None:
    capped, control = seen("cap"), seen("control")
    assert capped.first_after_fade_s < 0.4 + 0.1, "400 ms and a tick of the timer"
    assert 2.9 < control.first_after_fade_s < 3.2, "backed off in the fade"
    tries = [run.after(FADE_S[0] + 0.1) for run in (capped, control)]
    within = [sum(at < FADE_S[1] for at in times) for times in tries]
    assert within[0] > within[1], "what it costs: more tries in vain"
    assert capped.payload_bytes > control.payload_bytes


def test_half_of_the_window_leaves_after_a_fade_instead_of_one_packet() -> None:
    assert first_burst(seen("control")) == 1
    assert first_burst(seen("half")) > 4
    both = seen("cap and half")
    assert first_burst(both) > 4
    assert both.first_after_fade_s < 0.5


@pytest.mark.slow
def test_short_packets_carry_more_headers() -> None:
    assert max(seen("control").lengths) == 1500
    assert max(seen("short").lengths) == 576
    control, short = (seen(name, fades=False).payload_bytes for name in ("control", "short"))
    assert short / control == pytest.approx((536 / 576) / (1460 / 1500), rel=0.01)


def test_copies_take_half_of_a_link_that_is_full() -> None:
    assert set(Counter(place for _, place in seen("control", fades=False).sent).values()) == {1}
    run = seen("copies", fades=False)
    times = Counter(place for _, place in run.sent)
    assert {count for place, count in times.items() if place < max(times) - 64 * 1460} == {2}
    control = len({place for _, place in seen("control", fades=False).sent})
    assert len(times) / control == pytest.approx(0.5, rel=0.05)


@pytest.mark.parametrize("remedy", ["cap", "half", "cap and half"])
def test_on_a_clean_link_what_only_a_timeout_wakes_changes_nothing(remedy: str) -> None:
    assert seen(remedy, fades=False).sent == seen("control", fades=False).sent


def test_the_lines_of_the_file_are_what_the_runs_give() -> None:
    ours = [row for row, _ in zip(ray.remedy_rows(ray.Variant(5, "calibrated")), range(2), strict=False)]
    kept = [line for line in ray_page.lines_of(ray_page.REMEDIES) if line["scenario"] == "5"]
    assert [{key: str(value) for key, value in row.items()} for row in ours] == kept[:2]
    control, cap = ours
    assert (control["remedy"], control["runs_better"], control["gain_percent"]) == ("control", 0, 0)
    assert (cap["remedy"], cap["runs_better"]) == ("cap", 5)
    gain = 100 * (cap["kbytes_per_s"] / control["kbytes_per_s"] - 1)
    assert cap["gain_percent"] == pytest.approx(gain, abs=0.5)


def test_a_host_that_knows_its_link_sends_at_the_end_of_the_fade_and_snoop_soon_after() -> None:
    """A packet of 1500 bytes takes 6 ms on the air."""
    assert seen("I-TCP").first_after_fade_s == pytest.approx(0.006, abs=0.002)
    assert seen("Snoop").first_after_fade_s < seen("control").first_after_fade_s / 2
    assert seen("I-TCP", fades=False).payload_bytes == seen("control", fades=False).payload_bytes
