"""The collector rlp: GSMTAP datagrams as osmo-bts sends them become a log of the link."""

from __future__ import annotations

import os
import shutil
import socket
import struct
import subprocess
from typing import TYPE_CHECKING

import pytest

import parsers
from multitracer.protocols.gsmtap import PORT
from multitracer.protocols.rlp import FrameKind, RlpFrame, Supervisory
from tests.collectors.running import PATIENCE_S, command, end, run, until

if TYPE_CHECKING:
    from pathlib import Path

    from multitracer.tables import Table

HOST = f"127.{os.getpid() >> 16 & 0x3F | 0x40}.{os.getpid() >> 8 & 0xFF}.{os.getpid() & 0xFF}"
"""An address of this host that only this process uses, whose PID has at most 22 bits: the port is always the same."""
UPLINK = 0x4000


def gsmtap(frame: bytes, *, uplink: bool, kind: int = 0x14, number: int = 1234567) -> bytes:
    """Return a datagram as osmo-bts writes it (libosmocore gsmtap.h): header of 16 octets, type 0x14."""
    arfcn = 871 | (UPLINK if uplink else 0)
    return struct.pack("!BBBBHbbLBBBB", 2, 4, kind, 2, arfcn, -60, 20, number, 9, 0, 0, 0) + frame


def information(n_s: int, n_r: int) -> bytes:
    return RlpFrame(
        FrameKind.IS, Supervisory.RR, command=True, poll_final=False, n_s=n_s, n_r=n_r, info=bytes(25)
    ).encode()


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return tmp_path / "rlp.pcapng"


def tables(log: Path) -> dict[str, Table]:
    fmt, parsed = parsers.read(log)
    assert fmt.name == "rlpdump"
    assert isinstance(parsed, dict)
    return parsed


def record(log: Path, datagrams: list[bytes], *options: object) -> None:
    """Run the collector while datagrams are sent to it, until all are in its file."""
    argv = command("rlp", "-o", log, "--listen", f"{HOST}:{PORT}", *options)
    child = subprocess.Popen(argv, stderr=subprocess.PIPE, text=True, stdin=subprocess.PIPE)
    try:
        until(lambda: child.poll() is not None or (log.exists() and log.stat().st_size > 0))
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
            for datagram in datagrams:
                sender.sendto(datagram, (HOST, PORT))
        until(lambda: log.read_bytes().count(b"\x06\0\0\0") >= len(datagrams))
        assert end(child) == 0
    finally:
        child.kill()
        child.communicate(timeout=PATIENCE_S)


def test_frames_of_both_directions_become_the_links_table(log: Path) -> None:
    datagrams = [gsmtap(information(n, 0), uplink=n % 2 == 0) for n in range(20)]
    record(log, datagrams, "--side", "fixed")
    found = tables(log)
    frames = found["link_frames"]
    assert frames["n_s"].tolist() == list(range(20))
    assert frames["uplink"].tolist() == [n % 2 == 0 for n in range(20)]
    assert (frames["sent"] == ~frames["uplink"]).all()
    assert frames["fcs_ok"].all()
    assert frames.missing("attempt").all()
    assert frames.missing("tick").all()
    assert set(frames["fate"].tolist()) == {""}
    assert (abs(frames["time_ns"][1:] - frames["time_ns"][:-1]) < 10**9).all()
    (ending,) = found["link_events"].rows()
    assert (ending["event"], ending["cause"]) == ("ended", "SIGTERM")


def test_damaged_frames_other_types_and_nonsense_are_kept_and_counted(log: Path) -> None:
    broken = bytearray(information(3, 0))
    broken[10] ^= 1
    others = [gsmtap(bytes(23), uplink=True, kind=0x01), b"", b"x" * 9, os.urandom(65_507)]
    record(log, [gsmtap(bytes(broken), uplink=True), *others])
    frames = tables(log)["link_frames"]
    assert frames["fcs_ok"].tolist() == [False]
    assert sum(frames.provenance["skipped"].values()) == len(others)
    assert frames.provenance["damaged"] is None


@pytest.mark.skipif(shutil.which("tshark") is None, reason="needs tshark")
def test_wireshark_reads_the_file(log: Path) -> None:
    record(log, [gsmtap(information(1, 0), uplink=True)])
    done = subprocess.run(
        ["tshark", "-r", log, "-T", "fields", "-e", "ip.dst", "-e", "gsmtap.type", "-e", "gsmtap.uplink"],
        capture_output=True,
        text=True,
        check=True,
    )
    first = done.stdout.splitlines()[0].split("\t")
    assert first[0] == HOST
    assert int(first[1], 0) == 0x14
    assert first[2] in ("1", "True")


def test_address_that_is_taken_is_told(log: Path) -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as other:
        other.bind((HOST, 0))
        port = other.getsockname()[1]
        done = run("rlp", "-o", log, "--listen", f"{HOST}:{port}")
    assert done.returncode == 1
    assert "cannot listen" in done.stderr
    assert not log.exists()
