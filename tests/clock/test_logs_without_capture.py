"""Logs that nobody knows the clock of are related to captures by what both saw."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import numpy as np
import pytest

from multitracer.captured import Flag
from tests.cli.program import call
from tests.conftest import SAMPLES
from tests.recording.captures import Conversation, write_pcap

if TYPE_CHECKING:
    from pathlib import Path

    from multitracer.tables import Array, Mask

S, MS = 1_000_000_000, 1_000_000
NOW = 1_795_252_741 * S
SHIFTED = SAMPLES / "clock-shift"
CAPTURE = SHIFTED / "mobile" / "tcp-0.pcap.gz"
LASTS_S = 300


def stalls(seed: int) -> Array:
    """Return begins and ends of 40 stalls of half a second to two seconds."""
    random = np.random.default_rng(seed)
    begin = np.sort(random.choice(np.arange(5, LASTS_S - 5, 5), 40, replace=False)) + random.uniform(0, 2, 40)
    return np.stack([begin, begin + random.uniform(0.5, 2.0, 40)], axis=1)


def within(at_s: Array, bad: Array) -> Mask:
    inside: Mask = (at_s[:, None] >= bad[:, 0]) & (at_s[:, None] < bad[:, 1])
    return np.any(inside, axis=1)


def capture(path: Path, bad: Array) -> Path:
    """Write an upload whose ACKs come every 50 ms unless the radio is bad."""
    made = Conversation(segments=20, start_ns=NOW)  # the same packets again and again: only their times count
    ack = [frame for _, frame in made.packets if frame[47] == Flag.ACK][1]  # the first is of the handshake
    data = next(frame for _, frame in made.packets if frame[47] == Flag.ACK | Flag.PSH)
    at_s = np.arange(LASTS_S * 20) * 0.05
    arrive_s = at_s[~within(at_s + 0.03, bad)] + 0.03
    packets = [(NOW + round(t * S), frame) for times, frame in ((at_s, data), (arrive_s, ack)) for t in times]
    return write_pcap(path, sorted(packets))


def radio(path: Path, bad: Array, *, ahead_s: float) -> Path:
    """Write ten readings a second of a modem whose host's clock is ahead."""
    at_s = np.arange(0, LASTS_S, 0.1)
    lines = []
    for t, lost in zip(at_s, within(at_s, bad), strict=True):
        stamp = datetime.fromtimestamp(NOW / S + t + ahead_s, tz=UTC)
        level = 0 if lost else 17
        lines.append(f"{stamp:%Y-%m-%dT%H:%M:%S.%f}+00:00\nAT+CSQ\n\n+CSQ: {level},99\n\nOK\n")
    path.write_text("".join(lines))
    return path


def test_a_radio_log_is_related_by_its_stalls_alone(tmp_path: Path) -> None:
    bad = stalls(1)
    one, other = capture(tmp_path / "a.pcap", bad), radio(tmp_path / "modem.txt", bad, ahead_s=2.4)
    (edge,) = json.loads(call("align", "--json", one, other).stdout)["edges"]
    assert (edge["from"], edge["to"]) == (str(one), str(other))
    assert edge["offset_ns"] == pytest.approx(2_400 * MS, abs=50 * MS)
    assert edge["uncertainty_ns"] < 200 * MS
    assert "stalls" in edge["method"]


def test_a_radio_log_of_another_drive_is_refused(tmp_path: Path) -> None:
    one = capture(tmp_path / "a.pcap", stalls(1))
    other = radio(tmp_path / "modem.txt", stalls(2), ahead_s=0)
    assert "cannot determine the clock offset, because" in call("align", one, other, status=1).stderr


@pytest.mark.parametrize(
    ("log", "words"), [("tcp_state.jsonl.xz", "bytes acknowledged"), ("rlp.pcapng.xz", "link log")]
)
def test_a_log_of_the_captured_host_is_related_to_its_capture(log: str, words: str) -> None:
    (edge,) = json.loads(call("align", "--json", CAPTURE, SHIFTED / "mobile" / log).stdout)["edges"]
    assert words in edge["method"]
    assert abs(edge["offset_ns"]) <= edge["uncertainty_ns"] < 5 * MS
    assert abs(edge["skew_ppm"]) <= edge["skew_uncertainty_ppm"]
    assert "cannot determine the clock offset" in call("align", CAPTURE, SHIFTED / "fixed" / log, status=1).stderr
