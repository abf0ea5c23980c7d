"""The viewer of a report for messages between phone and network: what `signalling/signalling.js` shows, as data.

Each card of each phone is a group, and nothing of two groups is mixed. A group has its messages as columns (time,
kind, cell, frame), strips of states and procedures as stretches of time, and for people without scripts, and for
paper, two tables. What differs between messages only in time and cell is a kind, which the page holds once.

The decoded trees of some messages are in the page: those around what failed, then the first of each name, until
`MOST_TREES` or `TREES_BYTES` are reached. For all others the page shows the command that prints them.
"""

from __future__ import annotations

import base64
import json
import shlex
from collections import Counter
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from multitracer.analysis.signalling.procedures import procedures_of
from multitracer.analysis.signalling.states import states_of
from multitracer.errors import InputError, MultiTracerError
from multitracer.recording.phones import radios_of
from multitracer.recording.radio_context import onto
from multitracer.report.embed import VIEW_MARGIN
from multitracer.report.markup import Markup, element, with_code
from multitracer.report.packed_columns import column_text, compressed
from multitracer.schemas.radio import RADIO
from multitracer.schemas.schema import Column, Schema
from multitracer.schemas.signalling import PROCEDURES, SIGNALLING, SIGNALLING_STATES, ProcedureResult
from multitracer.tables import NA, NOT_A_TIME, Table
from multitracer.units import NS_PER_S, NS_PER_US
from multitracer.words import clock_time, count, duration, printable, size

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from multitracer.logs import HostLog
    from multitracer.recording.radio_context import RadioContext
    from multitracer.recording.recording import Recording
    from multitracer.recording.window import Bounds
    from multitracer.tables import Array, Document, Mask, Numbers, Row, Times

MOST_TREES = 400
"""Maximum number of trees in a page: tshark describes 300 a second on one core of 2020."""
TREES_BYTES = 2_000_000
"""Maximum size of all trees in a page, as text of the page."""
_TREE_TEXT_BYTES = 24 << 20
"""Maximum size of the trees before compression: what a browser must hold once one of them is unfolded."""
_AROUND = 4
"""Messages before and after one that failed whose trees are in the page."""
_MOST_ROWS = 100
"""Maximum number of rows of the list of what failed; the page has all of them as marks."""
_MOST_NOTES = 20
_LONGEST = 200
"""Maximum length of a text that comes from a log; the names of standards are shorter."""
_MOST_KINDS = 60_000
"""Maximum number of kinds of messages in a group; a drive has a few hundred, a hostile log as many as messages."""
_LANES = 4
"""Rows of procedures that run at the same time; an attach has three."""
_UNTIMED, _NEW_CLOCK = 1, 2
"""Flags of a message: its log gives no time; the first one behind a change of the log's clock."""
_PROTOCOLS = {"rrc": "RRC", "nas": "NAS", "sms": "SMS", "rr": "RR", "rlc/mac": "RLC/MAC"}
_BAD_RESULTS = frozenset({
    ProcedureResult.REJECTED, ProcedureResult.FAILED, ProcedureResult.RE_ESTABLISHED, ProcedureResult.UNANSWERED,
})  # fmt: skip
_BAD_NAMES = ("reject", "failure", "reestablishment")
"""Parts of the names of messages that say that something failed, in lower case."""
_TITLES = {
    "RRC": "RRC connection", "EMM": "registration in LTE", "5GMM": "registration in NR",
    "GMM": "registration for packets in GSM and UMTS", "MM": "registration for circuits",
    "registration": "registration, as Android says", "session": "bearers and sessions", "DC": "dual connectivity",
    "CA": "carrier aggregation",
}  # fmt: skip
_TONES = {
    "connected": "on", "active": "on", "registered": "on", "EN-DC": "more", "NR": "more", "LTE only": "on",
    "inactive": "half", "idle": "off", "none": "off", "deregistered": "off",
}  # fmt: skip
_CHANNELS = {"LTE": "EARFCN", "NR": "NR-ARFCN", "UMTS": "UARFCN", "GSM": "ARFCN"}
_TIMES = Schema("times", (Column("time_ns", "int64", "", "ns since 1970"),))
TITLE = "Messages of phone and network"


class Viewer(NamedTuple):
    """What a page needs for the viewer.

    Attributes
    ----------
    section : Markup
        The section, with tables for paper and for a browser without scripts.
    document : dict
        What `signalling/signalling.js` reads as JSON.
    lines : list of str
        The texts of columns and trees, which stand at the end of the page.
    note : str
        A few words on the content.
    span_s : (float, float) or None
        First and last time of a message or state, on the axis of the page; None without a time.
    """

    section: Markup
    document: Document
    lines: list[str]
    note: str
    span_s: tuple[float, float] | None


