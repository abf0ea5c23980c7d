"""Windows whose scale was announced in a SYN that was not captured, or whose options were cut off."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from multitracer.analysis import analyse
from multitracer.captured import CaptureMark
from multitracer.schemas.tcp import WindowScaleBy
from tests.analysis.traffic import ACK, MS, START_NS, SYN, Segment, capture

C, S = 1000, 5000
SIZE, ROUNDS, FLIGHT = 1000, 20, 64
RAW = 70
"""A window of 70 in the header, that of 71,680 bytes when scaled by 10."""


def flights(*, stamped: bool = True, late_ms: float = 0) -> list[Segment]:
    """Return rounds of 64,000 bytes, as the sender saw them; `late_ms` shows them to the receiver instead."""
    found = []
    for turn in range(ROUNDS):
        ms, first = 100.0 * turn, turn * FLIGHT
        stamp = (5000 + int(ms), 900 + int(ms) - 50 if turn else 0) if stamped else None
        for i in range(FLIGHT):
            sent = Segment(0, C + 1 + (first + i) * SIZE, SIZE, ack=S + 1, stamp=stamp)
            found.append(replace(sent, time_ns=START_NS + round((ms + 0.01 * i + late_ms) * MS)))
        told = Segment(1, S + 1, ack=C + 1 + (first + FLIGHT) * SIZE, window=RAW)
        back = 50.0 if not late_ms else late_ms + 1
        told = replace(told, stamp=(900 + int(ms) + 50, 5000 + int(ms)) if stamped else None)
        found.append(replace(told, time_ns=START_NS + round((ms + back) * MS)))
    return sorted(found, key=lambda segment: segment.time_ns or 0)


def opened(**how: Any) -> list[Segment]:
    syn = Segment(0, C, ack=0, flags=SYN, time_ns=START_NS - 60 * MS, **how)
    answer = Segment(1, S, ack=C + 1, flags=SYN | ACK, time_ns=START_NS - 10 * MS, **how)
    return [syn, answer]


def offered(segments: list[Segment]) -> tuple[int, WindowScaleBy, int]:
    """Return shift, how it is known, and the largest window of the data's receiver."""
    directions = analyse(capture(segments)).directions
    side = 1 - int(directions["unique_bytes"].argmax())
    names = ("window_shift", "window_shift_by", "max_window_bytes")
    shift, by, most = (int(directions[name][side]) for name in names)
    return shift, WindowScaleBy(by), most


@pytest.mark.parametrize("stamped", [True, False])
def test_what_was_sent_fitted_the_window(stamped: bool) -> None:
    assert offered(flights(stamped=stamped)) == (10, WindowScaleBy.SENT, RAW << 10)


def test_at_the_receiver_the_echo_tells_which_window_the_sender_knew() -> None:
    """There each flight is acknowledged as it arrives; it was sent on the ACK of the one before."""
    assert offered(flights(late_ms=25))[:2] == (10, WindowScaleBy.SENT)


def test_a_whole_syn_without_the_option_means_unscaled() -> None:
    assert offered([*opened(), *flights()])[:2] == (0, WindowScaleBy.SYN)


def test_a_syn_whose_options_were_cut_off_tells_nothing() -> None:
    cut = opened(marks=int(CaptureMark.HEADER_CUT))
    assert offered([*cut, *flights()])[:2] == (10, WindowScaleBy.SENT)


def test_an_announced_scale_is_believed() -> None:
    assert offered([*opened(options={"scale": 12}), *flights()])[:2] == (12, WindowScaleBy.SYN)


def test_a_few_segments_tell_nothing() -> None:
    few = flights()[:20]
    assert offered([*few, replace(few[-1], side=1, seq=S + 1, ack=C + 1, payload=0)])[1] is WindowScaleBy.UNKNOWN
