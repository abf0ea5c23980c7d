"""Connections that fill a link together: their work waits for the link, whatever held back each of them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest

from multitracer.diagnosis.diagnose import explain
from multitracer.diagnosis.group_sentence import headline_of_group
from multitracer.diagnosis.limits.group import ConnectionGroup, GroupConnection, _longest_group, _stretches, group_of
from multitracer.diagnosis.limits.names import Limit
from multitracer.diagnosis.sentence import facts_of
from multitracer.lab.scenario.library import load_scenario
from multitracer.lab.simulator.run import record_virtual
from multitracer.recording.read import read
from multitracer.units import NS_PER_MS

if TYPE_CHECKING:
    from multitracer.tables import Array

_TWO = """
limit_s = 60
[tcp]
profile = "modern"
mtu_bytes = 1500
congestion = "cubic"
receive_buffer_bytes = 1_000_000
send_buffer_bytes = 1_000_000
[link]
kind = "capacity"
[link.down]
trace = "radio.down"
[link.queue]
limit_packets = 6
[[traffic]]
direction = "down"
bytes = 2_000_000
[[traffic]]
direction = "down"
bytes = 2_000_000
"""
_RECORDINGS = Path(__file__).parents[1] / "causes" / "recordings"
_FLOOR_NS = 20 * NS_PER_MS
_COUNT = 400


def _shared(gaps_ms: Array, owner: Array) -> float:
    """Return the part of the time in which packets of 1,500 bytes filled a link together."""
    time = np.cumsum(np.append(0, gaps_ms * NS_PER_MS)).astype(np.int64)
    spans = _stretches(time, np.full(len(time), 1500), owner, _FLOOR_NS)
    return spans.total_ns / float(np.ptp(time))


def test_packets_of_two_that_follow_each_other_as_the_link_needs_fill_it() -> None:
    luck = np.random.default_rng(1)
    steady = np.full(_COUNT - 1, 2.0)
    assert _shared(steady, luck.integers(0, 2, _COUNT)) == 1
    assert _shared(steady, np.zeros(_COUNT, dtype=np.int64)) == 0, "one connection tells that alone"


def test_packets_of_two_that_come_in_their_own_time_do_not() -> None:
    luck = np.random.default_rng(2)
    assert _shared(luck.exponential(3.0, _COUNT - 1), luck.integers(0, 2, _COUNT)) < 0.1
    paused = np.where(np.arange(_COUNT - 1) % 8 == 7, 40.0, 2.0)
    assert _shared(paused, luck.integers(0, 2, _COUNT)) == 0, "bursts of less than a round trip"


@pytest.mark.parametrize("view", ["", "mobile/tcp-0.pcap", "fixed/tcp-0.pcap"])
def test_the_work_of_two_at_a_short_queue_is_limited_by_the_link(tmp_path: Path, view: str) -> None:
    """Losses halve one window while the other goes on: 4 MB take 5.5 s at the link's 6 Mbit/s."""
    (tmp_path / "radio.down").write_text("".join(f"{2 * each}\n" for each in range(1, 20_000)))
    (tmp_path / "two.toml").write_text(_TWO)
    record_virtual(load_scenario(str(tmp_path / "two.toml")), tmp_path / "run")
    for log in (tmp_path / "run").glob("*/rlp*"):
        log.unlink()  # the link tells when it was busy; here the packets alone must
    group = group_of(read(tmp_path / "run" / view))
    assert group is not None
    assert not any(row.limit is Limit.LINK for row in group.longest.shares), "its own packets left gaps"
    sentence = headline_of_group(group).sentence
    assert "Mostly the link, which they filled together (7" in sentence, "4 s of 6.0 s and more"
    assert sum(row.seconds for row in group.shares) == group.total_s


def test_two_that_pause_in_turn_fill_no_link() -> None:
    group = group_of(read(_RECORDINGS / "20036-two-at-once" / "session"))
    assert group is not None
    assert group.together.total_ns == 0


def test_the_group_with_the_longest_wall_time_is_that_of_its_pair_and_pause() -> None:
    second = 10**9
    pair = np.array([0, 1, 0, 1, 0])
    begin = np.array([0, 0, 1, 9, 20]) * second
    end = np.array([2, 4, 3, 9, 23]) * second
    assert _longest_group(pair, begin, end).tolist() == [1], "4 s; the other pair's took 3 s each"
    assert _longest_group(pair[:3], begin[:3], begin[:3]).tolist() == [0, 2]
    assert _longest_group(pair[:0], begin[:0], end[:0]).tolist() == []


@pytest.mark.parametrize(
    ("name", "says", "helps"),
    [
        (
            "20036-two-at-once",
            "The largest limit was the link in connection 1, the client in connection 2.",
            ". For the link (18 %): a faster link, or less other traffic on it",
        ),
        ("00183-page", "The largest limit was slow start in 8 connections, opening connections in 2.", ""),
        (
            "2000040-own-several",
            "with 2.96 Mbit/s of payload in all. That was the largest limit of each connection.",
            "",
        ),
    ],
)
def test_a_group_is_told_first_and_then_which_connections_differ(name: str, says: str, helps: str) -> None:
    """What only some of them suffer from has a remedy, too."""
    group = group_of(read(_RECORDINGS / name / "session"))
    assert group is not None
    told = headline_of_group(group)
    assert says in told.sentence
    assert helps in told.help


def test_help_for_a_limit_of_a_group_is_by_what_its_own_connection_suffered() -> None:
    """The longest connection lost nothing; the one that waited for its congestion window did."""
    longest, other = (explain(read(_RECORDINGS / name / "session")) for name in ("00140-small-rcvbuf", _LOSSY))
    facts = facts_of(longest.limited, (), ())
    assert "nothing-lost" in facts
    members = [GroupConnection(n, 0, each.limited) for n, each in enumerate((longest, other), 1)]
    told = headline_of_group(ConnectionGroup([1, 2], members), facts)
    assert "congestion window" in told.sentence
    assert "less loss" in told.help
    assert "nothing was lost" not in told.help


_LOSSY = "00009-random-loss"