class Axis(NamedTuple):
    """The time axis of the page: what is 0 on it, seconds of it in a recorded one, and the interval that is shown."""

    origin_ns: int
    speed: float = 1
    bounds_ns: Bounds = (None, None)

    def seconds(self, time_ns: int) -> float:
        """Return a recorded time in seconds of the page."""
        return (time_ns - self.origin_ns) * self.speed / NS_PER_S


class _Log(NamedTuple):
    """The messages of one log and what follows from them, on the clock of the page."""

    number: int
    log: HostLog
    phone: str
    messages: Table
    procedures: Table
    states: Table
    served: Table
    """RADIO: the readings of cells that served."""


class _Group(NamedTuple):
    """The part of some logs that belongs to one card of one phone."""

    name: str
    logs: list[_Log]
    procedures: Table
    """By time, without the reports before a command, which are part of the command's procedure."""


def signalling_viewer(
    recording: Recording, radio_context: RadioContext, axis: Axis, incidents_ns: Iterable[int] = ()
) -> Viewer | None:
    """Return the viewer of a recording's messages and states; None if no log has any, or could have.

    Parameters
    ----------
    recording : Recording
    radio_context : RadioContext
        The clock of the page, and the phones; the user's choice of a phone and of a card holds.
    axis : Axis
    incidents_ns : iterable of int
        Recorded times of what the page reports; trees of the messages around them are in the page.

    Raises
    ------
    InputError
        If no log has the card that the user chose.
    """
    logs = _logs(recording, radio_context, axis.bounds_ns)
    groups = _groups(logs, recording)
    notes = list(_notes(recording, logs, groups))
    if not groups and not notes:
        return None
    texts = _Texts()
    shown = [_document(group, axis, texts) for group in groups]
    trees, note = _trees(logs, groups, list(incidents_ns), texts) if groups else ({}, "")
    names = [_named(each.number, each.log) for each in logs]
    spans = [span for group in groups if (span := _span_ns(group)) is not None]
    span_s = None
    if spans:
        span_s = axis.seconds(min(first for first, _ in spans)), axis.seconds(max(last for _, last in spans))
    document = {"groups": shown, "logs": names, "trees": trees, "about_trees": note, "span": _view(span_s)}
    words = _summary(groups)
    return Viewer(_section(groups, axis, notes, words), document, texts.lines, words, span_s)


def _view(span_s: tuple[float, float] | None) -> list[float]:
    """Return the window that shows all of a span, with room at both ends."""
    low, high = span_s or (0.0, 1.0)
    room_s = max((high - low) * VIEW_MARGIN, 1e-3)
    return [low - room_s, high + room_s]


def first_message_ns(recording: Recording) -> int:
    """Return the recorded time of the first message or state of a recording, ns; 0 without any time."""
    logs = [tables for layer in ("signalling", "radio") for _, tables in recording.logs(layer)]
    columns = [tables[SIGNALLING.name]["time_ns"] for tables in logs if SIGNALLING.name in tables]
    times = np.concatenate([np.empty(0, np.int64), *columns])
    if not (times != NOT_A_TIME).any():
        times = np.concatenate([np.empty(0, np.int64), *(states_of(tables)["begin_ns"] for tables in logs)])
    times = times[times != NOT_A_TIME]
    return int(times.min()) if len(times) else 0


# From logs to groups.


def _logs(recording: Recording, radio_context: RadioContext, bounds_ns: Bounds) -> list[_Log]:
    """Return the logs with messages or states of the chosen phone, within the shown interval."""
    phones = {path: phone.host for phone in radio_context.phones for path in phone.paths}
    parsed = [each for layer in ("signalling", "radio") for each in recording.logs(layer)]
    own = [(log, tables) for log, tables in parsed if recording.phone is None or log.path in phones]
    if recording.phone is not None and not phones:
        own = [(log, tables) for log, tables in parsed if recording.phone in (log.host, *_file_names(log))]
    read = []
    for number, (log, tables) in enumerate(own):
        procedures, states = procedures_of(tables), states_of(tables)
        messages = tables.get(SIGNALLING.name, Table.empty(SIGNALLING))
        messages, procedures, states = (
            _within(_on_clock(each, log.host, radio_context), bounds_ns) for each in (messages, procedures, states)
        )
        radio = tables.get(RADIO.name, Table.empty(RADIO))
        served = radio.take((radio["role"] == "serving") & (radio["physical_cell_id"] != NA))
        read.append(_Log(number, log, phones.get(log.path, log.host), messages, procedures, states, served))
    return [each for each in read if len(each.messages) or len(each.states)]


def _file_names(log: HostLog) -> tuple[str, str]:
    name = Path(log.path).name
    return name, name.partition(".")[0]


