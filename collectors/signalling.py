"""Records the signalling log of a phone's modem: SCAT requests the log and stores it unchanged.

`-o signalling.qmdl` is the modem's own log (Qualcomm), `-o signalling.sdmraw` that of Samsung; `--notes` gets
one JSON object a line: `header`, each second `clock` with the octets on disk so far, `clap`, `end`. The phone
is on a serial port (`--device`) or on USB (`--usb`). Samsung's frames hold no time: `--packets FILE` also
stores the packets that SCAT makes, with the times at which this host received them.

The program `scat` is started, never imported (GPL). It turns off the modem's log when it ends.
"""

from __future__ import annotations

import ctypes
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

from collectors._collector import Collector
from collectors._log import Log, clock_reading
from collectors._options import header, number, parser, run
from collectors._ready import ready
from collectors._stop import Stop
from multitracer.errors import CollectorError, InputError, PreflightError
from multitracer.units import NS_PER_MS, NS_PER_S

if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence

_RAW_OPTIONS = {"qc": "--qmdl", "sec": "--sdmraw"}
"""Option of SCAT that stores the raw log, by the vendor of the modem as SCAT names it."""
_LAYERS = "nas,rrc"
"""Layers that SCAT decodes: signalling, without user packets."""
_UNHEARD = "127.77.47.29"
"""Loopback address for the UDP packets that SCAT also sends; no program listens there."""
_LOOK_NS = 200 * NS_PER_MS
_PATIENCE_S = 5.0
"""Maximum time for the end of SCAT in s; it turns off the modem's log with three commands of 0.5 s each."""
_LAST_WORDS_BYTES = 300
_PR_SET_PDEATHSIG = 1  # prctl(2)
_LIBC = ctypes.CDLL(None, use_errno=True)


def _end_with_parent() -> None:
    _LIBC.prctl(_PR_SET_PDEATHSIG, signal.SIGINT)


class Scat:
    """A process of SCAT, which ends at the latest when this process ends."""

    def __init__(self, command: list[str], words: Path) -> None:
        self._words = words
        with words.open("wb") as errors:
            self._child = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,  # it prints cells and more
                stderr=errors,
                preexec_fn=_end_with_parent,  # noqa: PLW1509  # this process has one thread
            )

    @property
    def has_ended(self) -> bool:
        """Whether the program has ended by itself."""
        return self._child.poll() is not None

    @property
    def last_words(self) -> str:
        """Return the last error line of the program."""
        text = self._words.read_bytes()[-_LAST_WORDS_BYTES:].decode(errors="replace")
        lines = [line.strip() for line in text.splitlines() if line.strip()]
        return "".join(c for c in lines[-1] if c.isprintable()) if lines else "no words"

    def stop(self) -> int:
        """End SCAT with SIGINT, so that it turns off the modem's log; return its exit status."""
        if not self.has_ended:
            self._child.send_signal(signal.SIGINT)
        try:
            return self._child.wait(_PATIENCE_S)
        except subprocess.TimeoutExpired:
            self._child.kill()
            return self._child.wait()
        finally:
            self._words.unlink(missing_ok=True)


def _program() -> str:
    own = Path(sys.executable).parent / "scat"
    path = shutil.which("scat") or (str(own) if own.exists() else None)
    if path is None:
        raise PreflightError("signalling: scat is not installed; run pip install 'multitracer[signalling]'")
    return path


def _command(chosen: argparse.Namespace, program: str) -> list[str]:
    """Return SCAT's command line."""
    command = [program, "-t", chosen.modem, "-L", _LAYERS, "-H", _UNHEARD]
    if chosen.usb is not None:
        command += ["-u", *(["-a", chosen.usb] if chosen.usb else [])]
    else:
        command += ["-s", chosen.device, "-b", str(round(chosen.baud))]
        command += [] if chosen.flow_control else ["--no-rts", "--no-dsr"]
    if chosen.packets is not None:
        command += ["-F", str(chosen.packets)]
    return [*command, _RAW_OPTIONS[chosen.modem], str(chosen.output)]


def _record(chosen: argparse.Namespace, program: str, stop: Stop, notes: Log) -> None:
    scat = Scat(_command(chosen, program), chosen.output.with_suffix(".scat-words"))
    status, clock_ns, is_ready = None, 0, False
    try:
        while stop.wait(time.monotonic_ns() + _LOOK_NS):
            if scat.has_ended:
                raise CollectorError(
                    f"scat stopped: {scat.last_words}; check that the phone's diagnostic port is enabled"
                )
            if not is_ready and chosen.output.exists():  # the modem's log is on
                is_ready = True
                ready()
            if time.monotonic_ns() >= clock_ns:
                clock_ns = time.monotonic_ns() + NS_PER_S
                notes.record(kind="clock", **clock_reading(), bytes=_size(chosen.output))
    finally:
        status = scat.stop()
    notes.record(kind="end", reason=stop.reason, status=status, bytes=_size(chosen.output))


def _size(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0


def _baud(text: str) -> float:
    return number(text, 50, 4_000_000)


def _options(argv: Sequence[str]) -> argparse.Namespace:
    options = parser(__doc__, traffic=False)
    options.add_argument(
        "--modem", choices=sorted(_RAW_OPTIONS), default="qc", help="kind of modem: qc (Qualcomm) or sec (Samsung)"
    )
    where = options.add_mutually_exclusive_group(required=True)
    where.add_argument("--device", metavar="PORT", help="diagnostic port of the phone, such as /dev/ttyUSB0")
    where.add_argument(
        "--usb", nargs="?", const="", metavar="BUS:ADDRESS", help="USB device of the phone; default: the first phone"
    )
    options.add_argument(
        "--baud", type=_baud, default=115_200, help="speed of the diagnostic port, in baud; default 115200"
    )
    options.add_argument(
        "--flow-control", action="store_true", help="use hardware flow control (RTS/CTS and DSR/DTR) on the port"
    )
    options.add_argument(
        "--packets",
        type=Path,
        metavar="FILE",
        help="also write the packets that SCAT decodes to this file, which must not exist",
    )
    options.add_argument(
        "--notes",
        type=Path,
        metavar="LOG",
        help="file for the JSON notes, which must not exist; default: standard output",
    )
    return options.parse_args(argv)


def main(argv: Sequence[str]) -> None:
    """Record until stopped."""
    chosen = _options(argv)
    program = _program()
    if chosen.output is None:
        raise InputError(
            "signalling: no output file was given; give -o FILE, because the log of the modem needs its own file"
        )
    for path in filter(None, (chosen.output, chosen.packets)):
        if path.exists():
            raise InputError(f"{path}: the file already exists, and logs are never overwritten; give a new name")
    if chosen.device is not None and not Path(chosen.device).exists():
        raise PreflightError(
            f"{chosen.device}: this port does not exist; connect the phone and enable its diagnostic port"
        )
    with (
        Stop(duration_ns=chosen.duration, outlive_parent=chosen.outlive_parent, tags=chosen.tags) as stop,
        Log(chosen.notes) as notes,
    ):
        notes.record(**header("multitracer-signalling", chosen, modem=chosen.modem))
        stop.on_tag = notes.sync_probe
        _record(chosen, program, stop, notes)


def check() -> None:
    """Raise PreflightError, with what to do, if SCAT cannot be started here."""
    _program()


COLLECTOR = Collector(
    name="signalling",
    layer="radio",
    description="signalling of a phone with a diagnostic port: the modem's log, stored unchanged by SCAT",
    log_format="diag",
    suffix=".qmdl",
    check=check,
)

if __name__ == "__main__":
    run(main)
