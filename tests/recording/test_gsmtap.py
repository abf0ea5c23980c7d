"""Captures with signalling stay captures, logs of a modem are logs, and a missing program is one sentence."""

from __future__ import annotations

import shutil
import sys
from typing import TYPE_CHECKING

import pytest

from multitracer.errors import PreflightError
from multitracer.protocols.pcap_file import pcap_header, pcap_record
from multitracer.recording.inputs import find_inputs, loose_inputs
from multitracer.recording.read import read
from tests.cli.program import call
from tests.parsers.frames import frame
from tests.parsers.signalling_messages import START_NS, packet, version_2
from tests.parsers.test_diag import log

if TYPE_CHECKING:
    from pathlib import Path

    from multitracer.recording.recording import Recording

needs_tshark = pytest.mark.skipif(not shutil.which("tshark"), reason="needs tshark")


@pytest.fixture
def mixed(tmp_path: Path) -> Path:
    """Return a capture of a segment of TCP and of a handover."""
    packets = [frame(seq=1, payload=b"x" * 9)[14:], *map(packet, map(version_2, ("handover to 305", "complete 1")))]
    path = tmp_path / "mixed.pcap"
    path.write_bytes(pcap_header() + b"".join(pcap_record(p, time_ns=START_NS + n) for n, p in enumerate(packets)))
    return path


@pytest.fixture
def without_programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))


def rows(recording: Recording, name: str) -> list[dict[str, object]]:
    return [row for _, table in recording.tables("radio", name) for row in table.rows()]


def test_inspect_says_where_the_signalling_of_a_capture_is_shown(mixed: Path) -> None:
    assert "in GSMTAP; `multitracer report` and `export tables` show the signalling" in call("inspect", mixed).stdout


@needs_tshark
def test_a_capture_with_gsmtap_keeps_its_packets_and_has_handovers(mixed: Path) -> None:
    recording = read(find_inputs(str(mixed)))
    (capture,) = recording.captures
    assert capture.tables.files[0].protocols == {"tcp": 1, "gsmtap": 2}
    assert len(capture.tables.segments) == 1
    (handover,) = rows(recording, "handovers")
    assert (handover["command_line"], handover["complete_line"]) == (2, 3)
    ((log_of_it, _),) = recording.logs("radio")
    assert (log_of_it.host, log_of_it.format) == (str(mixed), "gsmtap")


@pytest.mark.usefixtures("without_programs")
def test_without_tshark_a_capture_is_read_and_one_sentence_names_the_command(mixed: Path) -> None:
    recording = read(find_inputs(str(mixed)))
    assert rows(recording, "handovers") == []
    assert len(recording) == 1
    (warning,) = (each for each in recording.warnings if "signalling" in each)
    assert warning.startswith(f"{mixed}: the signalling in this capture is not read: tshark is not installed")
    assert warning.endswith("sudo apt-get install tshark")


@pytest.mark.usefixtures("without_programs")
def test_without_scat_a_log_is_refused_alone_and_skipped_in_a_folder(mixed: Path, tmp_path: Path) -> None:
    path = tmp_path / "session" / "phone" / "modem.mi2log"
    path.parent.mkdir(parents=True)
    path.write_bytes(log())
    with pytest.raises(PreflightError, match="scat is not installed"):
        read(loose_inputs([str(path)])).logs("radio")
    mixed.rename(path.parent / "tcp.pcap")
    recording = read(find_inputs(str(path.parent.parent)))
    recording.logs("radio")
    assert any("scat is not installed" in each and each.endswith("; skipped") for each in recording.warnings)
