"""The radio logs beside a transfer, on the clock of its sender."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from multitracer.clock.doctor.no_service import contradiction
from multitracer.clock.model.relation import Clock
from multitracer.clock.moved_table import moved
from multitracer.clock.session_clock import host_of
from multitracer.radio import RADIO
from multitracer.recording.radios import each_radio
from multitracer.tables import NOT_A_TIME, Table

if TYPE_CHECKING:
    from collections.abc import Iterator

    from multitracer.diagnosis.join.recorded_transfer import Recorded
    from multitracer.logs import Log
    from multitracer.recording.recording import Recording


LINK = "link"
"""In the provenance of a table: what its times rest on, where that is no more than the stamps themselves."""
STAMPS = "its stamps alone"


def radio_tables(transfer: Recorded, recording: Recording) -> Iterator[tuple[str, Table]]:
    """Yield host and RADIO of each radio log; what cannot be placed in time is a warning of the recording.

    Of a phone with several cards it is that with most readings: two cards change no cell of each other. A log
    that the packets contradict is left out: whatever it tells was at another time, or of another modem.
    """
    for log, table in recording.tables("radio", RADIO.name):
        placed, reason = _on_senders_clock(transfer, recording, log.host, table)
        if contradiction(placed, transfer.layers.part.capture) is not None:
            recording.warn_once(
                f"{log.path}: left out of the causes, because it says that no network served while packets "
                "were answered: its clock is off, or its modem is another one; correct its times"
            )
            continue
        if reason:
            recording.warn_once(f"{log.path}: its readings are used as they are stamped: {reason}")
        elif _is_apart(transfer, placed):
            number = transfer.layers.view.sender.number
            recording.warn_once(
                f"{log.path}: no reading lies in the time of connection {number}, so its radio is not known; "
                "is its clock or time zone right? `multitracer align` compares them"
            )
        radio = each_radio(placed)[0][0]
        if reason or not _is_linked(recording, log, table):
            radio = Table(radio.schema, radio.columns, radio.provenance | {LINK: STAMPS})
        yield log.host, radio


def _is_linked(recording: Recording, log: Log, table: Table) -> bool:
    """Return whether more than its stamps links a log to the clock of a host.

    That is readings of the host's clock among its own, its place in the manifest of the recording, or, of a
    host without a capture, the relation by which it was placed.
    """
    if "clock" in table.provenance or log.host not in _captured_hosts(recording):
        return True
    manifest, folder = recording.manifest, recording.folder
    listed = {each.path for each in manifest.files} if manifest is not None else set()
    return folder is None or Path(log.path).relative_to(folder).as_posix() in listed


def _captured_hosts(recording: Recording) -> set[str]:
    return {host_of(recording, part.point) for part in recording.parts}


def _on_senders_clock(transfer: Recorded, recording: Recording, host: str, table: Table) -> tuple[Table, str]:
    """Return a table of a host with its times on the sender's clock, or as it is and why."""
    clocks = recording.clocks
    if clocks is None:
        return table, ""
    source, target = Clock(host), clocks.of_point(transfer.layers.view.sender.host)
    if source == target or not len(table):
        return table, ""
    there = moved(table, clocks, source, target)
    return there.table, "" if there.placed else there.sentence


def _is_apart(transfer: Recorded, table: Table) -> bool:
    """Return whether no reading lies in the time of a transfer."""
    time_ns = table["time_ns"]
    time_ns = time_ns[time_ns != NOT_A_TIME]
    inside = (time_ns >= transfer.begin_ns) & (time_ns <= transfer.end_ns)
    return bool(len(time_ns)) and not inside.any()
