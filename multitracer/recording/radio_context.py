"""The radio context of a recording's connections: radio, position, and the marks of the engineer.

A recording may hold several logs of each. The drawn series, the route and all statements about them belong to
one phone on one drive. If the clocks of the recording are known, all tables are on the clock of one capture
point; otherwise each keeps the clock of its host.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Protocol

import numpy as np

from multitracer.analysis.mobility.route import route_of
from multitracer.analysis.mobility.series import BACK_NS, is_newest_first
from multitracer.analysis.series.labelled import speed_series, travelled_series
from multitracer.clock.doctor.examination import contradiction
from multitracer.clock.model.relation import Clock
from multitracer.clock.moved_table import moved
from multitracer.recording.devices import Placed, of_drive, tracks_of
from multitracer.recording.inputs import RADIO_CONTEXT_LAYERS
from multitracer.recording.phones import chosen, most_within, of_card, phones_of, span_of_packets, which_phone
from multitracer.recording.window import within_both
from multitracer.schemas.radio import GAPS, MARKERS, POSITION, RADIO
from multitracer.schemas.signalling import HANDOVERS
from multitracer.tables import NOT_A_TIME
from multitracer.units import NS_PER_S
from multitracer.words import count, duration, portable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from multitracer.analysis.mobility.route import Route
    from multitracer.clock.session_clock import Clocks
    from multitracer.logs import HostLog
    from multitracer.recording.capture import Capture
    from multitracer.recording.phones import Phone
    from multitracer.recording.window import Bounds
    from multitracer.tables import Table, Times

ZONE_CAVEAT = (
    "A log names no time zone, or one that can mean several: its times are assumed to be UTC, and may be off by "
    "whole hours."
)
"""The caveat for each result from a log without a clear time zone; it is printed first."""

CONTRADICTED = (
    "A log of the radio says that no network served while packets were answered: its clock is off, or its "
    "modem is another one (`multitracer align` names it), and the causes that rest on it may be wrong."
)


class Recorded(Protocol):
    """The interface of a recording that this module uses."""

    @property
    def name(self) -> str:
        """The recording's name."""

    @property
    def phone(self) -> str | None:
        """The name of the phone that the user chose; None for all."""

    @property
    def card(self) -> int | None:
        """The card of a phone that the user chose; None for all."""

    @property
    def captures(self) -> Sequence[Capture]:
        """Its capture points."""

    @property
    def clocks(self) -> Clocks | None:
        """The relations of the recording's clocks; None if there is nothing to relate."""

    def tables(self, layer: str, name: str) -> Iterator[tuple[HostLog, Table]]:
        """Yield a named table of each log of a layer that has it, with the log."""

    def warn_once(self, sentence: str) -> None:
        """Add a warning, unless it was added before."""


