"""Records the GSMTAP packets that a base station or a phone's diagnostics send, with RLP frames.

osmo-bts (`gsmtap-remote-host`) and SCAT send them over UDP to port 4729. They are written unchanged, with the
kernel's arrival time, to a pcapng file of raw IP, which Wireshark dissects; the RLP frames are read as an
rlpdump log of the given side. By default only packets of this host are received.

Each packet is written to disk at once; tags of sync probes and the end are log lines among them.
"""

from __future__ import annotations

import errno
import ipaddress
import os
import socket
import struct
import time
from typing import TYPE_CHECKING

from collectors._collector import Collector
from collectors._log import Log
from collectors._options import parser, run
from collectors._ready import ready
from collectors._stop import Stop
from multitracer import __version__
from multitracer.errors import InputError, PreflightError
from multitracer.protocols.gsmtap import PORT, GsmtapType, encode, ip_udp_header, log_line
from multitracer.protocols.pcap_file import interface_block, packet_block, section_header, statistics_block
from multitracer.protocols.rlpdump import MARK
from multitracer.units import NS_PER_S

if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence

    Address = tuple[str, int]

LISTEN = f"127.0.0.1:{PORT}"
_SO_TIMESTAMPNS, _SO_RXQ_OVFL = 35, 40
"""linux/socket.h: arrival time, and number of datagrams dropped so far."""
_RECEIVE_BYTES = 1 << 16
_ROOM_BYTES = 1 << 22
_ANCILLARY_BYTES = 128
_COUNT_NS = 5 * NS_PER_S
_SNAP_BYTES = 1 << 14


class Listener:
    """A UDP socket on one IPv4 address.

    Raises
    ------
    InputError
        If the address does not belong to this host, or the port is in use.
    """

    def __init__(self, address: Address) -> None:
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._socket.setsockopt(socket.SOL_SOCKET, _SO_TIMESTAMPNS, 1)
        self._socket.setsockopt(socket.SOL_SOCKET, _SO_RXQ_OVFL, 1)
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _ROOM_BYTES)
        self._socket.setblocking(False)
        try:
            self._socket.bind(address)
        except OSError as error:
            self.close()
            raise InputError(
                f"{address[0]}:{address[1]}: cannot listen on this address: {error.strerror}; give another --listen"
            ) from error
        host, port = self._socket.getsockname()
        self.address: Address = (host, port)
        self.dropped = 0

    def fileno(self) -> int:
        """Return the descriptor to wait for."""
        return self._socket.fileno()

    def receive(self) -> tuple[bytes, int, Address] | None:
        """Return a datagram, its arrival time (ns since 1970) and its sender; None if there is none."""
        try:
            data, ancillary, _, sender = self._socket.recvmsg(_RECEIVE_BYTES, _ANCILLARY_BYTES)
        except BlockingIOError:
            return None
        time_ns = time.time_ns()
        for level, kind, value in ancillary:
            if level == socket.SOL_SOCKET and kind == _SO_TIMESTAMPNS:
                seconds, rest = struct.unpack_from("ll", value)
                time_ns = seconds * NS_PER_S + rest
            elif level == socket.SOL_SOCKET and kind == _SO_RXQ_OVFL:
                self.dropped = struct.unpack_from("I", value)[0]
        return data, time_ns, sender

    def close(self) -> None:
        """Release the port."""
        self._socket.close()


