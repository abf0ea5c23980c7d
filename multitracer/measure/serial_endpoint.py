"""CentaurusComm on serial lines.

SENT means that the line's output is drained (TIOCOUTQ), so nothing waits in a driver's buffer behind which a
later packet would queue.
"""

from __future__ import annotations

import errno
import os
import select
from typing import TYPE_CHECKING

from multitracer.errors import InputError, PreflightError
from multitracer.measure.clock import SteadyClock
from multitracer.units import NS_PER_S

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from multitracer.protocols.centaurus import Address, Event, Outgoing, SerialMaster, SerialSlave

BAUD = 115_200
_BITS_PER_OCTET = 10
"""Start bit, eight bits, stop bit."""
_SHORTEST_WAIT_S = 0.0005
_CHUNK_BYTES = 4096


class SerialLine:
    """An open serial port.

    Parameters
    ----------
    path : str
        The device, such as /dev/ttyUSB0.
    baud : int
        Bits per second on the line.

    Raises
    ------
    PreflightError
        If pyserial is not installed.
    InputError
        If it is no serial port, or another program has it.
    """

    def __init__(self, path: str, baud: int = BAUD) -> None:
        try:
            import serial  # noqa: PLC0415  # it may be absent
        except ModuleNotFoundError:
            raise PreflightError("pyserial is not installed; `pip install multitracer[field]`") from None
        try:
            self._port = serial.Serial(path, baud, timeout=0, write_timeout=0, exclusive=True)
        except (serial.SerialException, OSError, ValueError) as error:
            reason = os.strerror(number) if (number := getattr(error, "errno", None)) else str(error)
            raise InputError(f"{path}: cannot be opened ({reason}); check the name") from error
        self.path = path
        self.baud = baud
        self._rest = b""
        self._hang_up = select.poll()
        self._hang_up.register(self._port.fileno(), 0)  # a hang-up is always told

    def fileno(self) -> int:
        """Return the file descriptor."""
        return int(self._port.fileno())

    def close(self) -> None:
        """Close the port."""
        self._port.close()

    def write(self, octets: bytes) -> None:
        """Begin to send octets."""
        self._rest += octets
        self.flush()

    def flush(self) -> None:
        """Pass to the kernel as many octets as it accepts."""
        if not self._rest:
            return
        try:
            self._rest = self._rest[os.write(self.fileno(), self._rest) :]
        except BlockingIOError:
            return
        except OSError as error:
            raise self._gone(error) from error

    @property
    def waiting_bytes(self) -> int:
        """Number of octets that have not left yet."""
        try:
            return len(self._rest) + int(self._port.out_waiting)
        except OSError as error:
            raise self._gone(error) from error

    def read(self) -> bytes:
        """Return the octets that arrived; empty if none did."""
        try:
            octets = os.read(self.fileno(), _CHUNK_BYTES)
        except BlockingIOError:
            return b""
        except OSError as error:
            raise self._gone(error) from error
        if not octets and self._hang_up.poll(0):
            raise self._gone(OSError(errno.EIO, os.strerror(errno.EIO)))
        return octets

    def _gone(self, error: OSError) -> InputError:
        return InputError(f"{self.path}: the line is gone ({error.strerror}); plug it in and start again")


class SerialEndpoint:
    """A master or a slave on its lines; the number of a line is its position in `lines`."""

    def __init__(self, worker: SerialMaster | SerialSlave, lines: Sequence[SerialLine]) -> None:
        self.worker = worker
        self.clock: Callable[[], int] = SteadyClock()
        self._lines = list(lines)
        self._in_flight: Outgoing | None = None
        self.refused = False
        """A line cannot tell."""

    def send(self, address: Address, kind: int, data: bytes, *, lifetime_ns: int) -> int:
        """Put an object into the table of outgoing objects; return its handle."""
        return self.worker.send(address, kind, data, self.clock(), lifetime_ns=lifetime_ns)

    def work(self, wait_s: float = 0.0) -> list[Event]:
        """Do one small step; if there is nothing to do, wait for at most the given time."""
        self.worker.on_timer(self.clock())
        self._push()
        events = self.worker.take_events()
        if not events:
            self._wait(wait_s)
            self._pull()
            self._push()
            events = self.worker.take_events()
        return events

    def close(self) -> None:
        """Close the ports."""
        for line in self._lines:
            line.close()

    def _line_of(self, packet: Outgoing) -> SerialLine:
        assert isinstance(packet.address, tuple)
        return self._lines[packet.address[0]]

    def _push(self) -> None:
        """Report which packet has left completely, and begin to send the next one."""
        if self._in_flight is not None:
            line = self._line_of(self._in_flight)
            line.flush()
            if line.waiting_bytes:
                return
            self.worker.sent(self._in_flight, self.clock())
            self._in_flight = None
        packet = self.worker.outgoing(self.clock())
        if packet is not None:
            self._in_flight = packet
            self._line_of(packet).write(packet.octets)

    def _pull(self) -> None:
        for number, line in enumerate(self._lines):
            octets = line.read()
            if octets:
                self.worker.receive(octets, number, self.clock())

    def _wait(self, wait_s: float) -> None:
        if self._in_flight is not None:
            line = self._line_of(self._in_flight)
            wait_s = min(wait_s, max(_SHORTEST_WAIT_S, line.waiting_bytes * _BITS_PER_OCTET / line.baud))
        due_ns = self.worker.next_timer()
        if due_ns is not None:
            wait_s = max(0.0, min(wait_s, (due_ns - self.clock()) / NS_PER_S))
        select.select(self._lines, [], [], wait_s)
