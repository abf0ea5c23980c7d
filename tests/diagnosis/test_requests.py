"""Who kept whom waiting, and what is no limit although it looks like one."""

from __future__ import annotations

from typing import TYPE_CHECKING

from multitracer.diagnosis.limits.names import Limit
from tests.analysis.traffic import ACK, SYN
from tests.diagnosis.talk import Talk

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
