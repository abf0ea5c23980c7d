"""The readings of the modem and the GPS receiver of the recording in which a measurement runs.

`capture` names the folder of its host to the command that it records. The collectors write their logs there, and each
record is in the file as soon as it is made, so the client of a measurement can follow them: its good-bye carries the
radio and the place of the transaction (paper 000), as far as they are known when it is sent.
"""

from __future__ import annotations

import json
import os
import time
from collections import deque
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import takewhile
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, NamedTuple

from multitracer.errors import InputError, RemoteProtocolError
from multitracer.manifest import RECORDING_VARIABLE
from multitracer.protocols.modem.decode import UNSOLICITED, decode
from multitracer.protocols.position import Epochs, report, sentence
from multitracer.readings import GPS_RECEIVER, MODEM, MOST_AGE_S, NOT_NEAR, cell_words
from multitracer.schemas.transactions import CONTEXT
from multitracer.units import NS_PER_S

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from multitracer.tables import Document

_LOGS = {"radio-*.jsonl": MODEM, "gps-*.jsonl": GPS_RECEIVER}
"""Logs of the collectors, by the pattern of their names (docs/session.md), and what they record."""
_RADIO = {
    "rssi_dbm": "rssi", "bler_pct": "bler", "cell_busy_pct": "cell_busy", "rsrp_dbm": "rsrp", "rsrq_db": "rsrq",
    "sinr_db": "sinr",
}  # fmt: skip
"""Quantities of a transaction by the columns of the table `radio`."""
_MOST_READINGS = 1024
"""Readings of a quantity that are kept: at one a second a quarter of an hour, longer than a transaction lasts."""
_CHUNK_BYTES = 1 << 20
"""Most octets that are read at once, in 65 ms: some minutes of a log, of which the last seconds count."""


class LiveReading(NamedTuple):
    """One reading of a quantity: its time of CLOCK_MONOTONIC, and its values in the order of `CONTEXT`."""

    at_ns: int
    values: tuple[float | str, ...]


@dataclass(frozen=True)
class RunningRecording:
    """The recording of which this process is the recorded command."""

    host: Path
    """The folder of the host, which holds its logs."""
    parent: int = field(default_factory=os.getppid)
    """The process that started this one."""

    @classmethod
    def of_environment(cls) -> RunningRecording | None:
        """Return the recording that the environment names; None outside of a recording."""
        named = os.environ.get(RECORDING_VARIABLE, "")
        return cls(Path(named)) if named and Path(named).is_dir() else None

    def writes(self, folder: Path) -> bool:
        """Return whether a folder is the session folder of the recording, which writes its manifest itself."""
        return folder.resolve() == self.host.parent

    def check(self, folder: Path) -> None:
        """Raise an error if the recording that writes to `folder` was killed: nothing records the rest of the plan.

        Raises
        ------
        InputError
            If this process has another parent now.
        """
        if self.writes(folder) and os.getppid() != self.parent:
            raise InputError(f"{folder}: the recording was killed; start the same command again to continue")


class LiveLogs:
    """Follows the logs of modem and GPS receiver while their collectors write them.

    Of a log that is there already its end is read at once, so that no good-bye waits for it.

    Parameters
    ----------
    folder : Path
        The host's folder in the session.
    clock : callable
        CLOCK_MONOTONIC, ns.
    """

    def __init__(self, folder: Path, clock: Callable[[], int] = time.monotonic_ns) -> None:
        self._folder = folder
        self._clock = clock
        self._logs: dict[Path, _Followed] = {}
        self._look_ns = 0
        self._readings: dict[str, dict[str, deque[LiveReading]]] = {name: {} for name in CONTEXT}
        """Readings by quantity and source (the command of the modem), in order of time."""
        self._follow(clock())

    def since(self, lasted_ns: int) -> Document:
        """Return the columns of radio and place for the time from `lasted_ns` ago until now.

        A value that is not known is absent; then the column with the suffix `_absent` says why. It takes a tenth of a
        millisecond, because the good-bye, whose arrival the server measures, waits for it.
        """
        now_ns = self._clock()
        self._follow(now_ns)
        devices = {log.device for log in self._logs.values()}
        columns: Document = {}
        for name, sources in self._readings.items():
            device = GPS_RECEIVER if name == "place" else MODEM
            if readings := max(sources.values(), key=len, default=None):
                columns |= _columns(name, readings, now_ns - lasted_ns)
            else:
                known = f"the {device} has not reported it" if device in devices else f"no {device} is recorded"
                columns[f"{name}_absent"] = known
        return columns

    def _follow(self, now_ns: int) -> None:
        """Read what was appended to the logs since the last call; look for new logs once a second.

        Only the newest log of a collector is taken up: the others are of earlier runs. Times to come are those of a
        run before the machine started anew, when CLOCK_MONOTONIC was another one.
        """
        if now_ns >= self._look_ns:
            self._look_ns = now_ns + NS_PER_S
            for pattern, device in _LOGS.items():
                newest = max(self._folder.glob(pattern), key=lambda path: (len(path.name), path.name), default=None)
                if newest is not None and newest not in self._logs:
                    self._logs[newest] = _Followed(newest, device)
        for log in self._logs.values():
            readings = list(log.readings())
            read_ns = self._clock()  # later than any reading of this run, also of one that came after `now_ns`
            for name, source, reading in readings:
                if reading.at_ns <= read_ns:
                    self._readings[name].setdefault(source, deque(maxlen=_MOST_READINGS)).append(reading)


