"""Who kept whom waiting, and what is no limit although it looks like one."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from multitracer.diagnosis.limits.names import Limit
from tests.analysis.traffic import ACK, SYN
from tests.diagnosis.talk import FULL, Talk, kinds

if TYPE_CHECKING:
    from pathlib import Path

_SERVER, _CLIENT = 5_001, 1_001


def test_a_window_that_holds_what_is_written_does_not_limit(tmp_path: Path) -> None:
    """A loopback's segments are as large as its whole window."""
    talk, large = Talk(rtt_ms=1), {"mss": 65_495, "scale": 0}
    talk.note(0, 0, seq=_CLIENT - 1, flags=SYN, options=large, window=29_000)
    talk.note(1, 1, seq=_SERVER - 1, ack=_CLIENT, flags=SYN | ACK, options=large, window=29_000)
    talk.note(1.1, 0, seq=_CLIENT, ack=_SERVER, window=29_000)
    for turn in range(8):
        at_ms = 100 + 400 * turn
        talk.note(at_ms, 0, seq=_CLIENT + 80 * turn, ack=_SERVER, payload=80, window=29_000, flags=ACK | 8)
        talk.note(at_ms + 1, 1, seq=_SERVER, ack=_CLIENT + 80 * (turn + 1), window=29_000)
    found = talk.diagnosed(tmp_path)
    assert found.headline.limit is Limit.APPLICATION
    assert not any(row.limit is Limit.RECEIVER_WINDOW for row in found.limited.shares)


def test_a_connection_that_began_before_the_capture_is_not_opening(tmp_path: Path) -> None:
    talk = Talk()
    talk.note(0, 1, seq=_SERVER, ack=_CLIENT, flags=ACK | 1)
    talk.note(0.2, 0, seq=_CLIENT, ack=_SERVER + 1)
    talk.note(26_000, 0, seq=_CLIENT, ack=_SERVER + 1, flags=ACK | 1)
    found = talk.diagnosed(tmp_path)
    assert found.headline.limit is Limit.UNKNOWN
    assert "began before the capture" in found.headline.sentence


def test_a_connection_without_data_is_opened_until_its_handshake_ends(tmp_path: Path) -> None:
    talk = Talk().opened()
    talk.note(5_000, 0, seq=_CLIENT, ack=_SERVER, flags=ACK | 1)
    talk.note(5_050, 1, seq=_SERVER, ack=_CLIENT + 1, flags=ACK | 1)
    found = talk.diagnosed(tmp_path)
    assert found.headline.limit is Limit.HANDSHAKE
    assert found.limited.total_s == pytest.approx(0.05, abs=0.001)


def test_what_is_sent_again_and_never_acknowledged_is_no_slow_start(tmp_path: Path) -> None:
    """At the receiver, whose host has gone: all copies come, none is answered."""
    talk = Talk()
    talk.note(0, 0, seq=_CLIENT - 1, flags=SYN, options={"mss": FULL, "scale": 0})
    talk.note(0.1, 1, seq=_SERVER - 1, ack=_CLIENT, flags=SYN | ACK, options={"mss": FULL, "scale": 0})
    talk.note(50, 0, seq=_CLIENT, ack=_SERVER)
    talk.data(50.2, 0)
    talk.ack(50.3, 1)
    talk.data(100, 1)
    for turn in range(7):
        talk.data(100 + 300 * 2**turn, 1)
    found = talk.diagnosed(tmp_path)
    assert found.headline.limit is Limit.RECOVERY
    assert found.headline.share > 0.95
    assert "slow-start-limited" not in kinds(found)