class RlpRecorder:
    """One run: writes the packets that arrive into the file."""

    def __init__(self, listener: Listener, log: Log, *, side: str) -> None:
        self._listener = listener
        self._log = log
        self._side = side
        self._target = socket.inet_aton(listener.address[0]), listener.address[1]
        self._count_ns = time.monotonic_ns() + _COUNT_NS
        self.packets = 0

    def run(self, stop: Stop) -> None:
        """Record until `stop` asks for the end."""
        name = f"gsmtap {self._listener.address[0]}:{self._listener.address[1]}"
        system = os.uname()
        comment = f"{MARK} side={self._side} source=gsmtap clock=realtime host={system.nodename}"
        self._log.write(
            section_header(application=f"MultiTracer {__version__}", system=system.release, comment=comment)
            + interface_block(name=name)
        )
        ready()
        while stop.wait(self._count_ns, readable=[self._listener.fileno()]):
            self._take()
            if time.monotonic_ns() >= self._count_ns:
                self._count_ns = time.monotonic_ns() + _COUNT_NS
                self._count()
        self._take()
        self._note(f"ended cause={stop.reason.replace(' ', '-') if stop.reason else ''}")
        self._count()

    def sync_probe(self, tag: str) -> None:
        """Write the tag of a sync probe."""
        self._note(f"clap cause={tag[:12]}")

    def _take(self) -> None:
        """Write the arrived packets, for at most a second, so that a signal is handled even in a flood."""
        until_ns = time.monotonic_ns() + NS_PER_S
        while time.monotonic_ns() < until_ns and (datagram := self._listener.receive()):
            data, time_ns, (host, port) = datagram
            source = socket.inet_aton(host), port
            packet = ip_udp_header(len(data), source=source, target=self._target) + data
            self._log.write(packet_block(packet[:_SNAP_BYTES], time_ns=time_ns, original_bytes=len(packet)))
            self.packets += 1

    def _note(self, text: str) -> None:
        now = time.time_ns()
        line = log_line(text, time_ns=now, process="multitracer", subsystem="rlp")
        packet = encode(GsmtapType.LOG, line, uplink=self._side == "mobile", frame_number=0)
        self._log.write(packet_block(packet, time_ns=now))

    def _count(self) -> None:
        dropped = self._listener.dropped
        self._log.write(statistics_block(time_ns=time.time_ns(), received=self.packets + dropped, dropped=dropped))


def _address(text: str) -> Address:
    host, _, port = text.rpartition(":")
    try:
        ipaddress.IPv4Address(host)
    except ValueError:
        host = ""
    if not host or not port.isdecimal() or not 0 <= int(port) < 1 << 16:
        raise InputError(f"--listen {text}: the value must be an IPv4 address and a port, typically {LISTEN}")
    return host, int(port)


def _options(argv: Sequence[str]) -> argparse.Namespace:
    options = parser(__doc__, traffic=False)
    options.add_argument(
        "--listen", default=LISTEN, metavar="HOST:PORT", help=f"UDP address to listen on; default {LISTEN}"
    )
    options.add_argument(
        "--side",
        choices=("fixed", "mobile"),
        default="fixed",
        help='side whose frames are recorded as sent frames; default "fixed"',
    )
    return options.parse_args(argv)


def main(argv: Sequence[str]) -> None:
    """Record until stopped."""
    chosen = _options(argv)
    with Stop(duration_ns=chosen.duration, outlive_parent=chosen.outlive_parent, tags=chosen.tags) as stop:
        listener = Listener(_address(chosen.listen))
        try:
            with Log(chosen.output) as log:
                recording = RlpRecorder(listener, log, side=chosen.side)
                stop.on_tag = recording.sync_probe
                recording.run(stop)
        finally:
            listener.close()


def check() -> None:
    """Raise PreflightError if the port is in use, or the loopback interface is down."""
    try:
        Listener(_address(LISTEN)).close()
    except InputError as error:
        if isinstance(error.__cause__, OSError) and error.__cause__.errno == errno.EADDRNOTAVAIL:
            raise PreflightError(f"{LISTEN}: this address does not exist here; run `ip link set lo up`") from error
        raise PreflightError(f"{LISTEN}: the address is in use; `ss -lunp sport = {PORT}` shows the program") from error


COLLECTOR = Collector(
    name="rlp",
    layer="link",
    description="RLP frames and all other GSMTAP packets over UDP (osmo-bts, SCAT)",
    log_format="rlpdump",
    suffix=".pcapng",
    check=check,
)

if __name__ == "__main__":
    run(main)