def _on_clock(table: Table, host: str, radio_context: RadioContext) -> Table:
    """Return a table with all times on the clock of the page."""
    clocks, point = radio_context.recording.clocks, radio_context.point
    columns = dict(table.columns)
    for column in table.schema:
        if column.is_time and len(table):
            times = Table(_TIMES, {"time_ns": columns[column.name]})
            columns[column.name] = onto(clocks, point, host, {"": times})[""]["time_ns"]
    return Table(table.schema, columns, table.provenance)


def _within(table: Table, bounds_ns: Bounds) -> Table:
    """Return the rows that lie in an interval, at least in part; all if it has no ends."""
    low, high = bounds_ns
    if (low, high) == (None, None) or not len(table):
        return table
    if "time_ns" in table.columns:
        return table.within(low, high)
    begin, end = table["begin_ns"], table["end_ns"]
    begin, end = np.where(begin == NOT_A_TIME, end, begin), np.where(end == NOT_A_TIME, begin, end)
    is_in = begin != NOT_A_TIME
    is_in &= (end >= low) if low is not None else True
    is_in &= (begin < high) if high is not None else True
    return table.take(is_in)


def _groups(logs: list[_Log], recording: Recording) -> list[_Group]:
    """Return the groups, by phone and card; of each phone the card with most messages comes first.

    Rows of no card, as of a modem's answers beside a diagnostic log, belong to the first card.
    """
    groups, cards = [], set[int]()
    several = len({each.phone for each in logs}) > 1
    for phone in dict.fromkeys(each.phone for each in logs):
        own = [each for each in logs if each.phone == phone]
        of_states = [_numbered(each.states) for each in own]
        numbers = radios_of(*(each.messages for each in own)) or radios_of(*of_states)
        cards.update(numbers)
        for number in numbers or [NA]:
            if recording.card not in (None, number):
                continue
            is_first = not numbers or number == numbers[0]
            name = ", ".join([*([printable(phone)] if several else []), *([f"card {number}"] if numbers else [])])
            of_card = [_with_cells(_of_card(each, number, is_first)) for each in own]
            groups.append(_Group(name or "the phone", of_card, _procedures(of_card)))
    if recording.card is not None and logs and recording.card not in cards:
        there = ", ".join(map(str, sorted(cards))) or "not named in the logs"
        raise InputError(f"{recording.name}: no message is of card {recording.card}; the cards are {there}")
    return [group for group in groups if any(len(each.messages) or len(each.states) for each in group.logs)]


def _numbered(states: Table) -> Table:
    schema = Schema("cards", (Column("modem", "int64", "", na=True),))
    return Table(schema, {"modem": states["card"]})


def _of_card(log: _Log, number: int, is_first: bool) -> _Log:
    def own(table: Table, column: str) -> Table:
        numbers = table[column]
        return table.take((numbers == number) | (is_first & (numbers == NA)))

    return log._replace(
        messages=own(log.messages, "modem"),
        procedures=own(log.procedures, "card"),
        states=own(log.states, "card"),
        served=own(log.served, "modem"),
    )


def _span_ns(group: _Group) -> tuple[int, int] | None:
    columns = [each.messages["time_ns"] for each in group.logs]
    columns += [each.states[name] for each in group.logs for name in ("begin_ns", "end_ns")]
    times = np.concatenate([np.empty(0, np.int64), *columns])
    times = times[times != NOT_A_TIME]
    return (int(times.min()), int(times.max())) if len(times) else None


# From a group to what the page holds.


class _Texts:
    """The texts at the end of the page, with which columns are written."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def add(self, text: str) -> int:
        """Add a text; return its line."""
        self.lines.append(text)
        return len(self.lines) - 1

    def columns(self, columns: Mapping[str, Array]) -> Document:
        """Add columns of integers; return where they are, for `Decoder.columns`."""
        written = [column_text(np.asarray(column, np.int64)) for column in columns.values()]
        return {
            "points": len(next(iter(columns.values()))),
            "columns": list(columns),
            "planes": [planes for _, planes in written],
            "lines": [self.add(text) for text, _ in written],
        }


class _Kinds:
    """The kinds of a group's messages, each written once."""

    def __init__(self) -> None:
        self._numbers: dict[tuple[object, ...], int] = {}
        self.rows: list[list[object]] = []

    def number(self, key: tuple[object, ...]) -> int:
        """Return the number of a kind; beyond the maximum, without its cause, which is the only free text."""
        if key not in self._numbers and len(self.rows) >= _MOST_KINDS:
            return 0
        if key not in self._numbers:
            self._numbers[key] = len(self.rows)
            rat, layer, direction, channel, name, cause, number, encrypted = key
            shown = str(name) or ("ciphered" if encrypted == 1 else "not dissected")
            why = str(cause)[:_LONGEST]
            if number != NA and not why.startswith(str(number)):
                why = f"{number}: {why}" if why else str(number)
            is_bad = any(part in str(name).lower() for part in _BAD_NAMES)
            protocol = _PROTOCOLS.get(str(layer), str(layer).upper() or "unknown")
            self.rows.append([rat, protocol, direction, channel, shown[:_LONGEST], why, int(is_bad), int(not name)])
        return self._numbers[key]


