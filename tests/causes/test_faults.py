"""Which findings are true of transfers made by hand, and which are left open."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.causes.made import DELAY_S, MSS, RATE_BPS, Made
from tests.causes.truth import truth

if TYPE_CHECKING:
    from pathlib import Path

_ROUND_S = 2 * DELAY_S


def _faults(made: Made) -> dict[str, bool]:
    found: dict[str, bool] = truth(made.save())["transfers"][0]["faults"]
    return found


def _waiting(folder: Path, waits_s: float, *, rate_bps: int = RATE_BPS) -> dict[str, bool]:
    made = Made(folder)
    made.path[0] = ["up", "step", 0, rate_bps, made.path[0][-1]]
    begin_s = made.handshake()
    made.call("send", begin_s, begin_s + 0.0001, 300 * MSS)
    for number in range(300):
        made.segment(begin_s + 0.001 * number, number, waits_s=waits_s)
    return _faults(made)


def test_a_queue_of_one_round_trip_is_what_a_sender_needs(tmp_path: Path) -> None:
    assert _waiting(tmp_path / "needed", 1.4 * _ROUND_S)["bufferbloat"] is False
    assert _waiting(tmp_path / "long", 3 * _ROUND_S)["bufferbloat"] is True
    assert "bufferbloat" not in _waiting(tmp_path / "between", 1.8 * _ROUND_S)


def test_what_an_initial_window_fills_may_be_told_as_a_long_queue(tmp_path: Path) -> None:
    assert "bufferbloat" not in _waiting(tmp_path / "slow", 0.3, rate_bps=300_000)
    assert _waiting(tmp_path / "less-slow", 0.3, rate_bps=500_000)["bufferbloat"] is True


def _hole(folder: Path, *, smaller: bool) -> dict[str, bool]:
    made = Made(folder)
    begin_s = made.handshake()
    made.call("send", begin_s, begin_s + 0.0001, 20 * MSS)
    made.segment(begin_s, 0)
    for after_s in (0.2, 0.5, 1.1, 2.3):
        made.segment(begin_s + after_s, 1, fate="mtu")
    if smaller:
        made.packet(0, begin_s + 4.7, first=MSS, payload=500)
    return _faults(made)


def test_a_hole_is_told_from_a_dead_path_by_what_is_smaller(tmp_path: Path) -> None:
    assert _hole(tmp_path / "told", smaller=True)["path-mtu-black-hole"] is True
    assert "path-mtu-black-hole" not in _hole(tmp_path / "dead", smaller=False)


def test_acks_that_a_thin_way_back_drops_may_be_told_or_not(tmp_path: Path) -> None:
    made = Made(tmp_path, control=True)
    begin_s = made.handshake()
    made.call("send", begin_s, begin_s + 0.0001, 40 * MSS)
    for number in range(40):
        at_s = begin_s + 0.01 * number
        made.segment(at_s, number, answer=number % 2 > 0)
        if number % 2 == 0:
            made.packet(1, at_s + 0.051, ack=(number + 1) * MSS, fate="queue")
    found = truth(made.save())
    assert "ack-loss" not in found["transfers"][0]["faults"]
    assert found["control"] is False


def test_a_queue_of_acks_may_be_told_as_a_bloated_one(tmp_path: Path) -> None:
    made = Made(tmp_path)
    begin_s = made.handshake()
    made.call("send", begin_s, begin_s + 0.0001, 40 * MSS)
    for number in range(40):
        made.segment(begin_s + 0.01 * number, number, answer=False)
        made.packet(1, begin_s + 0.01 * number + 0.051, ack=(number + 1) * MSS, waits_s=0.2)
    assert "bufferbloat" not in _faults(made)


def _link(folder: Path, *settings: list[int | str], packets: int = 300) -> dict[str, bool]:
    made = Made(folder)
    made.path += [["up", *each] for each in settings]
    begin_s = made.handshake()
    made.call("send", begin_s, begin_s + 0.0001, packets * MSS)
    for number in range(packets):
        made.segment(begin_s + 0.01 * number, number, waits_s=0.02)
    return _faults(made)


def test_a_step_of_the_rate_counts_if_there_is_enough_on_both_sides(tmp_path: Path) -> None:
    assert _link(tmp_path / "none")["rate-change"] is False
    assert _link(tmp_path / "amid", ["step", 1_500_000_000, 3_000_000, 50_000_000])["rate-change"] is True
    at_the_end = _link(tmp_path / "end", ["step", 3_000_000_000, 3_000_000, 50_000_000])
    assert "rate-change" not in at_the_end


def test_others_count_by_their_share_of_the_link(tmp_path: Path) -> None:
    assert _link(tmp_path / "none")["competing-traffic"] is False
    others: list[int | str] = ["cross", 500_000_000, 2_500_000_000, 6_000_000, 1500, 0, 0]
    assert _link(tmp_path / "many", others)["competing-traffic"] is True
    others[3] = 600_000
    assert "competing-traffic" not in _link(tmp_path / "few", others)
    always: list[int | str] = ["cross", 100_000_000, 9_000_000_000, 6_000_000, 1500, 0, 0]
    assert "competing-traffic" not in _link(tmp_path / "always", always)


def test_others_that_ours_never_waited_for_may_be_told_or_not(tmp_path: Path) -> None:
    made = Made(tmp_path, more=[["up", "cross", 0, 9_000_000_000, 6_000_000, 1500, 0, 0]])
    begin_s = made.handshake()
    for number in range(6):
        made.call("send", begin_s + number, begin_s + number + 0.0001, MSS)
        made.segment(begin_s + number, number)
    assert "competing-traffic" not in _faults(made)


def test_what_the_first_window_holds_is_not_slowed_by_its_growth(tmp_path: Path) -> None:
    for packets, told in ((8, None), (60, True)):
        made = Made(tmp_path / str(packets))
        begin_s = made.handshake()
        made.call("send", begin_s, begin_s + 0.0001, packets * MSS)
        for number in range(packets):
            made.segment(begin_s + 0.11 * (number // 10), number)
        assert _faults(made).get("slow-start-limited") is told


def test_a_pause_amid_an_answer_may_be_thought_or_rhythm(tmp_path: Path) -> None:
    for amid in (False, True):
        made = Made(tmp_path / str(amid))
        begin_s = made.handshake()
        made.call("think", begin_s, begin_s + 3)
        made.call("send", begin_s + 1 if amid else begin_s + 3, begin_s + 3.001, MSS)
        made.segment(begin_s + (1 if amid else 3), 0)
        made.call("send", begin_s + 3.01, begin_s + 3.011, MSS)
        made.segment(begin_s + 3.01, 1)
        assert _faults(made).get("client-think-time") is (None if amid else True)


def test_a_program_that_thinks_of_several_answers_at_once_thinks_once(tmp_path: Path) -> None:
    made = Made(tmp_path)
    begin_s = made.handshake()
    made.call("send", begin_s, begin_s + 0.0001, MSS)
    made.segment(begin_s, 0)
    for _ in range(20):  # 20 times 100 ms, together
        made.call("think", begin_s + 0.2, begin_s + 0.3)
    made.call("send", begin_s + 4, begin_s + 4.0001, MSS)
    made.segment(begin_s + 4, 1)
    assert "client-think-time" not in _faults(made)


def test_a_longer_path_counts_where_no_queue_hides_it(tmp_path: Path) -> None:
    longer: list[int | str] = ["step", 1_500_000_000, 12_000_000, 350_000_000]
    assert _link(tmp_path / "none")["path-change"] is False
    assert _link(tmp_path / "seen", longer)["path-change"] is True
    longer[3] = 100_000_000
    assert "path-change" not in _link(tmp_path / "hidden", longer)
