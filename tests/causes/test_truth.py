"""The truth of transfers made by hand: what limited them is known before it is asked."""

from __future__ import annotations

import json
import subprocess
import sys
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import pytest

from tests.causes.made import MSS, RATE_BPS, Made
from tests.causes.truth import truth

if TYPE_CHECKING:
    from pathlib import Path

_FORBIDDEN = ("analysis", "diagnosis", "recording", "figures", "report", "api")


def _told(made: Made) -> dict[str, Any]:
    found: dict[str, Any] = truth(made.save())["transfers"][0]
    edges = [(begin, end) for begin, end, _, _ in found["intervals"]]
    assert all(left[1] == right[0] for left, right in pairwise(edges))
    assert sum(end - begin for begin, end in edges) == pytest.approx(found["total_s"] * 1e9)
    return found


def _seconds(found: dict[str, Any]) -> dict[str, float]:
    return {limit: share * found["total_s"] for limit, share in found["shares"].items()}


def test_a_connection_that_is_never_answered_is_all_handshake(tmp_path: Path) -> None:
    made = Made(tmp_path)
    for at_s in (0, 1, 3):
        made.packet(0, at_s, flags="S", fate="outage")
    found = _told(made)
    assert found["shares"] == {"handshake": 1.0}
    assert found["total_s"] == pytest.approx(3.0)


def test_a_program_that_writes_every_second_limits_the_time_between(tmp_path: Path) -> None:
    made = Made(tmp_path)
    begin_s = made.handshake()
    for number in range(4):
        made.call("send", begin_s + number, begin_s + number + 0.0001, MSS)
        made.segment(begin_s + number, number)
    seconds = _seconds(_told(made))
    assert seconds["application"] == pytest.approx(3.0, abs=0.01)
    assert seconds["slow-start"] == pytest.approx(0.102, abs=0.01)  # the last flight


def test_a_queue_that_stands_for_round_trips_is_the_link(tmp_path: Path) -> None:
    made = Made(tmp_path)
    begin_s = made.handshake()
    made.call("send", begin_s, begin_s + 0.0001, 500 * MSS)
    for number in range(500):
        made.segment(begin_s + number * 0.001, number, waits_s=0.02)
    seconds = _seconds(_told(made))
    last_flight_s = 0.1
    assert seconds["link"] == pytest.approx(0.52 + last_flight_s, abs=0.02)


def test_a_pause_for_repair_while_data_wait_is_recovery(tmp_path: Path) -> None:
    made = Made(tmp_path)
    begin_s = made.handshake()
    made.call("send", begin_s, begin_s + 0.0001, 20 * MSS)
    made.segment(begin_s, 0)
    made.segment(begin_s + 0.001, 1, fate="loss")
    made.segment(begin_s + 0.002, 2, answer=False)
    made.packet(1, begin_s + 0.06, ack=MSS)  # a duplicate ACK
    made.segment(begin_s + 1.0, 1, answer=False)
    made.packet(1, begin_s + 1.06, ack=3 * MSS)
    for number in range(3, 20):
        made.segment(begin_s + 1.2, number)
    seconds = _seconds(_told(made))
    assert seconds["recovery"] == pytest.approx(1.0, abs=0.02)
    assert "outage" not in seconds


def test_a_silence_in_which_a_retry_is_lost_is_an_outage_up_to_the_try_that_came_through(tmp_path: Path) -> None:
    made = Made(tmp_path)
    begin_s = made.handshake()
    made.call("send", begin_s, begin_s + 0.0001, 3 * MSS)
    made.segment(begin_s, 0)
    for after_s in (0.2, 0.5, 1.1):
        made.segment(begin_s + after_s, 1, fate="outage")
    made.segment(begin_s + 2.3, 1)
    made.segment(begin_s + 2.5, 2)
    found = _told(made)
    begin, end = next((b, e) for b, e, limit, _ in found["intervals"] if limit == "outage")
    zero = found["intervals"][0][0]
    assert (end - zero) / 1e9 == pytest.approx(begin_s + 2.3, abs=0.001)
    assert (begin - zero) / 1e9 == pytest.approx(begin_s + 0.2, abs=0.001)  # nothing outstanding before


def test_what_fills_the_window_offered_waits_for_the_receiver(tmp_path: Path) -> None:
    made = Made(tmp_path)
    begin_s = made.handshake(window=MSS)
    made.call("send", begin_s, begin_s + 0.0001, 40 * MSS)
    for number in range(40):
        made.segment(begin_s + 0.102 * number, number, window=MSS)
    seconds = _seconds(_told(made))
    assert seconds["receiver-window"] == pytest.approx(40 * 0.102, abs=0.05)


def test_the_truth_knows_nothing_of_the_programs_own_analysis() -> None:
    program = "import json, sys, tests.causes.truth; print(json.dumps(sorted(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True)
    loaded = set(json.loads(done.stdout))
    assert not loaded & {f"multitracer.{room}" for room in _FORBIDDEN}


