"""A satellite receiver on a pseudo-terminal: `python -m multitracer.lab.rehearsal.gps --link PORT`.

It follows the route of `journey.py` and writes its position once a second in NMEA 0183; in the tunnel it has
no fix. `--control` takes JSON objects on standard input, one per line, and repeats each one when it is done:
`{"do": "silent"}`, `{"do": "speak"}`, `{"do": "garbage"}`, `{"do": "damage"}` (one bit of the next sentences
is changed), `{"do": "unplug"}`, `{"do": "plug", "link": "OTHER PORT"}`.
"""

from __future__ import annotations

import json
import os
import time
from datetime import UTC, datetime
from functools import reduce
from pathlib import Path
from typing import TYPE_CHECKING

from collectors._options import parser, rate_hz, run
from collectors._stop import Stop
from multitracer.lab.rehearsal._terminal import Terminal, remove_folder, say_back
from multitracer.lab.rehearsal.journey import Journey, place
from multitracer.units import NS_PER_MS, NS_PER_S

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Sequence

    from multitracer.lab.rehearsal.journey import CarPosition
    from multitracer.schemas.schema import Document

_KNOT_MPS = 1852 / 3600
_STANDARD_INPUT = 0


def sentences(where: CarPosition, time_ns: int) -> bytes:
    """Return the NMEA sentences GGA, GSA and RMC for a position of the car at a time (ns since 1970)."""
    now = datetime.fromtimestamp(time_ns // NS_PER_S, UTC)
    tod, date = f"{now:%H%M%S}.{time_ns % NS_PER_S // NS_PER_MS:03d}", f"{now:%d%m%y}"
    if where.in_tunnel:
        lines = [f"GPGGA,{tod},,,,,0,00,,,M,,M,,", "GPGSA,A,1,,,,,,,,,,,,,,,", f"GPRMC,{tod},V,,,,,,,{date},,,N"]
    else:
        at = f"{_angle(where.lat_deg, 2, 'NS')},{_angle(where.lon_deg, 3, 'EW')}"
        moves = f"{where.speed_mps / _KNOT_MPS:.2f},{where.heading_deg:.2f}"
        lines = [
            f"GPGGA,{tod},{at},1,09,0.9,250.0,M,-34.0,M,,",
            "GPGSA,A,3,03,07,08,11,13,16,19,23,24,,,,1.8,0.9,1.5",
            f"GPRMC,{tod},A,{at},{moves},{date},,,A",
        ]
    return b"".join(map(signed, lines))


def signed(body: str) -> bytes:
    """Return an NMEA sentence: `body` between `$` and `*`, and its checksum."""
    return f"${body}*{reduce(lambda sum_, c: sum_ ^ ord(c), body, 0):02X}\r\n".encode("ascii")


def _angle(value: float, digits: int, sides: str) -> str:
    complete, minutes = divmod(abs(value) * 60.0, 60.0)
    return f"{int(complete):0{digits}d}{minutes:07.4f},{sides[value < 0]}"


class RehearsedGps:
    """A simulated receiver with its port."""

    def __init__(
        self, link: Path, *, hz: float, where: Callable[[float], CarPosition], zero_ns: int | None = None
    ) -> None:
        self._link = link
        self._period_ns = round(NS_PER_S / hz)
        self._where = where
        self._terminal: Terminal | None = Terminal(link)
        self._began_ns = time.monotonic_ns()
        self._zero_ns = self._began_ns if zero_ns is None else zero_ns
        self._mood = "speak"
        self._control = b""

    def run(self, stop: Stop, *, control: bool) -> None:
        """Write sentences until `stop` returns true, or until the end of standard input."""
        due_ns = self._began_ns
        if control:
            say_back(link=str(self._link))
            os.set_blocking(_STANDARD_INPUT, False)
        while stop.wait(due_ns, readable=[_STANDARD_INPUT] if control else []):
            if control and not self._take_control():
                return
            if time.monotonic_ns() >= due_ns:
                due_ns += self._period_ns
                self._speak()

    def close(self) -> None:
        """Remove the port."""
        if self._terminal is not None:
            self._terminal.unplug()
            self._terminal = None

    def _speak(self) -> None:
        elapsed_s = (time.monotonic_ns() - self._zero_ns) / NS_PER_S
        nmea = sentences(self._where(elapsed_s), time.time_ns())
        if self._mood == "damage":
            nmea = nmea.replace(b"GP", b"GQ")
        if self._terminal is not None and self._mood != "silent":
            self._terminal.read()
            self._terminal.write(nmea)

    def _take_control(self) -> bool:
        try:
            control = os.read(_STANDARD_INPUT, 1 << 16)
        except BlockingIOError:
            return True
        *lines, self._control = (self._control + control).split(b"\n")
        for line in lines:
            event = json.loads(line)
            self._happen(event)
            say_back(did=event)
        return bool(control)

    def _happen(self, event: Document) -> None:
        what = event.get("do")
        if what in ("silent", "speak", "damage"):
            self._mood = what
        elif what == "garbage" and self._terminal is not None:
            self._terminal.write(bytes(range(256)))
        elif what == "unplug":
            self.close()
        elif what == "plug" and self._terminal is None:
            self._terminal = Terminal(Path(event.get("link") or self._link))


def _options(argv: Sequence[str]) -> argparse.Namespace:
    options = parser(__doc__, traffic=False)
    options.add_argument("--link", type=Path, required=True, help="path of the simulated serial port (a symbolic link)")
    options.add_argument("--own-folder", action="store_true", help="remove the folder of the port if it is empty then")
    options.add_argument("--control", action="store_true", help="read events from standard input")
    options.add_argument("--hz", type=rate_hz, default=1.0, help="number of position fixes per second; default 1")
    options.add_argument(
        "--speed", type=float, default=1.0, help="simulated seconds of the drive per real second; default 1"
    )
    options.add_argument(
        "--journey", type=int, metavar="SEED", help="use the random drive with this seed instead of the bundled drive"
    )
    options.add_argument(
        "--began", type=int, metavar="NS", help="start of the random drive, CLOCK_MONOTONIC in ns; default now"
    )
    return options.parse_args(argv)


def _route(seed: int | None, speed: float) -> Callable[[float], CarPosition]:
    """Return the function from seconds since the start to the position of the car."""
    return Journey(seed).place if seed is not None else lambda elapsed_s: place(elapsed_s * speed)


def main(argv: Sequence[str]) -> None:
    """Run the simulated receiver until stopped."""
    chosen = _options(argv)
    with Stop(duration_ns=chosen.duration, outlive_parent=chosen.outlive_parent, tags=chosen.tags) as stop:
        where = _route(chosen.journey, chosen.speed)
        rehearsal = RehearsedGps(chosen.link, hz=chosen.hz, where=where, zero_ns=chosen.began)
        try:
            rehearsal.run(stop, control=chosen.control)
        finally:
            rehearsal.close()
            if chosen.own_folder:
                remove_folder(chosen.link)


if __name__ == "__main__":
    run(main)