_KIND = ("rat", "layer", "direction", "logical_channel", "message", "cause", "cause_number", "encrypted")


def _document(group: _Group, axis: Axis, texts: _Texts) -> Document:
    """Return a group as the page holds it."""
    kinds, cells = _Kinds(), dict[str, int]()
    parts = [_columns(each, axis, kinds, cells) for each in group.logs if len(each.messages)]
    names = ("time", "kind", "cell", "frame", "flags", "log")
    columns = {name: np.concatenate([np.empty(0, np.int64), *(part[name] for part in parts)]) for name in names}
    order = np.argsort(columns["time"], kind="stable")
    columns = {name: column[order] for name, column in columns.items()}
    numbers = np.unique(columns["log"]).tolist()
    if len(numbers) < 2:
        del columns["log"]
    return {
        "name": group.name,
        "only_log": numbers[0] if numbers else 0,
        "messages": texts.columns(columns) | {"tick_s": NS_PER_US / NS_PER_S * axis.speed},
        "kinds": kinds.rows,
        "cells": list(cells),
        "strips": [*_state_strips(group, axis, texts), *_procedure_strip(group, axis, texts)],
    }


def _columns(log: _Log, axis: Axis, kinds: _Kinds, cells: dict[str, int]) -> dict[str, Array]:
    """Return the columns of the messages of a log, in the order of the log."""
    table = log.messages
    time_ns, flags = _known_times(table, axis)
    keys = zip(*(table[name].tolist() for name in _KIND), strict=True)
    return {
        "time": (time_ns - axis.origin_ns) // NS_PER_US,
        "kind": np.fromiter((kinds.number(key) for key in keys), np.int64, len(table)),
        "cell": _cells(log, cells),
        "frame": table["frame"].astype(np.int64),
        "flags": flags,
        "log": np.full(len(table), log.number),
    }


def _known_times(table: Table, axis: Axis) -> tuple[Times, Numbers]:
    """Return times of which none is missing, and the flags; a missing one is that of the message before."""
    time_ns, places = table["time_ns"], np.arange(len(table))
    known = time_ns != NOT_A_TIME
    before = np.maximum.accumulate(np.where(known, places, -1))
    first = int(known.argmax()) if known.any() else -1
    filled = np.where(before >= 0, time_ns[before], time_ns[first] if first >= 0 else axis.origin_ns)
    clock = table["clock"]
    is_new = np.concatenate([[False], np.diff(clock) != 0]) if len(table) else np.zeros(0, bool)
    return filled, np.where(known, 0, _UNTIMED) + np.where(is_new, _NEW_CLOCK, 0)


def _cells(log: _Log, cells: dict[str, int]) -> Numbers:
    """Return the number of each message's cell; in brackets, that of the message before it if it names none."""
    rat, cell, channel, is_carried = _known_cells(log)
    known: dict[tuple[object, ...], int] = {}
    numbers = np.zeros(len(rat), np.int64)
    facts = (rat.tolist(), cell.tolist(), channel.tolist(), is_carried.tolist())
    for i, key in enumerate(zip(*facts, strict=True)):
        if key not in known:
            text = printable(f"{str(key[0])[:_LONGEST]} {cell_words(*key[:3])}".strip())
            known[key] = cells.setdefault(f"({text})" if key[3] else text, len(cells))
        numbers[i] = known[key]
    return numbers


def _known_cells(log: _Log) -> tuple[Array, Numbers, Numbers, Mask]:
    """Return technology, identity and channel of each message's cell, and whether only the message before names it."""
    table = log.messages
    rat, channel, logical = table["rat"], table["channel"], table["logical_channel"]
    is_of_cell = np.char.find(logical.astype(str), "CCH") >= 0
    cell = table["physical_cell_id"]
    cell = np.where(is_of_cell & (cell == NA), _served(table, log.served), cell)
    named = (cell != NA) | (channel != NA)
    own = named & is_of_cell & ~np.isin(logical, ("PCCH", "MCCH", "BCCH"))
    places, clock = np.arange(len(table)), table["clock"]
    before = np.maximum.accumulate(np.where(own, places, -1))
    is_carried = ~named & (before >= 0) & (clock == clock[np.maximum(before, 0)])
    source = np.where(is_carried, before, places)
    return rat[source], cell[source], channel[source], is_carried


