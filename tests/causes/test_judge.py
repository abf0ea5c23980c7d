"""A verdict on the program: what counts as right, and what the tables say of it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from tests.causes.judge import GROUP, Judged, _agreed, _also, _in_view, asked_for, judge
from tests.causes.made import MSS, Made
from tests.causes.tables import page
from tests.causes.truth import truth

if TYPE_CHECKING:
    from pathlib import Path


def _judged(true: dict[str, float], ours: dict[str, float], confidence: str = "measured") -> Judged:
    return Judged("00001-made", "both", "made", true, ours, confidence)


def test_a_limit_nearly_as_large_as_the_largest_counts_as_primary() -> None:
    true = {"link": 0.45, "application": 0.41, "handshake": 0.14}
    assert _judged(true, {"application": 1.0}).right
    assert not _judged(true, {"handshake": 1.0}).right


def test_overlap_is_the_sum_of_the_smaller_shares() -> None:
    judged = _judged({"link": 0.6, "recovery": 0.4}, {"link": 0.9, "outage": 0.1})
    assert judged.overlap == pytest.approx(0.6)


def test_seconds_are_right_where_both_say_the_same_and_a_receiver_may_see_them_later() -> None:
    ours = [{"limit": "link", "begin_ns": 10**9, "end_ns": 3 * 10**9}]
    true = [(0, 2 * 10**9, "link", None), (2 * 10**9, 3 * 10**9, "application", "writes")]
    assert _agreed(ours, true, 0) == {"link": (2.0, 1.0)}
    assert _agreed(ours, true, 500_000_000) == {"link": (2.0, 1.5)}


def test_the_tables_count_what_is_right_and_what_is_wrong_but_sure() -> None:
    judged = [
        _judged({"link": 1.0}, {"link": 1.0}),
        _judged({"link": 1.0}, {"application": 1.0}),
        _judged({"link": 1.0}, {"recovery": 1.0}, "weak"),
        _judged({"link": 1.0}, {}, ""),
    ]
    judged[0].findings = ["policer"]
    judged[1].findings = ["blackout"]
    text = page(judged, {"00001-made": {"policer": True, "outage": False}}, {"00001-made"})
    assert "| both | 4 | 25.0 % | 25.0 % | 0.250 |" in text
    assert "| policer | 4 | 25.0 % | 0 | 100.0 % | 0 |" in text
    assert "| outage | 0 | – | 1 | 0.0 % | 1 |" in text
    assert "no answer" in text
    assert "| made | 1 of 4, 1 sure | 0 of 0 |" in text


def test_a_receiver_is_told_apart_by_the_senders_timestamps() -> None:
    judged = [_judged({"link": 1.0}, {name: 1.0}) for name in ("link", "link", "outage", "link", "outage")]
    for each, tick_ms in zip(judged, (1, 1, 4, 10, 0), strict=True):
        each.view, each.tick_ms = "receiver", tick_ms
    text = page(judged, {"00001-made": {}}, set())
    assert "| receiver | 5 | 60.0 % |" in text
    assert "| receiver, ticks under 4 ms | 2 | 100.0 % |" in text
    assert "| receiver, ticks of 4 ms or more, or none | 3 | 33.3 % |" in text


def test_a_connection_alone_is_no_group_and_several_are_asked_for_together(tmp_path: Path) -> None:
    made = Made(tmp_path)
    made.handshake()
    told = json.loads(json.dumps(truth(made.save())))
    assert judge(tmp_path, told, GROUP) is None
    told["group"]["client_ports"].append(1)
    judged = judge(tmp_path, told, GROUP)
    assert judged is not None
    assert judged.view == GROUP
    assert judged.true == told["group"]["shares"]


def test_an_ipv6_client_is_asked_for_in_brackets() -> None:
    transfer = {"client": "fd00:3::2", "client_port": 40_000, "bytes": 1, "way": "down"}
    assert asked_for(transfer) == ["-c", "[fd00:3::2]:40000", "--direction", "reverse"]


def test_a_recording_that_cannot_be_read_is_no_answer_with_the_programs_words(tmp_path: Path) -> None:
    made = Made(tmp_path)
    begin_s = made.handshake()
    made.call("send", begin_s, begin_s + 0.0001, MSS)
    made.segment(begin_s, 0)
    told = json.loads(json.dumps(truth(made.save())))
    judged = judge(tmp_path, told, "both")
    assert judged is not None
    assert judged.answer == "no answer"
    assert judged.error


def test_what_never_reached_an_end_may_be_silence_to_it() -> None:
    told = [(0, 1, "link", None, "down"), (1, 9, "recovery", None, "up"), (9, 20, "outage", None, "up")]
    joint = {"intervals": told, "at_sender_ns": (0, 9), "at_receiver_ns": (0, 20)}
    transfer = {"way": "down", "bytes": 9, "fates": {"data": {"delivered": 1}}, "joint": joint}
    server, client = _in_view(transfer, "sender"), _in_view(transfer, "receiver")
    assert server == told[:2]
    assert client == told
    assert _also(transfer, server or [], "sender") == "application"
    blind = [Judged("3000006-made", "sender", "made", {"recovery": 1.0}, {"application": 1.0}, also=also)
             for also in ("", "application")]  # fmt: skip
    assert [each.right for each in blind] == [False, True]
    assert _also(transfer, client or [], "receiver") == ""
