"""Records packets where tcpdump is missing, with scapy's filters; slower, so it loses packets sooner.

The capture is a pcap of IP packets without the headers of their link, with the kernel's nanosecond stamps and
headers only by default. `--notes` gets JSON lines like those of `collectors.tcpdump`; packets that the
kernel dropped are counted there (`dropped_kernel`). Needs root (CAP_NET_RAW).
"""

from __future__ import annotations

import contextlib
import ctypes
import socket
import struct
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

from collectors._collector import Collector, check_alone
from collectors._log import Log, clock_reading
from collectors._options import header, parser, run
from collectors._ready import ready
from collectors._stop import Stop
from collectors.tcpdump import FILTER, SNAP_BYTES
from multitracer.errors import CollectorError, PreflightError
from multitracer.protocols.pcap_file import pcap_header, pcap_record
from multitracer.units import NS_PER_MS, NS_PER_S

if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence

_SLOWER = "sniffer: slower than tcpdump; packets that the kernel cannot buffer are lost and counted"
_LOOK_NS = 20 * NS_PER_MS
_ALL = 262_144
_ROOM_BYTES = 8 << 20
_MOST_BEFORE = 10_000
_ANCILLARY_BYTES = 128
_DLT_RAW = 12
_SO_ATTACH_FILTER, _SO_RCVBUFFORCE, _SO_TIMESTAMPNS = 26, 33, 35
_SOL_PACKET, _PACKET_STATISTICS = 263, 6
_ETH_P_ALL, _ETH_P_IP, _ETH_P_IPV6 = 0x0003, 0x0800, 0x86DD
_PACKET_OUTGOING, _ARPHRD_LOOPBACK = 4, 772


class Link:
    """A packet socket on one or all interfaces; the kernel removes the link header (packet(7)).

    Raises
    ------
    PreflightError
        If the process has no permission for packet sockets, or scapy is missing.
    CollectorError
        If there is no such interface, or the filter is not valid.
    """

    def __init__(self, interface: str, expression: str) -> None:
        self._interface = interface
        self._buffer = bytearray(_ALL)
        self.dropped = 0
        """Packets dropped by the kernel so far."""
        try:
            self._socket = socket.socket(socket.AF_PACKET, socket.SOCK_DGRAM, socket.htons(_ETH_P_ALL))
        except PermissionError as error:
            fix = f"sudo {sys.executable} -m multitracer capture"
            raise PreflightError(f"cannot capture packets: {error.strerror}; run `{fix}`") from error
        with contextlib.ExitStack() as undo:
            undo.callback(self.close)
            try:
                self._prepare(interface, expression)
            except OSError as error:
                raise CollectorError(
                    f"{interface}: cannot capture on this interface: {error.strerror}; check the name of the interface"
                ) from error
            undo.pop_all()

    def _prepare(self, interface: str, expression: str) -> None:
        self._socket.setblocking(False)
        if expression:
            _attach(self._socket, expression)
        self._socket.setsockopt(socket.SOL_SOCKET, _SO_TIMESTAMPNS, 1)
        try:
            self._socket.setsockopt(socket.SOL_SOCKET, _SO_RCVBUFFORCE, _ROOM_BYTES)
        except PermissionError:  # without CAP_NET_ADMIN: as much as net.core.rmem_max allows
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _ROOM_BYTES)
        if interface != "any":
            self._socket.bind((interface, _ETH_P_ALL))
        for _ in range(_MOST_BEFORE):  # what came before the filter and the name were set
            if self._received() is None:
                break
        self.count_dropped()
        self.dropped = 0

    def fileno(self) -> int:
        """Return the descriptor to wait for."""
        return self._socket.fileno()

    def receive(self) -> tuple[bytes, int] | None:
        """Return an IP packet and its time (ns since 1970); None if there is none now."""
        while (received := self._received()) is not None:
            size, time_ns, (_, protocol, direction, hardware, *_) = received
            seen_twice = hardware == _ARPHRD_LOOPBACK and direction == _PACKET_OUTGOING
            if protocol in (_ETH_P_IP, _ETH_P_IPV6) and not seen_twice:
                return bytes(self._buffer[:size]), time_ns
        return None

    def _received(self) -> tuple[int, int, tuple[str, int, int, int, bytes]] | None:
        try:
            size, ancillary, _, origin = self._socket.recvmsg_into([self._buffer], _ANCILLARY_BYTES)
        except BlockingIOError:
            return None
        except OSError as error:
            raise CollectorError(
                f"{self._interface}: the capture on this interface failed: {error.strerror}; check "
                "that the interface is up"
            ) from error
        for level, kind, value in ancillary:
            if (level, kind) == (socket.SOL_SOCKET, _SO_TIMESTAMPNS):
                seconds, rest = struct.unpack_from("ll", value)
                return size, seconds * NS_PER_S + rest, origin
        return size, time.time_ns(), origin

    def count_dropped(self) -> None:
        """Add the packets that the kernel dropped since the last call to `dropped`."""
        statistics = self._socket.getsockopt(_SOL_PACKET, _PACKET_STATISTICS, 8)
        self.dropped += struct.unpack("II", statistics)[1]

    def close(self) -> None:
        """Close the socket."""
        self._socket.close()


