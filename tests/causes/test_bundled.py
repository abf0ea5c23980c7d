"""The program's answers to bundled recordings of known cause: what it must keep up.

They are of the seeds with which the rules were made, one or two of each kind, the smallest; how the program
does on recordings that nobody had seen is in docs/limits.md. Each verdict: `python -m tests.causes judge`.
"""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path

import pytest

from tests.causes.judge import GROUP, VIEWS, Judged, judge

RECORDINGS = sorted(path for path in (Path(__file__).parent / "recordings").iterdir() if path.is_dir())
_RIGHT = {"both": 0.95, "sender-state": 0.95, "sender": 0.92, "receiver": 0.88}
_OVERLAP = {"both": 0.92, "sender-state": 0.90, "sender": 0.90, "receiver": 0.85}
_NEVER_ON_CONTROLS = {"ack-loss", "random-loss", "policer", "bufferbloat"}


@cache
def _truth(folder: Path) -> dict[str, object]:
    found: dict[str, object] = json.loads((folder / "truth" / "truth.json").read_text())
    return found


@cache
def judged(view: str) -> list[Judged]:
    verdicts = (judge(folder, _truth(folder), view) for folder in RECORDINGS)
    return [each for each in verdicts if each is not None]


@pytest.mark.parametrize("view", VIEWS)
def test_the_largest_limit_is_right(view: str) -> None:
    wrong = {each.name: (each.true, each.ours) for each in judged(view) if not each.right}
    assert len(judged(view)) > 55
    assert len(wrong) <= (1 - _RIGHT[view]) * len(judged(view)), wrong


@pytest.mark.parametrize("view", VIEWS)
def test_what_is_wrong_is_seldom_sure(view: str) -> None:
    sure = [each.name for each in judged(view) if not each.right and each.confidence != "weak"]
    assert len(sure) <= 0.02 * len(judged(view)), sure


@pytest.mark.parametrize("view", VIEWS)
def test_the_shares_overlap_with_the_true_ones(view: str) -> None:
    overlaps = [each.overlap for each in judged(view)]
    assert sum(overlaps) / len(overlaps) >= _OVERLAP[view]


_ONCE_WRONG = (
    ("1020035-cellular-steady", "both", "application"),  # Nagle's algorithm holds parts of segments: no full buffer
    ("1020018-cellular-rcvbuf", "receiver", "receiver-window"),  # the flight is even, and as large as the window
    ("4020032-proxy-slow-server", "receiver", "application"),  # the flight is even, but ACKs do not release it
    ("1000130-cellular-sndbuf", "receiver", "sender-buffer"),  # a radio's delay seemed to be a queue
    ("2000102-policer-then-link", "sender", "link"),  # the link behind the policer queues what a full bucket passes
    ("2000125-policer-alone", "receiver", "link"),  # IPv6: the sender does not number its packets
    ("2041034-policer-then-link", "receiver", "link"),  # no timestamps: no delay is known
    ("95421-policer", "receiver", "link"),  # BBR loses packets all the time, for nine round trips
    ("3000106-small-messages-outage", "sender", "outage"),  # what ended it answered no retransmission
    ("3000110-lost-requests", "both", "recovery"),  # answers of one segment after late requests: no full send buffer
)


@pytest.mark.parametrize(("name", "view", "limit"), _ONCE_WRONG)
def test_what_was_wrong_once_is_right(name: str, view: str, limit: str) -> None:
    (one,) = (each for each in judged(view) if each.name == name)
    assert (one.right, one.answer) == (True, limit)


_SECOND = (
    ("00171-bursts", "both", "slow-start"),  # a pacer spreads what the window allows after each idle time
    ("00171-bursts", "sender", "slow-start"),
    ("1000002-cellular-bursty", "sender", "slow-start"),  # ACKs release what is written at once
    ("2041043-own-bursts", "both", "link"),  # bursts of 15 ms wait for a shaper on the sender's interface
    ("2041043-own-bursts", "sender", "link"),
    ("2042675-own-bursts", "sender", "link"),  # PSH within a write: the kernel sets it now and then
    ("2041295-own-bursts", "both", "link"),  # no timestamps: the kernel's readings show the queue
    ("2041295-own-bursts", "sender-state", "link"),
)


@pytest.mark.parametrize(("name", "view", "limit"), _SECOND)
def test_what_a_burst_waits_for_is_no_time_of_the_program(name: str, view: str, limit: str) -> None:
    (one,) = (each for each in judged(view) if each.name == name)
    assert one.answer == "application"
    assert one.ours.get(limit, 0.0) == pytest.approx(one.true[limit], rel=0.35)


def test_requests_that_wait_in_the_queue_of_a_thin_uplink_are_no_latency() -> None:
    (one,) = (each for each in judged("both") if each.name == "3041013-posts-over-a-thin-way")
    assert one.ours["link"] == pytest.approx(one.true["link"], abs=0.02)


@pytest.mark.parametrize(
    "name", ["2000045-two-bottlenecks", "30024-competing", "00038-short-queue", "00190-short-queue"]
)
def test_a_receiver_names_the_congestion_window_only_where_the_link_had_room(name: str) -> None:
    (one,) = (each for each in judged("receiver") if each.name == name)
    assert one.answer == "link"
    assert one.ours.get("congestion-window", 0.0) <= one.true.get("congestion-window", 0.0) + 0.02


@pytest.mark.parametrize("name", ["00199-random-loss", "00164-heavy-loss", "00049-bursty-loss"])
def test_without_timestamps_repairs_in_a_round_trip_show_room(name: str) -> None:
    (one,) = (each for each in judged("receiver") if each.name == name)
    assert one.ours["congestion-window"] == pytest.approx(one.true["congestion-window"], abs=0.1)


def test_no_healthy_path_gets_a_fault() -> None:
    controls = {folder.name for folder in RECORDINGS if _truth(folder)["control"]}
    assert len(controls) >= 4
    for each in judged("both"):
        assert each.name not in controls or not _NEVER_ON_CONTROLS & set(each.findings), each.name


def test_faults_are_named_and_no_others() -> None:
    missed: set[tuple[str, str]] = set()
    wrong: set[tuple[str, str]] = set()
    for each in judged("both"):
        for kind, is_true in _faults(each.name).items():
            names = {kind, "blackout"} if kind == "outage" else {kind}
            if is_true is not bool(names & set(each.findings)):
                (missed if is_true else wrong).add((each.name, kind))
    assert wrong == set()
    assert missed == set()


def _faults(name: str) -> dict[str, bool]:
    (folder,) = (each for each in RECORDINGS if each.name == name)
    document = json.loads((folder / "truth" / "truth.json").read_text())
    transfer = document["transfers"][0]
    found: dict[str, bool] = transfer.get("joint", transfer)["faults"]
    return found


def test_several_connections_are_told_as_one_piece_of_work() -> None:
    found = judged(GROUP)
    assert len(found) >= 4
    assert [each.name for each in found if not each.right] == []
    assert sum(each.overlap for each in found) / len(found) >= _OVERLAP["both"]