@dataclass(frozen=True)
class RadioContext:
    """The radio and position data of a recording.

    Attributes
    ----------
    recording : Recorded
    point : str or None
        The capture point whose clock is used; None leaves the tables on the clocks of their hosts.
    bounds_ns : pair of int or None
        Only rows from the first time until before the second; None leaves a side open.
    shown_of : (RadioContext, pair of int or None), optional
        The complete context in which phones and route are determined, and the part that is shown.
    """

    recording: Recorded
    point: str | None = None
    bounds_ns: Bounds = (None, None)
    shown_of: tuple[RadioContext, Bounds] | None = None

    def shown(self, bounds_ns: Bounds) -> RadioContext:
        """Return the radio context limited to a time window.

        Phones and route are still determined from all data. The phone with most rows in the window is the first.
        """
        if bounds_ns == (None, None):
            return self
        return replace(self, bounds_ns=within_both(self.bounds_ns, bounds_ns), shown_of=(self, bounds_ns))

    @cached_property
    def radio(self) -> list[Placed]:
        """Table RADIO of each log that has rows in it."""
        return self.logged(RADIO.name)

    @property
    def chosen_radio(self) -> list[Placed]:
        """Table RADIO of each log of the chosen phone; of all logs if the user chose none."""
        if self.recording.phone is None:
            return self.radio
        paths = {path for phone in self.phones for path in phone.paths}
        return [each for each in self.radio if each.path in paths]

    @cached_property
    def position(self) -> list[Placed]:
        """Table POSITION of each log that has rows in it."""
        return self.logged(POSITION.name)

    @cached_property
    def markers(self) -> list[Placed]:
        """Table MARKERS of each log that has rows in it."""
        return self.logged(MARKERS.name)

    @cached_property
    def gaps(self) -> list[Placed]:
        """Table GAPS of each log that has rows in it."""
        return self.logged(GAPS.name)

    def logged(self, name: str) -> list[Placed]:
        """Return the table `name` of each log in which it has rows."""
        within = [
            Placed(log.host, log.path, moved_table.within(*self.bounds_ns), log.format)
            for layer in RADIO_CONTEXT_LAYERS
            for log, table in self.recording.tables(layer, name)
            for moved_table in onto(self.recording.clocks, self.point, log.host, {name: table}).values()
        ]
        return [each for each in within if len(each.table)]

    @cached_property
    def series(self) -> dict[str, Table]:
        """SERIES by label (Radio_* and Gps_*, docs/figures.md) of the first phone's drive, as recorded."""
        if len(self.phones) > 1:
            self.recording.warn_once(f"{self.recording.name}: {which_phone(self.phones)}")
        series = dict(self.phones[0].series) if self.phones else {}
        series |= _fullest(self._tracks, speed_series)
        if self.drive is not None:
            placed, route = self.drive
            series |= travelled_series(route, source=portable(placed.path))
        return series

    @cached_property
    def phones(self) -> list[Phone]:
        """The phones of the recording on their drives, or the chosen one; the one with most readings comes first."""
        if self.shown_of is not None:
            complete, bounds_ns = self.shown_of
            return [own for _, own in most_within(complete.phones, bounds_ns)]
        phones = phones_of(self.radio, self.logged(HANDOVERS.name), self.recording.captures)
        return of_card(chosen(phones, self.recording.phone, self.recording.name), self.recording.card)

    @cached_property
    def drive(self) -> tuple[Placed, Route] | None:
        """The position log with most trusted positions, and its route; None without any position."""
        if self.shown_of is not None:
            complete, bounds_ns = self.shown_of
            drive = None if complete.drive is None else (complete.drive[0], complete.drive[1].within(*bounds_ns))
            return drive if drive is not None and len(drive[1].table) else None
        routes = [(placed, route_of(placed.table)) for placed in self._tracks]
        longest = max(routes, key=lambda each: len(each[1].table), default=None)
        return longest if longest is not None and len(longest[1].table) else None

    @cached_property
    def _tracks(self) -> list[Placed]:
        """POSITION of each receiver during the first phone's drive; successive logs form one table.

        Those in the logs of that phone come before others of its host, and these before those of other hosts, which
        may have been elsewhere.
        """
        tracks = of_drive(tracks_of(self.position), self.span_ns)
        phone = self.phones[0] if self.phones else None
        if phone is None or not phone.logs:
            return tracks
        hosts = {log.host for log in phone.logs}
        own = [track for track in tracks if track.path in phone.paths] if phone.host not in hosts else []
        near = [track for track in tracks if track.host in hosts]
        return next((some for some in (own, near) if any(map(_has_place, some))), tracks)

    @cached_property
    def span_ns(self) -> tuple[int, int] | None:
        """First and last time of the first phone's drive, in ns.

        It is None if the recording has packets, whose time is used instead.
        """
        return self.phones[0].span_ns if self.phones and not self.recording.captures else None

    @property
    def route(self) -> Route | None:
        """The route of the drive; None without any position."""
        return None if self.drive is None else self.drive[1]

    @property
    def caveats(self) -> str:
        """Sentences that say which times are doubtful (no time zone, or two clocks); empty if none are."""
        tables = [placed.table for placed in (*self.radio, *self.position, *self.markers)]
        words = [self.zone_caveat] if self.zone_caveat else []
        back_ns = max((_farthest_back_ns(table) for table in tables), default=0)
        if back_ns > BACK_NS:
            words.append(
                f"The times of a log jump back by up to {duration(back_ns)}, as those of two clocks: "
                "what is said around the jumps may be wrong."
            )
        words += [CONTRADICTED] if self._is_contradicted else []
        return " ".join(words)

    @property
    def zone_caveat(self) -> str:
        """A sentence that a log names no time zone, and which zone would make it fit the packets; or empty."""
        placed = [*self.radio, *self.position, *self.markers]
        tables = [each.table for each in placed if names_no_zone(each.table)]
        if not tables:
            return ""
        zones = {zone_that_fits(_times(table), span_of_packets(self.recording.captures)) for table in tables}
        zone = zones.pop() if len(zones) == 1 else ""
        return (
            f"{ZONE_CAVEAT} With `--zone {zone}` its readings would lie in the time of the packets."
            if zone
            else ZONE_CAVEAT
        )

    @property
    def _is_contradicted(self) -> bool:
        """Whether a radio log reports no service while packets of its host were acknowledged."""
        clocks = self.recording.clocks
        captures = [
            (each.point.name if clocks is None else clocks.of_point(each.point.name).host, each.tables)
            for each in self.recording.captures
        ]
        return any(
            contradiction(table, capture) is not None
            for log, table in self.recording.tables("radio", RADIO.name)
            for host, capture in captures
            if host == log.host
        )

    @property
    def first_ns(self) -> int | None:
        """The first time of the shown data, in ns; None if there are none."""
        phone = self.phones[0].span_ns if self.phones else None
        tables = [placed.table for placed in self._tracks or self.markers]
        firsts = [int(times.min()) for table in tables if len(times := _times(table))]
        return min([*firsts, *([phone[0]] if phone else [])], default=None)

    @property
    def placeless(self) -> str:
        """A text that says what the position receivers logged, if no route is known; else empty."""
        rows = sum(len(placed.table) for placed in self.position)
        if not rows or self.drive is not None:
            return ""
        has_fix = any((placed.table["fix"] > 0).any() for placed in self.position)
        why = "none of a place that can be trusted" if has_fix else "all without a fix, so no position"
        return f"{count(rows, 'reading')} of a positioning receiver, {why}"

    def __bool__(self) -> bool:
        return bool(self.radio or self.position or self.markers)