def _with_cells(log: _Log) -> _Log:
    """Return a log whose procedures have the cell of the message that ended them, where they name none."""
    procedures = log.procedures
    if not len(log.messages) or not len(procedures):
        return log
    rat, cell, channel, _ = _known_cells(log)
    frames = log.messages["frame"].astype(np.int64)
    order = np.argsort(frames, kind="stable")
    frame = np.where(procedures["end_frame"] == NA, procedures["begin_frame"], procedures["end_frame"])
    at = order[np.clip(np.searchsorted(frames[order], frame), 0, len(frames) - 1)]
    columns = dict(procedures.columns)
    own_cell, own_channel = columns["physical_cell_id"], columns["channel"]
    is_free = (own_cell == NA) & ((own_channel == NA) | (own_channel == channel[at])) & (frames[at] == frame)
    columns["rat"] = np.where(is_free, rat[at], columns["rat"])
    columns["physical_cell_id"] = np.where(is_free, cell[at], own_cell)
    columns["channel"] = np.where(is_free, channel[at], own_channel)
    return log._replace(procedures=Table(procedures.schema, columns))


def _served(table: Table, served: Table) -> Numbers:
    """Return the identity of the cell that served on the channel of each message when it was logged; NA if not known.

    Both tables name frames of one log, which are in the order of the log.
    """
    if not len(served):
        return np.full(len(table), NA)
    served = served.take(np.argsort(served["line"], kind="stable"))
    place = np.searchsorted(served["line"], table["frame"], side="right") - 1
    at = np.maximum(place, 0)
    is_same = (place >= 0) & (served["channel"][at] == table["channel"]) & (served["rat"][at] == table["rat"])
    return np.where(is_same, served["physical_cell_id"][at], NA)


def cell_words(rat: object, cell: object, channel: object) -> str:
    """Return the name of a cell by its numbers; "" if none is known."""
    parts = [] if cell in (None, NA) else [f"{'PSC' if rat == 'UMTS' else 'PCI'} {cell}"]
    parts += [] if channel in (None, NA) else [f"{_CHANNELS.get(str(rat), 'channel')} {channel}"]
    return ", ".join(parts)


