"""A way for ACKs that is narrower than that of the data: round trips grow, and no data wait for the link."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from multitracer.diagnosis.limits.names import Limit, by_limit
from tests.diagnosis.path import ROAD, diagnosed

if TYPE_CHECKING:
    from pathlib import Path

    from tests.corpus.link import Drive

WIDE = replace(ROAD, rate_bps=20_000_000, queue_packets=400)
THIN_BPS = 80_000
"""An ACK takes 4 to 5 ms: data for 5 to 6 Mbit/s, with an ACK for two segments."""


def link_share(folder: Path, drive: Drive, *, acks_bps: int, timestamps: bool, host: str = "mobile") -> float:
    found = diagnosed(folder, drive, acks_bps=acks_bps, timestamps=timestamps, host=host, both=False, size=4_000_000)
    return by_limit(found.limited.shares).get(Limit.LINK, 0.0)


@pytest.mark.parametrize("timestamps", [True, False])
def test_the_sender_does_not_take_a_queue_of_acks_for_one_of_data(tmp_path: Path, timestamps: bool) -> None:
    assert link_share(tmp_path, WIDE, acks_bps=THIN_BPS, timestamps=timestamps) < 0.05


@pytest.mark.parametrize("timestamps", [True, False])
def test_a_link_that_is_full_beside_queueing_acks_is_full(tmp_path: Path, timestamps: bool) -> None:
    full = replace(ROAD, rate_bps=6_000_000, queue_packets=60)
    assert link_share(tmp_path, full, acks_bps=THIN_BPS, timestamps=timestamps) > 0.9


def test_pairs_that_come_faster_than_they_follow_each_other_leave_a_link_idle(tmp_path: Path) -> None:
    """The receiver knows no delays without timestamps: what comes evenly may still be half of the link."""
    lossy = replace(WIDE, rate_bps=12_000_000, loss=0.002)
    assert link_share(tmp_path, lossy, acks_bps=THIN_BPS, timestamps=False, host="fixed") < 0.1
