"""How long a diagnosis takes: `python -m tests.benchmarks.diagnose [SEGMENTS]`.

A transfer over a link of 10 Mbit/s with a loss every 200 segments, each repaired by a timeout, written
as a capture at the sender; then `multitracer diagnose --json` as a user runs it.
"""

from __future__ import annotations

import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from multitracer.capture import Flag
from multitracer.protocols.pcap_file import pcap_header, pcap_record
from multitracer.protocols.tcp.packet import Packet, Segment, build_packet

_MSS = 1448
_BEGIN_NS = 1_700_000_000_000_000_000
_SENDER, _RECEIVER = bytes([10, 0, 0, 1]), bytes([10, 0, 0, 2])
_PERIOD_NS = 1_200_000
"""One segment at 10 Mbit/s."""
_RTT_NS = 60_000_000
_LOSS_EVERY = 200
_HOST_NS = 50_000
"""From an arrival to the host's answer: by it a capture is known to be the sender's."""


def _record(time_ns: int, *, sent: bool, seq: int, ack: int, flags: int, length: int, ip_id: int) -> bytes:
    ports = (40_000, 5001) if sent else (5001, 40_000)
    segment = Segment(*ports, seq % (1 << 32), ack % (1 << 32), flags, 65_000, payload=bytes(length))
    ends = (_SENDER, _RECEIVER) if sent else (_RECEIVER, _SENDER)
    packet = build_packet(Packet(*ends, segment, identification=ip_id & 0xFFFF))
    return pcap_record(packet[: len(packet) - length], time_ns=time_ns, original_bytes=len(packet))


def write_capture(path: Path, segments: int) -> None:
    """Write a capture with about this many segments, ACKs included."""
    rows = [
        (0, True, 0, 0, Flag.SYN, 0),
        (_RTT_NS, False, 0, 1, Flag.SYN | Flag.ACK, 0),
        (_RTT_NS + _HOST_NS, True, 1, 1, Flag.ACK, 0),
    ]
    now, seq = 2 * _RTT_NS, 1
    for number in range(segments // 2):
        is_lost = number % _LOSS_EVERY == _LOSS_EVERY - 1
        rows.append((now, True, seq, 1, Flag.ACK, _MSS))
        if is_lost:
            now += 5 * _RTT_NS
            rows.append((now, True, seq, 1, Flag.ACK, _MSS))
        seq += _MSS
        rows.append((now + _RTT_NS, False, 1, seq, Flag.ACK, 0))
        now += _PERIOD_NS if not is_lost else 2 * _RTT_NS
    rows.sort(key=lambda row: row[0])
    with path.open("wb") as stream:
        stream.write(pcap_header())
        for number, (at, sent, seq, ack, flags, length) in enumerate(rows):
            stream.write(_record(_BEGIN_NS + at, sent=sent, seq=seq, ack=ack, flags=int(flags), length=length,
                                 ip_id=number))  # fmt: skip


def main() -> None:
    """Measure once and print it."""
    segments = int(sys.argv[1]) if len(sys.argv) > 1 else 1_000_000
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "sender.pcap"
        write_capture(path, segments)
        size = path.stat().st_size
        began = time.monotonic()
        argv = [sys.executable, "-m", "multitracer", "diagnose", "--json", str(path)]
        subprocess.run(argv, check=True, stdout=subprocess.PIPE)
        took_s = time.monotonic() - began
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu_s = used.ru_utime + used.ru_stime
    print(f"{segments:,} segments, {size / 1e6:.0f} MB: {took_s:.2f} s, {cpu_s:.2f} s of CPU, "
          f"{used.ru_maxrss / 1e3:.0f} MB of memory")  # fmt: skip


if __name__ == "__main__":
    main()
