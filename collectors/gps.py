"""Records positions: the reports of gpsd, or the NMEA sentences of a receiver on a serial port.

By default it asks gpsd on this host; if gpsd does not answer, it tries the serial ports. Sentences with a wrong
checksum are logged separately. A receiver that is unplugged, silent, or without a fix does not end the recording.

The log is JSON lines, times are those of CLOCK_MONOTONIC. First a header, then in order of time:

- `sentence` (NMEA) or `report` (gpsd): `at_ns`, the time of reading, and the line `raw`; `shown` is for
people
- `bad`: a line that is neither, or was damaged on its way,
- `port`: opened or lost,
- `missed`: a second in which nothing came, and why,
- `clock`, each second and at the end: the two clocks, and how many lines were recorded and skipped so far,
- `end`: why it ended. A log without it was cut off.
"""

from __future__ import annotations

import select
import socket
import time
from typing import TYPE_CHECKING, Protocol

from collectors._collector import Collector
from collectors._line import ANYWHERE, NoPortError, Port, candidates, check_pyserial
from collectors._log import Log, clock_reading
from collectors._options import header, parser, run
from collectors._ready import ready
from collectors._stop import Stop
from multitracer.errors import InputError, PreflightError, RemoteProtocolError
from multitracer.protocols.position import KEPT, LONGEST, WATCH, Epochs, report, sentence
from multitracer.units import NS_PER_MS, NS_PER_S

if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence

GPSD = "127.0.0.1:2947"
BAUD = 9600
_SILENT_NS = 3 * NS_PER_S
"""Time without a line after which a receiver is silent; receivers send once a second."""
_TICK_NS = 250 * NS_PER_MS
_CONNECT_S = 1.0
_KNOCK_NS = 10 * NS_PER_S
_READ_BYTES = 1 << 16
_MOST_LINE_BYTES = 1 << 16
_MOST_BAD = 256
_KEPT_REPORTS = ("TPV", "VERSION", "DEVICES", "DEVICE", "TOFF", "PPS", "ERROR")


class LineSource(Protocol):
    """A source of lines."""

    path: str

    def fileno(self) -> int:
        """Return the descriptor to wait for."""

    def read(self) -> bytes:
        """Return the octets that have arrived; raise NoPortError when the source is gone."""

    def close(self) -> None:
        """Close the source."""


class Gpsd:
    """A connection to gpsd, which sends reports."""

    def __init__(self, address: tuple[str, int]) -> None:
        self.path = f"gpsd {address[0]}:{address[1]}"
        try:
            self._socket = socket.create_connection(address, timeout=_CONNECT_S)
            self._socket.sendall(WATCH)
        except OSError as error:
            raise NoPortError(self.path, "no gpsd", error.strerror or "") from error
        self._socket.setblocking(False)

    def fileno(self) -> int:
        """Return the descriptor to wait for."""
        return self._socket.fileno()

    def read(self) -> bytes:
        """Return the octets that have arrived; empty if none have."""
        if not select.select([self._socket], [], [], 0)[0]:
            return b""
        try:
            data = self._socket.recv(_READ_BYTES)
        except OSError as error:
            raise NoPortError(self.path, "no gpsd", error.strerror or "") from error
        if not data:
            raise NoPortError(self.path, "no gpsd")
        return data

    def close(self) -> None:
        """Close the connection."""
        self._socket.close()