class _Spans:
    """Stretches of time of one strip, each with a label: short text, tone, and all that is known of it."""

    def __init__(self, axis: Axis) -> None:
        self._axis = axis
        self._labels: dict[tuple[str, str, str], int] = {}
        self._columns: dict[str, list[int]] = {"begin": [], "until": [], "label": [], "lane": []}

    def add(self, begin_ns: int, end_ns: int, label: tuple[str, str, str], lane: int = 0) -> None:
        number = self._labels.setdefault(label, len(self._labels))
        begin = (begin_ns - self._axis.origin_ns) // NS_PER_US
        until = max((end_ns - begin_ns) // NS_PER_US, 0)
        for name, value in zip(self._columns, (begin, until, number, lane), strict=True):
            self._columns[name].append(value)

    def document(self, key: str, title: str, texts: _Texts) -> Document:
        columns = {name: np.array(values, np.int64) for name, values in self._columns.items()}
        lanes = int(columns["lane"].max(initial=0)) + 1
        if lanes == 1:
            del columns["lane"]
        tick_s = NS_PER_US / NS_PER_S * self._axis.speed
        labels = [list(label) for label in self._labels]
        return {
            "key": key, "title": title, "labels": labels, "lanes": lanes,
            "spans": texts.columns(columns) | {"tick_s": tick_s},
        }  # fmt: skip


def _state_strips(group: _Group, axis: Axis, texts: _Texts) -> Iterator[Document]:
    """Yield a strip for each machine whose state is known; messages are believed before what a phone says."""
    states = Table.concatenate(SIGNALLING_STATES, [each.states for each in group.logs])
    states = states.take(np.argsort(states["begin_ns"], kind="stable"))
    for machine, title in _TITLES.items():
        own = states.take(states["machine"] == machine)
        if (own["source"] == "signalling").any():
            own = own.take(own["source"] == "signalling")
        if not len(own):
            continue
        spans = _Spans(axis)
        for begin, end, *facts in zip(*(own[name].tolist() for name in _STATE), strict=True):
            if NOT_A_TIME not in (begin, end):
                spans.add(begin, end, _state_label(machine, *facts))
        yield spans.document(machine, title, texts)


_STATE = ("begin_ns", "end_ns", "state", "number", "rat", "message")


@lru_cache(maxsize=1 << 12)
def _state_label(machine: str, state: str, number: int, rat: str, message: str) -> tuple[str, str, str]:
    """Return what a strip shows of a state: a short text, its tone, and all that is known."""
    state = printable(state[:_LONGEST])
    noun = "secondary cell" if machine == "CA" else "bearer"
    many = f", {count(number, noun)}" if number not in (NA, 0) else ""
    of = f" {rat}" if rat and rat not in state and machine in ("RRC", "session") else ""
    known = f" (since {printable(message[:_LONGEST])})" if message else ""
    tone = _TONES.get(state, "busy" if state.endswith("initiated") else "half")
    return f"{state}{of}{many}", tone, f"{machine}{of} {state}{many}{known}"


def _procedure_strip(group: _Group, axis: Axis, texts: _Texts) -> Iterator[Document]:
    """Yield the strip of procedures, those that run at the same time below each other."""
    if not len(group.procedures):
        return
    spans, free_ns = _Spans(axis), [-(1 << 62)] * _LANES
    for begin, end, *facts in zip(*(group.procedures[name].tolist() for name in _PROCEDURE), strict=True):
        first, last = (end if begin == NOT_A_TIME else begin), (begin if end == NOT_A_TIME else end)
        if first == NOT_A_TIME:
            continue
        lane = next((n for n, until in enumerate(free_ns) if until < first), _LANES - 1)
        free_ns[lane] = max(free_ns[lane], last)
        spans.add(first, last, _procedure_label(*facts), lane)
    yield spans.document("procedures", "procedures", texts)


_PROCEDURE = (
    *("begin_ns", "end_ns", "kind", "result", "cause", "cause_number", "reason"),
    *("rat", "physical_cell_id", "channel"),
)


@lru_cache(maxsize=1 << 12)
def _procedure_label(kind: str, result: str, *facts: object) -> tuple[str, str, str]:
    """Return what the strip shows of a procedure: its kind, its tone, and all that is known."""
    row = dict(zip(_PROCEDURE[4:], facts, strict=True))
    tone = "bad" if result in _BAD_RESULTS else "on" if result == "complete" else "half"
    return kind, tone, printable(_procedure_words({"kind": kind, "result": result, **row}))


def _procedures(logs: list[_Log]) -> Table:
    table = Table.concatenate(PROCEDURES, [each.procedures for each in logs])
    begin = np.where(table["begin_ns"] == NOT_A_TIME, table["end_ns"], table["begin_ns"])
    table = table.take(np.argsort(begin, kind="stable"))
    return table.take(table["kind"] != "report to command")


def _procedure_words(row: Row) -> str:
    why = _cause_words(row)
    where = cell_words(row["rat"], row["physical_cell_id"], row["channel"])
    parts = [f"{row['kind']}: {row['result']}", *([why] if why else []), *([f"in {where}"] if where else [])]
    return ", ".join(parts)


def _cause_words(row: Row) -> str:
    cause, number = str(row["cause"])[:_LONGEST], row["cause_number"]
    if number in (None, NA):
        return cause or str(row["reason"])[:_LONGEST]
    return f"{number}: {cause}" if cause else str(number)


# Trees of single messages.


def _trees(logs: list[_Log], groups: list[_Group], incidents_ns: list[int], texts: _Texts) -> tuple[Document, str]:
    """Return where the trees in the page are, by log and frame, and a sentence on what is there."""
    from parsers._signalling.trees import message_trees  # noqa: PLC0415  # few recordings have messages

    wanted = _wanted(groups, incidents_ns)
    total = sum(len(each.messages) for group in groups for each in group.logs)
    if not wanted:
        return {}, ""
    described: dict[tuple[int, int], str] = {}
    lacking = []
    for log in logs:
        frames = {frame for number, frame in wanted if number == log.number}
        try:
            for tree in message_trees(log.log.path, frames) if frames else ():
                described[log.number, tree.frame] = _tree_text(tree.lines, tree.cut, tree.why)
        except MultiTracerError as error:
            lacking.append(printable(str(error)))
    order = [key for key in wanted if key in described]
    kept, text = _fitted([described[key] for key in order])
    why = f" Trees are missing: {'; '.join(lacking)}." if lacking else ""
    if not kept:
        return {}, f"This page holds no decoded message.{why}"
    note = (
        f"This page holds the decoded trees of {kept:,} of {total:,} messages ({size(len(text))}, at most "
        f"{size(TREES_BYTES)}): what failed and what was around it, the first of each name, "
        f"and procedures.{why}"
    )
    return {"line": texts.add(text), "of": [list(key) for key in order[:kept]]}, note


def _tree_text(lines: Sequence[tuple[int, str]], cut: int, why: str) -> str:
    more = [f"and {cut:,} lines more"] if cut else []
    return "\n".join([*("\t" * depth + printable(words) for depth, words in lines), *([why] if why else []), *more])


def _fitted(trees: list[str]) -> tuple[int, str]:
    """Return how many of the trees fit into the page, and their text."""
    lengths = np.cumsum([len(each) for each in trees])
    kept = int(np.searchsorted(lengths, _TREE_TEXT_BYTES, side="right"))
    while True:
        packed = base64.b64encode(compressed(json.dumps(trees[:kept]).encode())).decode()
        if len(packed) <= TREES_BYTES or not kept:
            return kept, packed if kept else ""
        kept = kept * 4 // 5


def _wanted(groups: list[_Group], incidents_ns: list[int]) -> list[tuple[int, int]]:
    """Return the log and the frame of each message whose tree is wanted, the most wanted first."""
    failed, around, first, others = [], [], [], []
    for group in groups:
        for log in group.logs:
            frames = log.messages["frame"]
            if not len(frames):
                continue
            rows = _failed_rows(log)
            failed += [(log.number, frame) for frame in frames[rows].tolist()]
            near = _near(log.messages["time_ns"], incidents_ns)
            near = np.concatenate([near, rows])
            steps = np.arange(-_AROUND, _AROUND + 1)
            places = np.clip(near[:, None] + steps, 0, len(frames) - 1).ravel()
            around += [(log.number, frame) for frame in frames[np.unique(places)].tolist()]
            _, rows = np.unique(log.messages["message"], return_index=True)
            first += [(log.number, frame) for frame in frames[rows].tolist()]
            there = set(frames.tolist())
            parts = (int(each) for text in log.procedures["frames"].tolist() for each in text.split())
            others += [(log.number, frame) for frame in parts if frame in there]
    ordered = [*failed[: MOST_TREES // 2], *first[: MOST_TREES // 4], *around, *failed, *others]
    return list(dict.fromkeys(ordered))[:MOST_TREES]


def _failed_rows(log: _Log) -> Numbers:
    """Return the rows of the messages of procedures that failed, and of those whose name says so."""
    is_bad = np.isin(log.procedures["result"], [str(each) for each in _BAD_RESULTS])
    frames = {int(each) for text in log.procedures["frames"][is_bad].tolist() for each in text.split()}
    return np.flatnonzero(_names_failure(log.messages) | np.isin(log.messages["frame"], list(frames)))


def _names_failure(messages: Table) -> Mask:
    """Return which messages have a name that says that something failed or was refused."""
    names, number = np.unique(messages["message"], return_inverse=True)
    failing = np.array([any(part in name.lower() for part in _BAD_NAMES) for name in names.tolist()], bool)
    return np.asarray(failing[number], bool)


def _near(time_ns: Times, incidents_ns: list[int]) -> Numbers:
    """Return the row of the message that is nearest to each incident."""
    known = np.flatnonzero(time_ns != NOT_A_TIME)
    if not len(known) or not incidents_ns:
        return np.zeros(0, np.int64)
    ordered = known[np.argsort(time_ns[known], kind="stable")]
    at = np.clip(np.searchsorted(time_ns[ordered], incidents_ns), 0, len(ordered) - 1)
    return np.asarray(ordered[at])


def _named(number: int, log: HostLog) -> Document:
    """Return the name of a log for the page, and the command that prints a message of it."""
    name = Path(log.path).name
    return {"number": number, "name": printable(name), "command": f"multitracer dissect {shlex.quote(name)} --message"}


# What is missing, and what paper shows.


def _notes(recording: Recording, logs: list[_Log], groups: list[_Group]) -> Iterator[str]:
    """Yield a sentence for each thing that the viewer does not show, and why."""
    known = set()
    for log in logs:
        for words in log.messages.provenance.get("warnings", ()):
            if words not in known:
                known.add(words)
                yield f"{Path(log.log.path).name}: {words}"
    for words in recording.notes:
        if "signalling" in words and ("not read" in words or "not installed" in words):
            yield words
    for group in groups:
        of = f" of {group.name}" if len(groups) > 1 else ""
        layers = Counter(layer for each in group.logs for layer in each.messages["layer"].tolist())
        unnamed = sum(int((each.messages["message"] == "").sum()) for each in group.logs)
        if not layers:
            sources = sorted({source for each in group.logs for source in each.states["source"].tolist()})
            yield (
                f"No log holds messages{of}; the states are those that {', '.join(map(printable, sources))} said. A "
                "diagnostic log has the messages (`multitracer capture --signalling PORT`)."
            )
        elif "nas" not in layers:
            yield (
                f"The log holds no NAS message{of}: registration and sessions are unknown. Record NAS, too, with a "
                "program that logs it (SCAT, QCSuper and MobileInsight do)."
            )
        if unnamed:
            yield f"{count(unnamed, 'message')}{of} without a name: ciphered, or not dissected by tshark."


def _summary(groups: list[_Group]) -> str:
    total = sum(len(each.messages) for group in groups for each in group.logs)
    failed = sum(len(_failed(group)) for group in groups)
    cards = f" of {len(groups)} cards" if len(groups) > 1 else ""
    refused = sum(_names_failure(each.messages).sum() for group in groups for each in group.logs)
    bad = f", {refused:,} naming a failure" if refused else ""
    bad += f"; {count(failed, 'procedure')} failed" if failed else ""
    return f"{count(total, 'message')}{cards}{bad}" if total else "states only"


def _section(groups: list[_Group], axis: Axis, notes: list[str], words: str) -> Markup:
    """Return the section: what scripts fill, and the tables for all."""
    sentence = _first_sentence(groups, axis, words)
    shown = [element("p", printable(sentence), class_="lead")] if sentence else []
    left_out = [printable(each) for each in notes[:_MOST_NOTES]]
    if len(notes) > _MOST_NOTES:
        left_out.append(f"and {len(notes) - _MOST_NOTES:,} more")
    missing = None
    if left_out:
        summary = element("summary", f"What is missing here: {count(len(left_out), 'note')}")
        missing = element(
            "details", summary, element("ul", [element("li", with_code(each)) for each in left_out]), class_="lacks",
            open=not groups,
        )  # fmt: skip
    several = len(groups) > 1
    tables = [
        element(
            "div",
            element("h3", group.name[:1].upper() + group.name[1:]) if several else None,
            _failed_table(group, axis),
            _kinds_table(group),
            class_="of-group",
            data_group=number,
        )
        for number, group in enumerate(groups)
    ]
    return element(
        "section",
        element("h2", TITLE),
        shown,
        missing,
        element("div", class_="viewer", hidden=True) if groups else None,
        tables,
        class_="signalling long",
    )


def _first_sentence(groups: list[_Group], axis: Axis, words: str) -> str:
    """Return what failed first, or that nothing did."""
    failed = [(row, group) for group in groups for row in _failed(group).take(slice(1)).rows()]
    if not groups:
        return ""
    if not failed:
        return f"{words}; no procedure failed." if any(len(each.procedures) for each in groups) else f"{words}."
    row, group = min(failed, key=lambda each: each[0]["begin_ns"] or each[0]["end_ns"] or 0)
    at = row["begin_ns"] or row["end_ns"]
    when = f" at {clock_time(axis.seconds(at), 1)}" if at else ""
    of = f" of {group.name}" if len(groups) > 1 else ""
    return f"{words}; the first{when}{of}: {_procedure_words(row)}."


def _failed(group: _Group) -> Table:
    return group.procedures.take(np.isin(group.procedures["result"], [str(each) for each in _BAD_RESULTS]))


def _failed_table(group: _Group, axis: Axis) -> Markup | None:
    """Return the list of the procedures that failed, each with a button that shows it."""
    failed = _failed(group)
    if not len(failed):
        return None
    cells = []
    for row in failed.take(slice(_MOST_ROWS)).rows():
        at = row["begin_ns"] or row["end_ns"]
        seconds = None if at is None else axis.seconds(at)
        words = "no time" if seconds is None else clock_time(seconds, 1)
        button = element("button", words, type="button", data_at=None if seconds is None else f"{seconds:.6f}")
        where = cell_words(row["rat"], row["physical_cell_id"], row["channel"]) or "not known"
        took = duration(row["duration_ns"]) if row["duration_ns"] is not None else ""
        facts = (row["kind"], row["result"], _cause_words(row), f"{row['rat'] or ''} {where}".strip(), took)
        cells.append(element("tr", element("td", button), [element("td", printable(each)) for each in facts]))
    heads = ("At", "Procedure", "Result", "Cause", "Cell", "Took")
    more = element("p", f"and {len(failed) - _MOST_ROWS:,} more", class_="muted") if len(failed) > _MOST_ROWS else None
    return element("div", _table(heads, cells, f"What failed ({len(failed):,})"), more)


def _kinds_table(group: _Group) -> Markup | None:
    """Return how often each kind of procedure ended how, and how long it took."""
    procedures = group.procedures
    if not len(procedures):
        return None
    rows = []
    for kind in np.unique(procedures["kind"]).tolist():
        own = procedures.take(procedures["kind"] == kind)
        results = Counter(own["result"].tolist())
        others = ", ".join(f"{n:,} {result}" for result, n in results.most_common() if result != "complete")
        took_ns = own["duration_ns"][own["duration_ns"] != NOT_A_TIME]
        median, worst = (duration(each) for each in (np.median(took_ns), took_ns.max())) if len(took_ns) else ("", "")
        facts = (kind, f"{len(own):,}", f"{results['complete']:,}", others, median, worst)
        rows.append(element("tr", [element("td", each) for each in facts]))
    heads = ("Procedure", "Count", "Complete", "Others", "Median time", "Longest")
    return _table(heads, rows, "Procedures")


def _table(heads: Sequence[str], rows: list[Markup], caption: str) -> Markup:
    table = element(
        "table",
        element("caption", caption),
        element("thead", element("tr", [element("th", head, scope="col") for head in heads])),
        element("tbody", rows),
    )
    return element("div", table, class_="scroll", tabindex="0", role="group", aria_label=caption)
