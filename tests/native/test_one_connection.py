"""A figure of one connection of a large capture needs the segments of no other."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import pytest

from multitracer import native
from multitracer.analysis import analyse
from multitracer.cli._reading import ConnectionChoice, one
from multitracer.recording.read import analysis_of, read, with_segments
from parsers._chunks import read_capture
from tests.cli.program import call
from tests.native.both import python_only, read_alone
from tests.parsers.frames import ethernet, ipv4, ipv6, pcap_file, tcp

if TYPE_CHECKING:
    from pathlib import Path

    from multitracer.recording.recording import Recording

pytestmark = pytest.mark.skipif(native.kernel() is None, reason=f"captures are read by {native.state()}")

SYN, ACK, PSH = 0x02, 0x10, 0x08
CLIENT, SERVER = "10.0.0.1", "10.0.0.2"


def exchange(port: int, payloads: list[int], *, isn: int = 100, version: int = 4) -> list[bytes]:
    """Return the frames of a connection: its handshake, and data that is acknowledged each time."""
    seq, frames = isn + 1, [(True, SYN, isn, 0, 0), (False, SYN | ACK, 500, isn + 1, 0)]
    for size in payloads:
        frames += [(True, ACK | PSH, seq, 501, size), (False, ACK, 501, seq + size, 0)]
        seq += size
    return [_frame(port, *each, version=version) for each in frames]


def _frame(port: int, is_sent: bool, flags: int, seq: int, ack: int, size: int, *, version: int) -> bytes:
    sport, dport = (port, 80) if is_sent else (80, port)
    segment = tcp(sport=sport, dport=dport, seq=seq, ack=ack, flags=flags, payload=bytes(size))
    if version == 6:
        return ethernet(ipv6(segment, source=2 - is_sent, destination=1 + is_sent))
    ends = (CLIENT, SERVER)
    packet = ipv4(segment, source=ends[not is_sent], destination=ends[is_sent], identification=seq & 0xFFFF)
    return ethernet(packet)


def tunnelled(frames: list[bytes]) -> list[bytes]:
    """Return the frames within IP in IP, which Python decodes."""
    return [ethernet(ipv4(frame[14:], protocol=4)) for frame in frames]


@pytest.fixture
def large(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Four connections; the first two have the same ends one after the other, the last is of IPv6."""
    monkeypatch.setattr("multitracer.recording.inputs.LARGE_BYTES", 0)
    frames = [
        *exchange(1000, [10, 20]),
        *exchange(1000, [300], isn=70_000),
        *exchange(1001, [200, 40, 30], isn=140_000),
        *exchange(1000, [5], isn=210_000, version=6),
    ]
    path = tmp_path / "large.pcap"
    path.write_bytes(pcap_file(frames))
    return path


def with_one(path: Path, number: int | None = None) -> Recording:
    choice = None if number is None else ConnectionChoice(number)
    return read(path, only=partial(one, choice=choice))


def test_each_connection_alone_is_what_it_is_among_the_others(large: Path) -> None:
    kernel, complete = native.kernel(), analyse(read_capture([large]))
    assert kernel is not None
    counted = analysis_of(kernel, str(large))
    assert counted is not None
    assert read_alone(counted, complete) == len(complete.connections) == 4


@pytest.mark.parametrize(("number", "segments"), [(None, 4), (1, 6), (2, 4), (3, 8), (4, 4)])
def test_only_the_segments_of_the_chosen_connection_are_kept(large: Path, number: int | None, segments: int) -> None:
    recording = with_one(large, number)
    assert len(recording.captures[0].tables.segments) == segments
    assert len(recording) == 4


@pytest.mark.parametrize(
    "options",
    [
        (),
        ("-c", "1"),
        ("-c", "2"),
        ("-c", "[fd00::1]:1000"),
        ("-c", "10.0.0.1:1001", "--direction", "reverse"),
        ("--from", "0.002", "--to", "0.01"),
        ("--from", "5"),
        ("--time-sequence", "--theme", "dark"),
        ("--stacked",),
        ("--max-packets", "9"),
    ],
)
def test_the_page_is_the_same(large: Path, tmp_path: Path, options: tuple[str, ...]) -> None:
    fast = call("plot", *options, large, "-o", tmp_path / "fast.html")
    with python_only():
        complete = call("plot", *options, large, "-o", tmp_path / "whole.html")
    assert (tmp_path / "fast.html").read_bytes() == (tmp_path / "whole.html").read_bytes()
    assert fast.stderr == complete.stderr


@pytest.mark.parametrize("choice", ["9", "10.0.0.1:9", "10.0.0.1:1000", "10.0.0.2:80"])
def test_what_cannot_be_drawn_is_refused_in_the_same_words(large: Path, choice: str, tmp_path: Path) -> None:
    fast = call("plot", "-c", choice, large, "-o", tmp_path / "a.html", status=1)
    with python_only():
        complete = call("plot", "-c", choice, large, "-o", tmp_path / "a.html", status=1)
    assert fast.stderr == complete.stderr


def test_a_capture_without_connections_is_refused_in_the_same_words(large: Path, tmp_path: Path) -> None:
    large.write_bytes(pcap_file([ethernet(ipv4(bytes(20), protocol=17))]))
    fast = call("plot", large, "-o", tmp_path / "a.html", status=1)
    with python_only():
        complete = call("plot", large, "-o", tmp_path / "a.html", status=1)
    assert fast.stderr == complete.stderr


def test_a_connection_of_which_python_decodes_a_packet_is_read_among_all(large: Path) -> None:
    frames = exchange(1000, [10, 20, 30])
    other = exchange(1001, [1], isn=70_000)
    large.write_bytes(pcap_file([*frames[:4], *tunnelled(frames[4:]), *other]))
    segments, complete = with_one(large).captures[0].tables.segments, read_capture([large]).segments
    assert len(segments) == len(complete) == len(frames) + len(other)
    assert len(with_one(large, 2).captures[0].tables.segments) == len(other)


def test_a_file_that_lost_packets_since_is_noticed(large: Path) -> None:
    kernel = native.kernel()
    assert kernel is not None
    counted = analysis_of(kernel, str(large))
    assert counted is not None
    large.write_bytes(pcap_file(exchange(1000, [10])))
    assert with_segments(kernel, counted, 1) is None


def test_packets_that_came_since_are_not_read(large: Path) -> None:
    kernel = native.kernel()
    assert kernel is not None
    counted = analysis_of(kernel, str(large))
    assert counted is not None
    large.write_bytes(large.read_bytes() + pcap_file(exchange(1001, [7], isn=70_000))[24:])
    alone = with_segments(kernel, counted, 3)
    assert alone is not None
    assert len(alone.tcp_segments(3)) == 8


def test_a_compressed_file_is_unpacked_once(large: Path, tmp_path: Path) -> None:
    import gzip

    packed = tmp_path / "large.pcap.gz"
    packed.write_bytes(gzip.compress(large.read_bytes()))
    assert len(read(packed).captures[0].tables.segments) == len(read_capture([packed]).segments)