class GpsRun:
    """One run: opens the source, writes its lines, and notes when none come."""

    def __init__(self, chosen: argparse.Namespace, log: Log) -> None:
        self._gpsd = _address(chosen.gpsd) if chosen.gpsd or not chosen.device else None
        self._devices = tuple(chosen.device or (() if chosen.gpsd else ANYWHERE))
        self._baud = chosen.baud
        self._log = log
        self._source: LineSource | None = None
        self._rest = b""
        self._heard_ns = 0
        self._told_ns = time.monotonic_ns()
        self._is_chosen = bool(chosen.device)
        self._tried = 0
        self._look_ns = 0
        self._epochs = Epochs()
        self.lines = 0
        self.passed = 0

    def run(self, stop: Stop) -> None:
        """Record until `stop` ends the run."""
        second_ns = time.monotonic_ns()
        stop.on_set = self._clock
        self._clock()
        while stop.wait(time.monotonic_ns() + _TICK_NS, readable=self._descriptors()):
            why = self._take()
            if (now := time.monotonic_ns()) >= second_ns + NS_PER_S:
                if why or now - self._heard_ns > _SILENT_NS:
                    self._miss(why or "silent")
                second_ns = now
                self._clock()
        self._clock()
        self._log.record(kind="end", reason=stop.reason, lines=self.lines, passed=self.passed)

    def close(self) -> None:
        """Close the source."""
        if self._source is not None:
            self._source.close()
        self._source, self._rest = None, b""

    def _descriptors(self) -> list[int]:
        return [self._source.fileno()] if self._source is not None else []

    def _take(self) -> str | None:
        """Read the available lines; return the reason if there is no source, else None."""
        try:
            source = self._source or self._open()
            self._lines(source.read())
        except NoPortError as error:
            if self._source is not None:
                self._port("lost", error.path, why=error.why)
            self.close()
            return error.why
        if self._is_another() and time.monotonic_ns() - self._heard_ns > _SILENT_NS:
            self._port("lost", source.path, why="silent")
            self.close()
        return None

    def _is_another(self) -> bool:
        """Return whether another port may have a receiver, so that a silent port can be closed."""
        if self.lines or isinstance(self._source, Gpsd):
            return False
        return not self._is_chosen or len(candidates(self._devices)) > 1

    def _open(self) -> LineSource:
        failure = NoPortError(self._devices[0] if self._devices else GPSD, "unplugged")
        if self._gpsd is not None:
            try:
                return self._opened(Gpsd(self._gpsd))
            except NoPortError as error:
                failure = error
        paths = candidates(self._devices)
        if not self._is_chosen and self._tried >= len(paths):  # all of them once; do not keep knocking
            if time.monotonic_ns() < self._look_ns:
                raise NoPortError(failure.path, "no receiver")
            self._tried = 0
        self._look_ns = time.monotonic_ns() + _KNOCK_NS
        for n in range(len(paths)):
            self._tried += 1
            try:
                return self._opened(Port(paths[(n + self._tried) % len(paths)], baud=self._baud))
            except NoPortError as error:
                failure = error
        raise failure

    def _opened(self, source: LineSource) -> LineSource:
        self._source, self._heard_ns = source, time.monotonic_ns()
        self._port("opened", source.path)
        ready()
        return source

    def _lines(self, data: bytes) -> None:
        at_ns = time.monotonic_ns()
        *lines, self._rest = (self._rest + data).split(b"\n")
        if len(self._rest) > _MOST_LINE_BYTES:
            lines, self._rest = [*lines, self._rest], b""
        for line in lines:
            if line.strip():
                self._line(line.decode("latin-1").strip("\r\n "), at_ns)

    def _line(self, text: str, at_ns: int) -> None:
        """Write a line about positions to the log; count other lines."""
        try:
            kept, shown = self._understood(text)
        except RemoteProtocolError:
            self.passed += 1
            self._log.record(kind="bad", at_ns=at_ns, raw=text[:_MOST_BAD], length=len(text))
            return
        self._heard_ns = at_ns
        if not kept:
            self.passed += 1
            return
        self.lines += 1
        self._log.record(kind="report" if text.startswith("{") else "sentence", at_ns=at_ns, raw=text, **shown)

    def _understood(self, text: str) -> tuple[bool, dict[str, object]]:
        """Return whether to record a line, and its values.

        Raise RemoteProtocolError if the line is invalid.
        """
        if text.startswith("{"):
            kind, shown = report(text)
            return kind in _KEPT_REPORTS and len(text) <= _MOST_LINE_BYTES, {"shown": shown} if shown else {}
        kind, fields = sentence(text[: LONGEST + 1])
        shown = next(self._epochs.take(kind, fields), {})
        return kind in KEPT, {"shown": shown} if shown else {}

    def _port(self, state: str, path: str, **more: str) -> None:
        self._log.record(kind="port", at_ns=time.monotonic_ns(), state=state, port=path, **more)

    def _miss(self, why: str) -> None:
        """Write that no line arrived since the last line or the last such note."""
        since_ns = max(self._heard_ns, self._told_ns)
        self._told_ns = time.monotonic_ns()
        self._log.record(kind="missed", count=1, since_ns=since_ns, until_ns=self._told_ns, why=why)

    def _clock(self) -> None:
        self._log.record(kind="clock", **clock_reading(), lines=self.lines, passed=self.passed)


def _address(text: str | None) -> tuple[str, int]:
    host, _, port = (text or GPSD).rpartition(":")
    if not host or not port.isdecimal() or not 0 < int(port) < 1 << 16:
        raise InputError(f"--gpsd {text}: the address must have the form HOST:PORT, typically {GPSD}")
    return host, int(port)


def _options(argv: Sequence[str]) -> argparse.Namespace:
    options = parser(__doc__, traffic=False)
    options.add_argument(
        "--gpsd", metavar="HOST:PORT", help=f"read positions only from the gpsd at this address, typically {GPSD}"
    )
    options.add_argument(
        "--device",
        action="append",
        metavar="PORT",
        help="serial port of the receiver, a pattern of ports, or usb:SERIALNUMBER; repeatable",
    )
    options.add_argument("--baud", type=int, default=BAUD, help=f"speed of the serial line, in baud; default {BAUD}")
    return options.parse_args(argv)


def main(argv: Sequence[str]) -> None:
    """Record until stopped."""
    chosen = _options(argv)
    if chosen.device:
        check_pyserial()
    with (
        Stop(duration_ns=chosen.duration, outlive_parent=chosen.outlive_parent, tags=chosen.tags) as stop,
        Log(chosen.output) as log,
    ):
        log.record(**header("multitracer-gps", chosen, devices=chosen.device, gpsd=chosen.gpsd))
        stop.on_tag = log.sync_probe
        receiver = GpsRun(chosen, log)
        try:
            receiver.run(stop)
        finally:
            receiver.close()


def check() -> None:
    """Raise PreflightError if there is neither gpsd nor a serial port."""
    try:
        Gpsd(_address(None)).close()
    except NoPortError:
        check_pyserial()
        if not candidates(ANYWHERE):
            raise PreflightError(
                f"no GPS receiver found: gpsd does not answer at {GPSD}, and there is no serial port; "
                "connect a receiver"
            ) from None


COLLECTOR = Collector(
    name="gps",
    layer="position",
    description="positions from gpsd or a receiver on a serial port (NMEA)",
    log_format="gps",
    suffix=".jsonl",
    check=check,
)

if __name__ == "__main__":
    run(main)
