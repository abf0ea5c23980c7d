"""The phones of a recording: the radio logs of each phone on each drive, and the cells that served it.

A host with several radio logs (of a modem read by AT commands, and a diagnostic log) is one phone, unless
they contradict each other (`devices`). A phone with several SIM cards counts as one phone for each card,
because each card has its own serving cell.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import PurePath
from typing import TYPE_CHECKING

import numpy as np

from multitracer.analysis.mobility.cells import cell_visits_of
from multitracer.analysis.mobility.handovers import handovers_of, is_leg
from multitracer.analysis.series.labelled import radio_series
from multitracer.errors import InputError
from multitracer.recording.devices import PhoneLog, orders_of, phones_apart, radio_of
from multitracer.schemas.mobility import JUDGED_HANDOVERS
from multitracer.schemas.radio import RADIO
from multitracer.schemas.signalling import HANDOVERS
from multitracer.tables import NA, NOT_A_TIME, Table
from multitracer.words import count, moment, portable

if TYPE_CHECKING:
    from collections.abc import Sequence

    from multitracer.analysis.mobility.cells import CellVisits
    from multitracer.recording.capture import Capture
    from multitracer.recording.devices import Placed
    from multitracer.recording.window import Bounds


# The radios of a phone with several SIM cards: each radio has its own serving cell.


_COLUMN = "modem"


def radios_of(*tables: Table) -> list[int]:
    """Return the radio numbers in the tables; the radio with most rows comes first."""
    numbers = np.concatenate([np.empty(0, np.int64), *(table[_COLUMN] for table in tables)])
    distinct, counts = np.unique(numbers[numbers != NA], return_counts=True)
    order = np.argsort(-counts, kind="stable")
    return [int(number) for number in distinct[order]]


def rows_of(table: Table, radio: int, *, unnamed: bool) -> Table:
    """Return the rows of one radio; with `unnamed`, also those without a radio number."""
    numbers = table[_COLUMN]
    mask = numbers == radio
    return table.take(mask | (numbers == NA) if unnamed else mask)


def each_radio(*tables: Table) -> list[tuple[Table, ...]]:
    """Return the tables of a phone for each of its radios; the radio with most rows comes first.

    Rows without a radio number, such as a modem's answers beside its diagnostic log, go to the first radio.
    """
    radios = radios_of(*tables)
    if len(radios) < 2:
        return [tables]
    return [tuple(rows_of(table, radio, unnamed=radio == radios[0]) for table in tables) for radio in radios]


@dataclass(frozen=True)
class Phone:
    """The radio logs of one phone on one drive.

    Attributes
    ----------
    host : str
        Name of the host; with the name of its log, if the host has logs of several phones.
    radio : Table
        RADIO of all its logs.
    signalling : Table
        HANDOVERS from its signalling messages; empty without them.
    paths : tuple of str
        The paths of the logs.
    logs : tuple of PhoneLog
        The tables of each log, in order of time.
    """

    host: str
    radio: Table
    signalling: Table
    paths: tuple[str, ...]
    logs: tuple[PhoneLog, ...] = ()

    @property
    def names(self) -> set[str]:
        """What a user may call it: `host`, the host alone, its logs, and the serial numbers that they state."""
        files = {PurePath(path).name for path in self.paths}
        serials = {serial for log in self.logs for serial in log.serials}
        return {
            self.host,
            *(log.host for log in self.logs),
            *files,
            *(name.partition(".")[0] for name in files),
        } | serials

    @property
    def span_ns(self) -> tuple[int, int] | None:
        """The first and the last time of its rows, in ns; None without rows."""
        times = np.concatenate([self.radio["time_ns"], self.signalling["time_ns"]])
        times = times[times != NOT_A_TIME]
        return (int(times.min()), int(times.max())) if len(times) else None

    @property
    def rows(self) -> int:
        """Number of readings and messages."""
        return len(self.radio) + len(self.signalling)

    def within(self, bounds_ns: Bounds) -> Phone:
        """Return the phone with the rows from the first bound until before the second."""
        logs = (
            log._replace(radio=log.radio.within(*bounds_ns), orders=log.orders.within(*bounds_ns)) for log in self.logs
        )
        return replace(
            self,
            radio=self.radio.within(*bounds_ns),
            signalling=self.signalling.within(*bounds_ns),
            logs=tuple(log for log in logs if len(log.radio) or len(log.orders)),
        )

    @cached_property
    def series(self) -> dict[str, Table]:
        """SERIES by label, Radio_* (docs/figures.md).

        If several logs have a series, that of the log with the most values is used.
        """
        fullest: dict[str, Table] = {}
        for form in dict.fromkeys(log.format for log in self.logs):
            logs = [log for log in self.logs if log.format == form and len(log.radio)]
            for label, series in radio_series(radio_of(logs), source=log_names(logs)).items():
                if label not in fullest or len(series) > len(fullest[label]):
                    fullest[label] = series
        return fullest

    @cached_property
    def handovers(self) -> Table:
        """JUDGED_HANDOVERS: changes of the serving cell, by time."""
        return handovers_of(self.radio, self.signalling)

    @cached_property
    def changes(self) -> Table:
        """The handovers, and the additions and removals of secondary cells, by time.

        JUDGED_HANDOVERS; secondary cells of a dual connection or of an active set have no verdict.
        """
        return self._with_legs(self.handovers)

    def changes_with(self, minimum_stay_s: float) -> Table:
        """Return `changes` with another minimum time of stay, in s: a shorter stay is a ping-pong."""
        return self._with_legs(handovers_of(self.radio, self.signalling, minimum_stay_s=minimum_stay_s))

    def _with_legs(self, handovers: Table) -> Table:
        legs = self.signalling.take(is_leg(self.signalling))
        no_verdict = Table.empty(JUDGED_HANDOVERS) if not len(legs) else _unjudged(legs)
        both = Table.concatenate(JUDGED_HANDOVERS, [handovers, no_verdict])
        return both.take(np.argsort(both["time_ns"], kind="stable"))

    @cached_property
    def cell_visits(self) -> CellVisits:
        """The cells that served the phone, and when each one did."""
        return cell_visits_of(self.radio, self.handovers)


def phones_of(radio: Sequence[Placed], orders: Sequence[Placed], captures: Sequence[Capture]) -> list[Phone]:
    """Return the phones of a recording.

    Phones that were read during the captures come first, then those with most readings.

    Parameters
    ----------
    radio, orders : sequence of Placed
        RADIO and HANDOVERS of each log that has them; one log may have both.
    captures : sequence of Capture
        The captures of the recording.
    """
    phones = [
        Phone(name, radio_of(own), orders_of(own), tuple(log.path for log in own), tuple(own))
        for name, logs in phones_apart(_logs(radio, orders))
        for own in _by_card(logs)
    ]
    packets = span_of_packets(captures)
    return sorted(phones, key=lambda phone: (not _meet(phone.span_ns, packets), -phone.rows))


def chosen(phones: Sequence[Phone], name: str | None, recording: str) -> list[Phone]:
    """Return the phones with a name; all if it is None.

    Raises
    ------
    InputError
        If none has this name.
    """
    own = [phone for phone in phones if name is None or name in phone.names]
    if name is not None and not own:
        there = ", ".join(dict.fromkeys(portable(phone.host) for phone in phones))
        which = f"the phones are {there}" if phones else "there is no phone in it, so leave --phone out"
        raise InputError(f"{recording}: no radio log is of a phone {name!r}; {which}")
    return own


def of_card(phones: Sequence[Phone], card: int | None) -> list[Phone]:
    """Return the phones whose rows are of a card, or of no card that a log names; all if it is None.

    Those of another card are left out, also if none is left: the card may have messages, and no readings.
    """
    cards = [radios_of(phone.radio, phone.signalling) for phone in phones]
    return [phone for phone, own in zip(phones, cards, strict=True) if card is None or not own or card in own]


def most_within(phones: Sequence[Phone], bounds_ns: Bounds) -> list[tuple[Phone, Phone]]:
    """Return pairs (phone, the same phone with only its rows in a window).

    Phones without rows in the window are left out. The phone with most rows in the window comes first.
    """
    pairs = [(phone, phone.within(bounds_ns)) for phone in phones]
    return sorted((pair for pair in pairs if pair[1].rows), key=lambda pair: -pair[1].rows)


def _logs(radio: Sequence[Placed], orders: Sequence[Placed]) -> list[PhoneLog]:
    """Return the radio logs as `PhoneLog`; readings and messages of the same log become one item."""
    read = {(each.host, each.path): each for each in radio}
    by_log = {(each.host, each.path): each for each in orders}
    return [
        PhoneLog(
            each.host, each.path, each.format,
            read[key].table if key in read else Table.empty(RADIO),
            by_log[key].table if key in by_log else Table.empty(HANDOVERS),
        )
        for key, each in (read | by_log).items()
    ]  # fmt: skip


def _by_card(logs: list[PhoneLog]) -> list[list[PhoneLog]]:
    """Return the logs of a phone for each of its SIM cards; the card with most rows comes first."""
    radios = radios_of(*(table for log in logs for table in (log.radio, log.orders)))
    if len(radios) < 2:
        return [logs]
    cards = []
    for radio in radios:
        first = radio == radios[0]
        own = [
            log._replace(
                radio=rows_of(log.radio, radio, unnamed=first), orders=rows_of(log.orders, radio, unnamed=first)
            )
            for log in logs
        ]
        cards.append([log for log in own if len(log.radio) or len(log.orders)])
    return cards


def span_of_packets(captures: Sequence[Capture]) -> tuple[int, int] | None:
    """Return the first and the last time of the packets in some captures, in ns; None without a time."""
    times = [
        time_ns
        for capture in captures
        for file in capture.tables.files
        for time_ns in (file.first_ns, file.last_ns)
        if time_ns is not None
    ]
    return (min(times), max(times)) if times else None


def _meet(one: tuple[int, int] | None, other: tuple[int, int] | None) -> bool:
    return one is not None and other is not None and one[0] <= other[1] and other[0] <= one[1]


def drives_beside(phones: Sequence[Phone]) -> int:
    """Return how many phones of a recording were read only at other times than the first one."""
    return sum(not _meet(phone.span_ns, phones[0].span_ns) for phone in phones[1:])


def which_phone(phones: Sequence[Phone]) -> str:
    """Return a sentence that names the shown phone and drive, and states how many others exist."""
    drives = drives_beside(phones)
    radios = len(phones) - 1 - drives
    others = [count(radios, "other radio")] if radios else []
    if drives:
        others.append(f"{count(drives, 'other drive')} (a pause of over six hours, or a clock that jumped)")
    span_ns = phones[0].span_ns
    named = len({phone.host for phone in phones}) > 1
    cards = radios_of(phones[0].radio, phones[0].signalling)
    first = f"card {cards[0]} of the phone" if cards else "the first radio"
    if named:
        first = f"the radio of {portable(phones[0].host)}"
    if not radios and span_ns is not None:
        first = f"the drive from {moment(span_ns[0])} on"
    held = " and ".join(others)
    choice = "`--phone NAME` chooses, " if named else ""
    return f"what is shown is of {first}; the logs hold {held}, too ({choice}`export tables` has all)"


def log_names(logs: Sequence[PhoneLog]) -> str:
    """Return the names of logs in a few words."""
    names = [portable(log.path) for log in logs]
    more = f" and {count(len(names) - 1, 'more log')}" if len(names) > 1 else ""
    return f"{names[0]}{more}" if names else ""


def _unjudged(legs: Table) -> Table:
    """Return HANDOVERS in the form of JUDGED_HANDOVERS, with empty verdicts."""
    rows = len(legs)
    missing = {
        "ping_pong": np.full(rows, NA, np.int8),
        "stay_least_s": np.full(rows, np.nan),
        "stay_most_s": np.full(rows, np.nan),
        "verdict": np.full(rows, "", "U10"),
        "verdict_reason": np.full(rows, "no change of the serving cell", "U64"),
    }
    return Table(JUDGED_HANDOVERS, legs.columns | missing)
