"""`multitracer dissect`: the bridge to Wireshark's dissectors."""

from __future__ import annotations

import gc
import shutil
import signal
import warnings
from typing import TYPE_CHECKING

import pytest
from scapy.all import DNS, DNSQR, IP, TCP, UDP, Ether, wrpcap

from parsers._wireshark import dissect
from tests.cli.program import ENVIRONMENT, run
from tests.conftest import SAMPLES

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.skipif(shutil.which("tshark") is None, reason="needs tshark")

# pyshark's own warnings about asyncio are not ours to fail on.
_LENIENT = {**ENVIRONMENT, "PYTHONWARNINGS": "default"}


@pytest.fixture
def capture(tmp_path: Path) -> Path:
    path = tmp_path / "name; $(touch x).pcap"
    question = Ether() / IP(src="10.0.0.1", dst="10.0.0.2") / UDP(sport=4000, dport=53)
    packets = [question / DNS(rd=1, qd=DNSQR(qname="example.org")), Ether() / IP() / TCP()]
    for seconds, packet in enumerate(packets):
        packet.time = 1_700_000_000 + seconds
    wrpcap(str(path), packets)
    return path


@pytest.mark.parametrize("stopped", [True, False])
def test_the_pipes_of_tshark_are_closed_though_it_had_more_to_say(stopped: bool) -> None:
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always", ResourceWarning)
        packets = dissect(SAMPLES / "cellular_upload" / "mobile" / "tcp-0.pcap.gz", max_packets=5)
        assert next(packets).frame == 1
        assert stopped or len(list(packets)) == 4
        packets.close()
        del packets
        gc.collect()
    assert [each.message for each in told if each.category is ResourceWarning] == []


def test_no_signal_handler_stays_behind(capture: Path) -> None:
    """With one that stays, each later child of a notebook writes to a pipe that nobody reads."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        first, second = dissect(capture), dissect(capture)
        assert [next(first).frame, next(second).frame] == [1, 1]
        first.close()
        assert [packet.frame for packet in second] == [2]
    assert signal.getsignal(signal.SIGCHLD) is signal.SIG_DFL


def test_dissect_shows_the_stack_and_fields_that_wireshark_sees(capture: Path) -> None:
    lines = run("dissect", capture, env=_LENIENT).stdout.splitlines()
    assert len(lines) == 2
    assert lines[0].split()[0] == "1"
    assert "2023-11-14 22:13:20.000 UTC" in lines[0]
    assert "eth:ethertype:ip:udp:dns" in lines[0]
    assert "eth:ethertype:ip:tcp" in lines[1]


def test_dissect_takes_a_display_filter_and_a_limit(capture: Path) -> None:
    assert [
        line.split()[0] for line in run("dissect", capture, "--filter", "tcp", env=_LENIENT).stdout.splitlines()
    ] == ["2"]
    assert len(run("dissect", capture, "--max-packets", "1", env=_LENIENT).stdout.splitlines()) == 1
    assert run("dissect", capture, "--filter", "sctp", env=_LENIENT).stdout == "no packet matches sctp.\n"


@pytest.mark.parametrize("wrong", ["no such field", "tcp &&"])
def test_a_filter_that_wireshark_refuses_is_one_error(capture: Path, wrong: str) -> None:
    done = run("dissect", capture, "--filter", wrong, status=1, env=_LENIENT)
    assert "display filter" in done.stderr
    assert wrong in done.stderr


def test_a_file_that_is_no_capture_is_one_error(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("nothing to see")
    assert "notes.txt at byte 0" in run("dissect", tmp_path / "notes.txt", status=1, env=_LENIENT).stderr
    assert "file not found" in run("dissect", tmp_path / "absent.pcap", status=1, env=_LENIENT).stderr


def test_without_tshark_the_error_names_the_remedy(capture: Path, tmp_path: Path) -> None:
    bare = {**_LENIENT, "PATH": str(tmp_path)}
    assert "install tshark" in run("dissect", capture, status=1, env=bare).stderr
