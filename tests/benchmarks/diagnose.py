"""How long a diagnosis takes: `python -m tests.benchmarks.diagnose [SEGMENTS]`.

A transfer over a link of 10 Mbit/s with a loss every 200 segments, each repaired by a timeout, written
as a capture at the sender and then as captures of both ends, and `multitracer diagnose --json` as a user
runs it on each.
"""

from __future__ import annotations

import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from random import Random
from typing import NamedTuple

from multitracer.captured import Flag
from multitracer.lab.tcp.packet import Segment, TcpPacket, build_packet
from multitracer.protocols.pcap_file import pcap_header, pcap_record

_MSS = 1448
_BEGIN_NS = 1_700_000_000_000_000_000
_SENDER, _RECEIVER = bytes([10, 0, 0, 1]), bytes([10, 0, 0, 2])
_PERIOD_NS = 1_200_000
"""One segment at 10 Mbit/s."""
_RTT_NS = 60_000_000
_LOSS_EVERY = 200
_JITTER_NS = 200_000
"""Of the way of each packet, up to."""
_HOST_NS = 50_000
"""From an arrival to the host's answer: by it a capture is known to be the sender's."""


class _Facts(NamedTuple):
    """Of a packet, wherever it was seen."""

    sent: bool
    seq: int
    ack: int
    flags: int
    length: int


def _record(time_ns: int, facts: _Facts, *, ip_id: int) -> bytes:
    sent, seq, ack, flags, length = facts
    ports = (40_000, 5001) if sent else (5001, 40_000)
    segment = Segment(*ports, seq % (1 << 32), ack % (1 << 32), flags, 65_000, payload=bytes(length))
    ends = (_SENDER, _RECEIVER) if sent else (_RECEIVER, _SENDER)
    packet = build_packet(TcpPacket(*ends, segment, identification=ip_id & 0xFFFF))
    return pcap_record(packet[: len(packet) - length], time_ns=time_ns, original_bytes=len(packet))


def _exchange(segments: int) -> list[tuple[int, int | None, bool, int, int, int, int]]:
    """Return the packets of a transfer of about so many segments, ACKs included.

    Of each: when the sender's host saw it, when the receiver's did (None: never), whether the sender sent it,
    sequence and acknowledgment number, flags, payload.
    """
    way, syn, ack = _RTT_NS // 2, int(Flag.SYN), int(Flag.ACK)
    luck = Random(1)
    rows: list[tuple[int, int | None, bool, int, int, int, int]] = [
        (0, way, True, 0, 0, syn, 0),
        (_RTT_NS, _RTT_NS - way, False, 0, 1, syn | ack, 0),
        (_RTT_NS + _HOST_NS, _RTT_NS + _HOST_NS + way, True, 1, 1, ack, 0),
    ]
    now, seq = 2 * _RTT_NS, 1
    for number in range(segments // 2):
        is_lost = number % _LOSS_EVERY == _LOSS_EVERY - 1
        late = [luck.randrange(_JITTER_NS) for _ in range(2)]
        rows.append((now, None if is_lost else now + way + late[0], True, seq, 1, ack, _MSS))
        if is_lost:
            now += 5 * _RTT_NS
            rows.append((now, now + way + late[0], True, seq, 1, ack, _MSS))
        seq += _MSS
        answered = now + way + late[0] + _HOST_NS
        rows.append((answered + way + late[1], answered, False, 1, seq, ack, 0))
        now += _PERIOD_NS if not is_lost else 2 * _RTT_NS
    return rows


def write_session(folder: Path, segments: int, *, both: bool) -> None:
    """Write the capture at the sender, and with `both` the receiver's, into the folders of two hosts."""
    packets = _exchange(segments)
    numbered = list(enumerate(packets))
    for host, place in (("sender", 0), ("receiver", 1))[: 1 + both]:
        (folder / host).mkdir()
        seen = sorted((at, number, row) for number, row in numbered if (at := row[place]) is not None)
        with (folder / host / "tcp-0.pcap").open("wb") as stream:
            stream.write(pcap_header())
            for at, number, (_, _, sent, seq, acked, flags, length) in seen:
                facts = _Facts(sent, seq, acked, flags, length)
                stream.write(_record(_BEGIN_NS + at, facts, ip_id=number))


def _measure(segments: int, *, both: bool) -> str:
    """Return what a diagnosis costs, in a process of its own."""
    with tempfile.TemporaryDirectory() as folder:
        write_session(Path(folder), segments, both=both)
        size = sum(path.stat().st_size for path in Path(folder).rglob("*.pcap"))
        before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
        argv = [sys.executable, "-m", "multitracer", "diagnose", "--json", folder]
        subprocess.run(argv, check=True, stdout=subprocess.PIPE)
        took_s = time.monotonic() - began
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu_s = used.ru_utime + used.ru_stime - before.ru_utime - before.ru_stime
    return f"{size / 1e6:.0f} MB: {took_s:.2f} s, {cpu_s:.2f} s of CPU, {used.ru_maxrss / 1e3:.0f} MB of memory"


def main() -> None:
    """Measure once each and print it."""
    segments = int(sys.argv[1]) if len(sys.argv) > 1 else 1_000_000
    for both, which in ((False, "captured at the sender"), (True, "captured at both ends")):
        print(f"{segments:,} segments, {which}, {_measure(segments, both=both)}")


if __name__ == "__main__":
    main()
