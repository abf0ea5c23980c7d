"""tcpdump's rotation and the sniffer that stands in for it: real packets between two hosts, none lost."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import parsers
from multitracer.analysis import analyse
from multitracer.recording.read import read
from tests.collectors.running import PATIENCE_S, command, end, records, until
from tests.netns import Namespaces, namespaces
from tests.recorder.capturing import command as capture
from tests.recorder.capturing import manifest

if TYPE_CHECKING:
    from collections.abc import Iterator

    from multitracer.capture import CaptureTables

pytestmark = pytest.mark.root

PORT = 5001
SINK = """
import socket
server = socket.create_server(("", 5001))
print("ready", flush=True)
while True:
    with server.accept()[0] as client:
        while client.recv(1 << 16):
            pass
"""
SEND = """
import socket, sys, time
with socket.create_connection((sys.argv[1], 5001)) as client:
    for _ in range(int(sys.argv[2])):
        client.sendall(bytes(1000))
        time.sleep(float(sys.argv[3]))
    client.shutdown(socket.SHUT_WR)
    client.recv(1)
"""


@pytest.fixture
def hosts() -> Iterator[Namespaces]:
    with namespaces("a", "b") as made:
        made.join("a", "b", network="10.0.1")
        for address in ("10.0.1.2", "127.0.0.1"):
            label = "b" if address == "10.0.1.2" else "a"
            sink = made.start(label, sys.executable, "-c", SINK, stdout=subprocess.PIPE)
            assert sink.stdout is not None
            assert sink.stdout.readline() == "ready\n"
            sink.stdout.close()
        yield made


def send(hosts: Namespaces, times: int, *, to: str = "10.0.1.2", pause_s: float = 0) -> None:
    """Send as many kilobytes from `a` as are given."""
    hosts.run("a", sys.executable, "-c", SEND, to, str(times), str(pause_s))


def listening(hosts: Namespaces, name: str, folder: Path, *options: object) -> subprocess.Popen[str]:
    """Start a packet collector at `a`; return when it listens."""
    notes = folder / f"{name}.jsonl"
    argv = command(name, "-o", folder / f"{name}-0.pcap", "--notes", notes, *options)
    child = hosts.start("a", *argv, stderr=subprocess.PIPE)
    until(lambda: child.poll() is not None or (notes.exists() and records(notes, "clock")))
    if name == "tcpdump":  # its first numbers come when it listens
        until(lambda: child.poll() is not None or "captured" in records(notes, "clock")[-1])
    return child


def ended(child: subprocess.Popen[str], notes: Path) -> dict[str, Any]:
    """End a packet collector in order; return what it counted."""
    assert end(child) == 0
    assert child.stderr is not None
    child.stderr.close()
    (last,) = records(notes, "end")
    return last


def counted(folder: Path, name: str) -> int:
    """Return how many packets a collector has taken; how many a busy kernel makes is not known before."""
    return int(records(folder / f"{name}.jsonl", "clock")[-1]["captured"])


def segments_of(paths: list[Path]) -> CaptureTables:
    return parsers.read_capture(sorted(paths, reverse=True))  # the order is the reader's to find


def carried(trace: CaptureTables) -> int:
    """Return the octets of data in a capture, each once: a busy machine makes TCP send some twice."""
    return int(analyse(trace).unique_bytes().sum())


def test_rotation_by_size_loses_nothing_and_reads_as_one_trace(hosts: Namespaces, tmp_path: Path) -> None:
    child = listening(hosts, "tcpdump", tmp_path, "-i", "to-b", "--snap", 0, "--file-mb", 1)
    send(hosts, 4000)
    counts = ended(child, tmp_path / "tcpdump.jsonl")
    files = list(tmp_path.glob("tcpdump-0.pcap*"))
    assert len(files) >= 5, "4 MB of data, and headers"
    assert {path.name for path in files} == {f"tcpdump-0.pcap{n or ''}" for n in range(len(files))}
    assert max(path.stat().st_size for path in files) < 1_100_000
    complete = segments_of(files)
    assert len(complete.segments) == counts["captured"]
    assert (counts["dropped_kernel"], carried(complete)) == (0, 4_000_000)
    assert [Path(file.path).name for file in complete.files] == [f"tcpdump-0.pcap{n or ''}" for n in range(len(files))]
    session = read(tmp_path)
    assert [len(capture.point.paths) for capture in session.captures] == [len(files)]


def test_rotation_by_time_loses_nothing_and_reads_as_one_trace(hosts: Namespaces, tmp_path: Path) -> None:
    child = listening(hosts, "tcpdump", tmp_path, "-i", "to-b", "--file-minutes", 1 / 60, "--file-mb", 0)
    sent = 0
    while len(list(tmp_path.glob("*.pcap"))) < 4:
        assert child.poll() is None
        send(hosts, 20, pause_s=0.01)
        sent += 20_000
    counts = ended(child, tmp_path / "tcpdump.jsonl")
    files = list(tmp_path.glob("*.pcap"))
    complete = segments_of(files)
    assert len(complete.segments) == counts["captured"]
    assert (counts["dropped_kernel"], carried(complete)) == (0, sent)
    assert len({file.first_ns for file in complete.files}) == len(files)


def test_a_file_shorter_than_a_second_is_refused(tmp_path: Path) -> None:
    argv = command("tcpdump", "-o", tmp_path / "x.pcap", "--file-minutes", 0.001)
    done = subprocess.run(argv, capture_output=True, text=True, check=False, timeout=PATIENCE_S)
    assert done.returncode == 2
    assert "--file-minutes" in done.stderr.splitlines()[-1]


@pytest.mark.parametrize("interface", ["to-b", "any", "lo"])
def test_sniffer_sees_what_tcpdump_sees(interface: str, hosts: Namespaces, tmp_path: Path) -> None:
    children = [listening(hosts, name, tmp_path, "-i", interface) for name in ("tcpdump", "sniffer")]
    for to in ("10.0.1.2", "127.0.0.1"):
        send(hosts, 400, to=to)
    until(lambda: counted(tmp_path, "sniffer") == counted(tmp_path, "tcpdump") > 800 / 65)
    counts = [
        ended(child, tmp_path / f"{name}.jsonl") for child, name in zip(children, ("tcpdump", "sniffer"), strict=True)
    ]
    assert counts[0]["captured"] == counts[1]["captured"] > 800 / 65
    assert [count["dropped_kernel"] for count in counts] == [0, 0]
    theirs, ours = (segments_of([tmp_path / f"{name}-0.pcap"]) for name in ("tcpdump", "sniffer"))
    assert carried(theirs) == carried(ours) == (800_000 if interface == "any" else 400_000)
    for column in ("flow", "seq", "ack", "payload_bytes", "flags"):
        assert (theirs.segments[column] == ours.segments[column]).all()
    late_ns = ours.segments["time_ns"] - theirs.segments["time_ns"]
    assert np.median(abs(late_ns)) < 100_000, "stamps are the kernel's, not those of reading 20 ms later"


def test_where_tcpdump_is_missing_capture_says_that_the_sniffer_is_slower(hosts: Namespaces, tmp_path: Path) -> None:
    tools = tmp_path / "bin"
    tools.mkdir()
    folder = tmp_path / "drive"
    argv = capture(folder, "-i", "to-b", "--without", "tcp_probe", "--clap", "10.0.1.2:9009", "--clap-every", 1)
    child = hosts.start("a", "env", f"PATH={tools}", *argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    notes = folder / "mobile" / "sniffer-0.jsonl"
    until(lambda: child.poll() is not None or (notes.exists() and records(notes, "clap")))
    send(hosts, 100)
    before = len(records(notes, "clap"))
    until(lambda: child.poll() is not None or len(records(notes, "clap")) > before + 1)  # it listens now
    child.terminate()
    _, said = child.communicate(timeout=PATIENCE_S)
    assert child.returncode == 0, said
    assert "Warning: the collector tcpdump is not used: tcpdump is not installed" in said
    assert "Warning: the collector sniffer is used instead of tcpdump, but is slower" in said
    assert "sniffer: slower than tcpdump" in (folder / "mobile" / "sniffer.err").read_text()
    assert "tcpdump" not in {run["name"] for run in manifest(folder)["collectors"]}
    assert carried(segments_of([folder / "mobile" / "tcp-0.pcap"])) == 100_000
    packets = (folder / "mobile" / "tcp-0.pcap").read_bytes()
    tags = [record["tag"].encode() for record in records(notes, "clap")]  # the first may be sent before it listens
    assert tags
    assert any(tag in packets for tag in tags)
