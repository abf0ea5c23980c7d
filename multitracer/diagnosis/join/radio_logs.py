"""The radio logs beside a transfer, on the clock of its sender."""

from __future__ import annotations

from typing import TYPE_CHECKING

from multitracer.clock.model.relation import Clock
from multitracer.clock.moved_table import moved
from multitracer.radio import RADIO
from multitracer.recording.radios import each_radio
from multitracer.tables import NOT_A_TIME

if TYPE_CHECKING:
    from collections.abc import Iterator

    from multitracer.diagnosis.join.recorded_transfer import Recorded
    from multitracer.recording.recording import Recording
    from multitracer.tables import Table


def radio_tables(transfer: Recorded, recording: Recording) -> Iterator[tuple[str, Table]]:
    """Yield host and RADIO of each radio log; what cannot be placed in time is a warning of the recording.

    Of a phone with several cards it is that with most readings: two cards change no cell of each other.
    """
    for log, table in recording.tables("radio", RADIO.name):
        placed, reason = _on_senders_clock(transfer, recording, log.host, table)
        if reason:
            recording.warn_once(f"{log.path}: its readings are used as they are stamped: {reason}")
        elif _is_apart(transfer, placed):
            number = transfer.layers.view.sender.number
            recording.warn_once(
                f"{log.path}: no reading lies in the time of connection {number}, so its radio is not known; "
                "is its clock or time zone right? `multitracer align` compares them"
            )
        yield log.host, each_radio(placed)[0][0]


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
