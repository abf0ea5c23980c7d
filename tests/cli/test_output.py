"""What a command writes never replaces a capture."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

import pytest

from tests.cli.program import call
from tests.parsers.frames import block, ethernet, interface, ipv4, section, tcp
from tests.recording.captures import Conversation, write_conversations

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def capture(tmp_path: Path) -> Path:
    """Return a capture of one connection."""
    return write_conversations(tmp_path / "a.pcap", Conversation())


@pytest.mark.parametrize("command", ["report", "plot", "analyze", "align"])
@pytest.mark.parametrize("name", ["other.pcap", "page.html"])
def test_output_never_replaces_another_capture(command: str, name: str, capture: Path, tmp_path: Path) -> None:
    other = tmp_path / name
    other.write_bytes(capture.read_bytes())
    assert "is a capture" in call(command, "-o", other, capture, status=1).stderr
    assert other.read_bytes() == capture.read_bytes()


@pytest.mark.parametrize("order", ["<", ">"])
def test_a_capture_of_packets_that_name_this_program_is_kept(order: str, capture: Path, tmp_path: Path) -> None:
    packet = ethernet(ipv4(tcp(payload=b"MultiTracer")))
    header = struct.pack(f"{order}5I", 0, 0, 1, len(packet), len(packet))
    other = tmp_path / "other.pcapng"
    other.write_bytes(section(order) + interface(order=order) + block(6, header + packet, order))
    kept = other.read_bytes()
    assert "1 packet" in call("analyze", other).stdout
    assert "is a capture" in call("report", "-o", other, capture, status=1).stderr
    assert other.read_bytes() == kept


def test_an_export_for_wireshark_may_be_written_again(sample_session: Path, tmp_path: Path) -> None:
    for _ in range(2):
        call("export", "wireshark", sample_session, "-o", tmp_path / "packets.pcapng")