def _has_place(track: Placed) -> bool:
    return len(route_of(track.table).table) > 0


def names_no_zone(table: Table) -> bool:
    """Return whether the times of a log's table have no time zone, so that UTC was assumed."""
    return table.provenance.get("zone") == "unknown"


_ZONES_H = range(-12, 15)
"""Whole hours that time zones are ahead of UTC."""


def zone_that_fits(time_ns: Times, packets_ns: tuple[int, int] | None) -> str:
    """Return the zone in whole hours in which the times of a log lie in the time of the packets.

    It is empty if they already do as UTC, if no zone or more than one fits, and without packets.

    Parameters
    ----------
    time_ns : ndarray of int64, ns since 1970, shape (n_rows,)
        The times, read as UTC.
    packets_ns : pair of int or None
        First and last time of the packets.
    """
    if packets_ns is None or not len(time_ns):
        return ""
    first_ns, last_ns = int(time_ns.min()), int(time_ns.max())
    hour_ns = 3600 * NS_PER_S
    common = {
        hours: min(last_ns - hours * hour_ns, packets_ns[1]) - max(first_ns - hours * hour_ns, packets_ns[0])
        for hours in _ZONES_H
    }
    most = max(common.values())
    best = [hours for hours, shared in common.items() if shared == most]
    if most <= 0 or common[0] > 0 or len(best) > 1:
        return ""
    return f"{best[0]:+03d}:00"


def _farthest_back_ns(table: Table) -> int:
    """Return the largest step back in time between two lines of a log, in ns."""
    time_ns = _times(table.take(np.argsort(table["line"], kind="stable")))
    if is_newest_first(time_ns):
        return 0
    return -int(np.diff(time_ns).min(initial=0))


def _times(table: Table) -> Times:
    time_ns: Times = table["time_ns"]
    return np.asarray(time_ns[time_ns != NOT_A_TIME])


def _fullest(logs: list[Placed], series_of: Callable[..., dict[str, Table]]) -> dict[str, Table]:
    """Return the series of all logs by label; if several logs have a label, that with the most values."""
    fullest: dict[str, Table] = {}
    for placed in logs:
        for label, series in series_of(placed.table, source=portable(placed.path)).items():
            if label not in fullest or len(series) > len(fullest[label]):
                fullest[label] = series
    return fullest


def onto(clocks: Clocks | None, point: str | None, host: str, tables: dict[str, Table]) -> dict[str, Table]:
    """Return the tables of a host with times on the clock of a capture point.

    They are unchanged if the clocks are not related, or without a capture point.
    """
    if clocks is None or point is None:
        return tables
    source, target = Clock(host), clocks.of_point(point)
    if source == target:
        return tables
    return {label: moved(table, clocks, source, target).table for label, table in tables.items()}