def _columns(name: str, readings: deque[LiveReading], begin_ns: int) -> Document:
    """Return the columns of one quantity: of the readings since the begin, else of the last one before (`Nearest`)."""
    within = list(takewhile(lambda reading: reading.at_ns >= begin_ns, reversed(readings)))
    age_ns = 0 if within else begin_ns - readings[-1].at_ns
    facts: Document = {f"{name}_age_s": round(age_ns / NS_PER_S, 6), f"{name}_readings": len(within)}
    if age_ns > MOST_AGE_S * NS_PER_S:
        return facts | {f"{name}_absent": NOT_NEAR}
    if name not in ("cell", "place") and within:
        values: tuple[float | str, ...] = (fmean(float(reading.values[0]) for reading in within),)
    else:
        values = within[len(within) // 2].values if within else readings[-1].values
    return facts | dict(zip(CONTEXT[name], values, strict=True))


class _Followed:
    """One log, read from where the last call ended; at first from `_CHUNK_BYTES` before its end."""

    def __init__(self, path: Path, device: str) -> None:
        self.device = device
        self._path = path
        self._offset = 0
        with suppress(OSError):  # it was moved away just now
            self._offset = max(0, path.stat().st_size - _CHUNK_BYTES)
        self._rest = b""
        self._epochs = Epochs()

    def readings(self) -> Iterator[tuple[str, str, LiveReading]]:
        """Yield quantity, source and reading of each record that was appended."""
        try:
            with self._path.open("rb", buffering=0) as stream:
                stream.seek(self._offset)
                octets = stream.read(_CHUNK_BYTES)
        except OSError:  # moved away, or the disk is gone: the recorder says so, and the transaction must go on
            return
        self._offset += len(octets)
        *lines, self._rest = (self._rest + octets).split(b"\n")
        for line in lines:
            try:
                yield from self._of_record(json.loads(line))
            except (ValueError, KeyError, TypeError, AttributeError, RecursionError, RemoteProtocolError):
                continue  # whoever reads the log later counts it; here the transaction must go on

    def _of_record(self, record: Document) -> Iterator[tuple[str, str, LiveReading]]:
        kind = record["kind"]
        if kind == "answer" and record["result"]:
            at_ns = (record["asked_ns"] + record["answered_ns"]) // 2
            yield from _of_answer(record["command"], record["raw"], at_ns)
        elif kind == "unasked":
            yield from _of_answer(UNSOLICITED, record["raw"], record["at_ns"])
        elif kind in ("report", "sentence"):
            for fix in self._fixes(record["raw"], kind, record["at_ns"]):
                if fix.get("lat_deg") is not None and fix.get("fix") != 0:
                    yield "place", "", LiveReading(fix["time_ns"], (fix["lat_deg"], fix["lon_deg"]))

    def _fixes(self, raw: str, kind: str, at_ns: int) -> Iterator[Document]:
        """Yield the positions that a line completes; sentences of one second are one position."""
        if kind == "sentence":
            yield from map(dict, self._epochs.take(*sentence(raw), time_ns=at_ns))
        else:
            kind, fix = report(raw)
            yield from [{**fix, "time_ns": at_ns}] if kind == "TPV" else []


def _of_answer(command: str, raw: str, at_ns: int) -> Iterator[tuple[str, str, LiveReading]]:
    for reading in decode(command, raw.encode("latin-1", "replace")).readings:
        if reading.get("role", "serving") != "serving":
            continue
        source = str(reading.get("source", command))
        for column, name in _RADIO.items():
            if reading.get(column) is not None:
                yield name, source, LiveReading(at_ns, (float(str(reading[column])),))
        if cell := cell_words(reading):
            yield "cell", source, LiveReading(at_ns, (cell,))
