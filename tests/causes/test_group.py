"""The truth about several connections: their time together, and what limited it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.causes.group import group, joint

_S = 1_000_000_000


def _transfer(port: int, *stretches: tuple[float, float, str], size: int = 1) -> dict[str, Any]:
    intervals = [(round(begin * _S), round(end * _S), limit, None) for begin, end, limit in stretches]
    return {"client_port": port, "bytes": size, "intervals": intervals}


def test_time_in_which_two_are_active_is_parted_equally() -> None:
    found = group([_transfer(1, (0, 4, "link")), _transfer(2, (2, 4, "application"), (4, 5, "outage"))])
    assert found["total_s"] == pytest.approx(5)
    assert found["shares"] == pytest.approx({"link": 0.6, "application": 0.2, "outage": 0.2})
    assert next(iter(found["shares"])) == "link"


def test_two_seconds_without_a_transfer_end_a_group_and_the_longest_is_told() -> None:
    first = [_transfer(1, (0, 1, "link")), _transfer(2, (2.9, 4, "link"))]
    found = group([*first, _transfer(3, (6.1, 9, "outage"))])
    assert found["client_ports"] == [3]
    assert found["shares"] == {"outage": 1.0}
    within = group([*first, _transfer(3, (5.9, 9, "outage"))])
    assert within["client_ports"] == [1, 2, 3]
    assert within["total_s"] == pytest.approx(5.2)  # the time between them is nobody's


def test_of_both_ways_of_a_connection_the_larger_counts() -> None:
    found = group([_transfer(1, (0, 1, "slow-start"), size=200), _transfer(1, (0, 3, "link"), size=9000)])
    assert found["shares"] == {"link": 1.0}


def test_while_the_link_is_full_of_them_no_window_of_one_holds_back_their_work() -> None:
    one = _transfer(1, (0, 4, "congestion-window"), (4, 5, "application")) | {"way": "down"}
    other = _transfer(2, (0, 3, "recovery"), (3, 5, "receiver-window")) | {"way": "down"}
    found = group([one, other], {"down": np.array([[1, 3], [4, 5]]) * _S, "up": np.array([[0, 5]]) * _S})
    want = {"link": 0.4, "congestion-window": 0.2, "receiver-window": 0.2, "recovery": 0.1, "application": 0.1}
    assert found["shares"] == pytest.approx(want)


def test_what_the_larger_direction_waits_for_is_told_by_the_other() -> None:
    answers = [(0, 1, "link", None), (1, 3, "application", "peer"), (3, 4, "application", "think")]
    requests = [
        (0, 1, "application", "peer"), (1, 1.5, "application", "writes"), (1.5, 4, "recovery", None),
        (4, 10, "outage", None),
    ]  # fmt: skip
    ways = [
        {"way": way, "intervals": [(int(begin * _S), int(end * _S), *rest) for begin, end, *rest in intervals]}
        for way, intervals in (("down", answers), ("up", requests))
    ]
    found = joint(ways)
    assert found["total_s"] == 10
    assert found["shares"] == {"outage": 0.6, "application": 0.15, "recovery": 0.15, "link": 0.1}
    assert [(each[2], each[4]) for each in found["intervals"]] == [
        ("link", "down"), ("application", "down"), ("recovery", "up"), ("application", "down"), ("outage", "up"),
    ]  # fmt: skip
    assert joint(ways[:1])["shares"] == {"application": 0.75, "link": 0.25}
