"""More data under way that wait no longer show a link with room, however long the delay."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, cast

import numpy as np

from multitracer.diagnosis.limits.link import _idle_link
from multitracer.diagnosis.limits.names import Limit, Viewpoint, by_limit
from tests.diagnosis.exchange import Exchange

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from multitracer.diagnosis.diagnosis import Diagnosis
    from multitracer.diagnosis.limits.observed import Observed


def windows(
    count: int, window: Callable[[int], int], service_ms: Callable[[int], float], path_ms: Callable[[int], float]
) -> tuple[Exchange, list[float]]:
    """Return segments that a window sets free, one behind the other on a link, and when each was sent.

    What each function gives is of the segment of a number; the receiver acknowledges every second one.
    """
    exchange = Exchange(rtt_ms=path_ms(0)).opened()
    sent, free_ms = [path_ms(0) + 1], 0.0
    answered: list[float] = []
    for number in range(count):
        if number:
            oldest = answered[number - window(number)] if number >= window(number) else 0.0
            sent.append(max(sent[-1] + 0.05, oldest + 0.1))
        free_ms = max(free_ms, sent[-1]) + service_ms(number)
        answered.append(free_ms + path_ms(number))
        exchange.data(sent[-1], number)
        if number % 2:
            answered[-2] = answered[-1]
            exchange.ack(answered[-1], number + 1)
    return exchange, sent


def link_s(found: Diagnosis) -> float:
    return by_limit(found.limited.shares).get(Limit.LINK, 0.0) * found.limited.total_s


def test_a_longer_path_is_no_queue_though_nothing_was_sent_as_it_changed(tmp_path: Path) -> None:
    """It has a queue of 20 segments, and loses it with its window; later only the path is longer."""
    turn = 1000

    def window(number: int) -> int:
        return 40 if number < turn else 2 if number < turn + 2 else 16 + (number - turn) // 40

    exchange, sent = windows(2200, window, lambda _: 2, lambda number: 40 if number < turn else 240)
    full_s = (sent[turn] - sent[0]) / 1000
    found = exchange.diagnosed(tmp_path)
    assert found.limited.total_s > 3 * full_s
    assert link_s(found) < 1.1 * full_s


def test_a_link_that_became_faster_has_room_while_its_window_opens(tmp_path: Path) -> None:
    turn = 800

    def window(number: int) -> int:
        return 56 if number < turn else 36 + (number - turn) // 100

    exchange, sent = windows(turn + 1200, window, lambda number: 8 if number < turn else 1, lambda _: 300)
    full_s, all_s = (sent[turn] - sent[0]) / 1000, (sent[-1] - sent[0]) / 1000
    assert link_s(exchange.diagnosed(tmp_path)) < full_s + 0.7 * (all_s - full_s)


def test_a_queue_of_two_milliseconds_is_one_where_delays_are_calm(tmp_path: Path) -> None:
    exchange, _ = windows(3000, lambda number: min(30, 4 + number // 10), lambda _: 0.8, lambda _: 20)
    found = exchange.diagnosed(tmp_path)
    assert link_s(found) > 0.75 * found.limited.total_s


def test_a_clock_that_is_set_by_decades_takes_no_memory_for_each_moment() -> None:
    second, decades_ns = 10**9, 17 * 10**17
    nothing = np.zeros(4, dtype=bool)
    sends = SimpleNamespace(
        time_ns=np.array([0, second // 100, second // 50, decades_ns]), begin=np.arange(4),
        again=nothing, needed=nothing, by_timer=nothing,
    )  # fmt: skip
    seen = SimpleNamespace(
        view=Viewpoint.RECEIVER, floor_ns=second, coarse=False, opened_ns=0, end_ns=decades_ns, sends=sends,
    )  # fmt: skip
    idle = _idle_link(cast("Observed", seen), None)
    assert idle is not None
    assert (idle.begin.tolist(), idle.end.tolist()) == ([0], [decades_ns])