def _attach(link: socket.socket, expression: str) -> None:
    """Attach a filter to the socket; it is compiled for packets that begin with the IP header."""
    try:
        from scapy.arch.common import compile_filter
    except ImportError as error:
        raise PreflightError("scapy is not installed; run pip install 'multitracer[field]'") from error
    try:
        compiled = compile_filter(expression, linktype=_DLT_RAW)
    except Exception as error:  # scapy raises Scapy_Exception, ImportError and others for one thing
        raise CollectorError(f"{expression!r}: scapy cannot use this filter: {error}; correct the filter") from error
    program = struct.pack("HL", compiled.bf_len, ctypes.addressof(compiled.bf_insns.contents))
    link.setsockopt(socket.SOL_SOCKET, _SO_ATTACH_FILTER, program)


def _record(chosen: argparse.Namespace, link: Link, stop: Stop, notes: Log) -> None:
    packets = clock_ns = 0
    snap_bytes = chosen.snap or _ALL
    with Log(chosen.output) as capture:
        capture.write(pcap_header(snap_bytes=snap_bytes))
        ready()
        while stop.wait(time.monotonic_ns() + _LOOK_NS):
            packets += _take(link, capture, snap_bytes)
            if time.monotonic_ns() >= clock_ns:
                clock_ns = time.monotonic_ns() + NS_PER_S
                link.count_dropped()
                notes.record(kind="clock", **clock_reading(), captured=packets, dropped_kernel=link.dropped)
        packets += _take(link, capture, snap_bytes)
    link.count_dropped()
    notes.record(kind="end", reason=stop.reason, captured=packets, dropped_kernel=link.dropped)


def _take(link: Link, capture: Log, snap_bytes: int) -> int:
    """Write the arrived packets, for at most a second, and return their number."""
    packets, until_ns = 0, time.monotonic_ns() + NS_PER_S
    while time.monotonic_ns() < until_ns and (received := link.receive()):
        packet, time_ns = received
        capture.write(pcap_record(packet, time_ns=time_ns, snap_bytes=snap_bytes))
        packets += 1
    return packets


def main(argv: Sequence[str]) -> None:
    """Record until stopped."""
    options = parser(__doc__)
    options.add_argument("-i", "--interface", default="any", help="network interface to capture on; default: any")
    options.add_argument(
        "--filter", default=FILTER, help="record only packets that match this capture filter (pcap-filter(7))"
    )
    options.add_argument(
        "--snap",
        type=int,
        default=SNAP_BYTES,
        help=f"maximum number of bytes to record of each packet; default {SNAP_BYTES}; 0 records all bytes",
    )
    options.add_argument(
        "--notes",
        type=Path,
        metavar="LOG",
        help="file for the JSON notes, which must not exist; default: standard output",
    )
    chosen = options.parse_args(argv)
    link = Link(chosen.interface, chosen.filter)
    sys.stderr.write(f"{_SLOWER}\n")
    with (
        Stop(duration_ns=chosen.duration, outlive_parent=chosen.outlive_parent, tags=chosen.tags) as stop,
        Log(chosen.notes) as notes,
    ):
        notes.record(**header("multitracer-sniffer", chosen, interface=chosen.interface, filter=chosen.filter))
        stop.on_tag = notes.sync_probe
        try:
            _record(chosen, link, stop, notes)
        finally:
            link.close()


def check() -> None:
    """Raise PreflightError if scapy is missing or may not open a socket.

    A process of its own tries it: scapy is GPL, and no other process of MultiTracer loads it.
    """
    check_alone("from collectors.sniffer import FILTER, Link; Link('any', FILTER).close()")


COLLECTOR = Collector(
    name="sniffer",
    layer="packet",
    description="packets, with scapy, where tcpdump is missing; slower than tcpdump",
    log_format="pcap",
    suffix=".pcap",
    check=check,
)

if __name__ == "__main__":
    run(main)
