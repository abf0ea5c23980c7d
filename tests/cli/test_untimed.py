"""Packets that carry no time (pcapng's simple packets) break no command, and make no number up."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.cli.program import analyze, call
from tests.parsers import frames

if TYPE_CHECKING:
    from pathlib import Path


def _handshake_and_data() -> list[bytes]:
    """Return five frames of one connection."""
    steps = (
        (False, 10, 0, 0x02, b""),
        (True, 50, 11, 0x12, b""),
        (False, 11, 51, 0x10, b""),
        (False, 11, 51, 0x18, b"data"),
        (True, 51, 15, 0x10, b""),
    )
    made = []
    for back, seq, ack, flags, payload in steps:
        source, destination = ("10.0.0.1", "10.0.0.2")[:: -1 if back else 1]
        sport, dport = (1000, 80)[:: -1 if back else 1]
        segment = frames.tcp(sport=sport, dport=dport, seq=seq, ack=ack, flags=flags, payload=payload)
        made.append(frames.ethernet(frames.ipv4(segment, source=source, destination=destination)))
    return made


@pytest.mark.parametrize("untimed", [{0}, {0, 1}, {3, 4}, {0, 1, 2, 3, 4}])
def test_packets_without_a_time_break_no_command(tmp_path: Path, untimed: set[int]) -> None:
    data = frames.section() + frames.interface()
    for i, frame in enumerate(_handshake_and_data()):
        ticks = (frames.EPOCH_S + i) * 10**6
        data += frames.simple(frames.padded(frame)) if i in untimed else frames.enhanced(frame, ticks)
    mixed = tmp_path / "mixed.pcapng"
    mixed.write_bytes(data)
    timed = [i for i in range(5) if i not in untimed]
    connection = analyze(mixed)["connections"][0]
    assert connection["duration_s"] == (timed[-1] - timed[0] if timed else None)
    assert connection["forward"]["rtt_ms"]["max"] in {1000, None}
    text = call("analyze", mixed).stdout
    if not timed:
        assert connection["forward"]["rtt_absent"] == "its segments carry no time"
        assert "No round-trip times from initiator: its segments carry no time." in text
    assert f"{len(untimed)} packet" in text
    assert " d " not in text  # days
    call("inspect", mixed)
    for command in ("plot", "report"):
        call(command, mixed, "-o", tmp_path / f"{command}.html")
    said = call("diagnose", mixed, status=1).stderr
    assert f"{len(untimed)} of its packets are missing" in said


def test_diagnose_names_why_packets_carry_no_time(tmp_path: Path) -> None:
    stamps = [frames.EPOCH_S * 10**6 + n for n in range(5)]
    data = bytearray(frames.pcap_file(map(frames.Packet, _handshake_and_data(), stamps)))
    data[24 + 4 : 24 + 8] = (2_000_000).to_bytes(4, "little")
    unexpected = tmp_path / "odd.pcap"
    unexpected.write_bytes(data)
    said = call("diagnose", unexpected, status=1).stderr
    assert "the times of 1 of its packets are missing (in the capture the fraction of the timestamp" in said
    assert "simple packets" not in said
