"""How quick a cell is in virtual time; its users wait for it."""

from __future__ import annotations

import time
from dataclasses import replace
from heapq import heapify, heapreplace

import pytest

from multitracer.lab.channel.cdpd import CdpdLink
from multitracer.lab.channel.cdpd_config import CdpdConfig
from multitracer.lab.channel.shared.queue import QueueConfig
from multitracer.units import NS_PER_S
from tests.lab.channel.cell import EMPTY, Fates, plain

ORDINARY = CdpdConfig(cell=EMPTY, queue=QueueConfig(limit_packets=15))


def processor_s(config: CdpdConfig, *, seconds: int) -> float:
    """Return what a link costs over which every mobile sends and gets packets at 90 % of its share."""
    fates = Fates(CdpdLink(config, seed=1))
    mobiles = fates.link.hosts[:-1]
    pause_ns = round(len(mobiles) * 4000 / 0.9 / config.bits_per_s * NS_PER_S)
    due = [(number * pause_ns // len(mobiles), mobile) for number, mobile in enumerate(mobiles)]
    heapify(due)
    began_s = time.process_time()
    while due[0][0] < seconds * NS_PER_S:
        now_ns, mobile = due[0]
        heapreplace(due, (now_ns + pause_ns, mobile))
        fates.step(now_ns)
        fates.send((mobile, "fixed"))
        fates.send(("fixed", mobile))
        fates.link.reading(now_ns, host=mobile)
    assert len(fates.arrived_ns) > 100
    return time.process_time() - began_s


@pytest.mark.realtime
@pytest.mark.parametrize("config", [ORDINARY, plain(bits_per_s=50_000)])
def test_three_mobiles_for_300_s_cost_less_than_two(config: CdpdConfig) -> None:
    assert processor_s(replace(config, mobiles=3), seconds=300) < 2


@pytest.mark.realtime
@pytest.mark.parametrize("config", [ORDINARY, plain(bits_per_s=50_000)])
def test_30_mobiles_for_six_minutes_cost_less_than_six_seconds(config: CdpdConfig) -> None:
    """A tenth of an hour, which may cost a minute."""
    assert processor_s(replace(config, mobiles=30), seconds=360) < 6