def test_a_download_that_is_never_answered_is_seen_by_its_client_alone(tmp_path: Path) -> None:
    made = Made(tmp_path, upload=False)
    for at_s in (0, 1):
        made.packet(0, at_s, flags="S", fate="outage")
    found = _told(made)
    assert found["shares"] == {"handshake": 1.0}
    assert found["at_sender_ns"] is None
    assert found["at_receiver_ns"] is not None


def test_a_program_whose_last_send_never_ended_limits_the_time_before_it(tmp_path: Path) -> None:
    made = Made(tmp_path)
    begin_s = made.handshake()
    made.call("send", begin_s, begin_s + 0.0001, MSS)
    made.segment(begin_s, 0)
    made.call("pace", begin_s + 0.0001, begin_s + 5)
    for after_s in (5.0, 5.3, 5.9, 7.1):  # its journal ends before this send() does
        made.segment(begin_s + after_s, 1, fate="idle")
    found = _told(made)
    seconds = _seconds(found)
    assert seconds["application"] == pytest.approx(5.0, abs=0.01)
    assert seconds["outage"] == pytest.approx(2.1, abs=0.01)


def _policed(folder: Path, used: int, *, each_round: int = 10, round_s: float = 0.11) -> dict[str, float]:
    """Return the seconds of a transfer that uses so many of the ten packets of its contract in each round trip."""
    rate_bps = each_round * (MSS + 40) * 8 / round_s
    made = Made(folder, more=[["up", "policer", rate_bps, 20 * (MSS + 40)]])
    begin_s = made.handshake()
    made.call("send", begin_s, begin_s + 3, 400 * MSS)
    for round_ in range(20):
        for place in range(used + 5):  # the last five are dropped and go first in the next round
            dropped = place >= used and round_ >= 2
            fate = "policer" if dropped else "delivered"
            made.segment(begin_s + round_ * round_s + place * 0.0005, round_ * used + place, fate=fate)
    return _seconds(_told(made))


def test_a_policer_is_the_link_while_nearly_all_tokens_are_used(tmp_path: Path) -> None:
    """The bucket fills again between the bursts; still a larger window would have brought nothing sooner."""
    assert _policed(tmp_path / "all", 10)["link"] == pytest.approx(18 * 0.11, rel=0.15)
    assert _policed(tmp_path / "most", 9)["link"] == pytest.approx(18 * 0.11, rel=0.15)
    assert _policed(tmp_path / "half", 5).get("link", 0) < 0.2


def _shaped(folder: Path, *, apart_s: float, at_once: int) -> dict[str, float]:
    """Return the seconds of an upload through a shaper of a tenth of the link's rate, on its own interface."""
    made = Made(folder)
    made.own = {"rate_bps": RATE_BPS // 10, "burst_bytes": at_once * (MSS + 40), "queue_bytes": 30_000}
    begin_s = made.handshake()
    made.call("send", begin_s, begin_s + 0.0001, 200 * MSS)
    for number in range(200):
        made.segment(begin_s + number // at_once * apart_s * at_once + number % at_once * 0.0001, number)
    return _seconds(_told(made))


@pytest.mark.parametrize("at_once", [1, 8])
def test_a_shaper_on_the_senders_own_interface_is_the_link(tmp_path: Path, at_once: int) -> None:
    full = _shaped(tmp_path / "full", apart_s=0.01, at_once=at_once)
    assert full["link"] == pytest.approx(2, abs=0.3)
    assert _shaped(tmp_path / "half", apart_s=0.02, at_once=at_once).get("link", 0) == 0


def test_an_upload_that_fills_the_way_of_the_acks_is_the_link(tmp_path: Path) -> None:
    shares = {}
    for other in (False, True):
        made = Made(tmp_path / str(other))
        begin_s = made.handshake()
        made.call("send", begin_s, begin_s + 0.0001, 40 * MSS)
        for round_ in range(10):
            for place in range(4):
                at_s = begin_s + 0.36 * round_ + 0.001 * place
                made.packet(0, at_s, first=(4 * round_ + place) * MSS, payload=MSS)
                made.packet(1, at_s + 0.052, ack=(4 * round_ + place + 1) * MSS, waits_s=0.25)
        for number in range(3600 if other else 0):
            made.packet(1, begin_s + 0.001 * number, first=number * MSS, payload=MSS, waits_s=0.25)
        shares[other] = truth(made.save())["transfers"]
    alone, beside = (next(t for t in shares[other] if t["way"] == "up")["shares"] for other in (False, True))
    assert alone.get("link", 0) < 0.1
    assert beside["link"] > 0.7
    late = [next(t for t in shares[other] if t["way"] == "up")["faults"].get("bufferbloat") for other in (False, True)]
    assert late == [None, True]
