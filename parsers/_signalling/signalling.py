"""From the GSMTAP packets of one capture to `signalling`, `radio` and `handovers`."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from multitracer.schemas.radio import RADIO
from multitracer.schemas.signalling import HANDOVERS, SIGNALLING
from multitracer.tables import NA, NOT_A_TIME, Table
from multitracer.units import NS_PER_S
from multitracer.words import count, moment
from parsers._signalling.changes import KnownCell, SeenMessage, Tracker
from parsers._signalling.dissection import Dissection
from parsers._signalling.gsmtap import LOG, SIGNAL, Messages
from parsers._signalling.measurements import ScatLines, readings
from parsers._signalling.messages import names
from parsers._text.collector_log import Sparse

if TYPE_CHECKING:
    import os
    from collections.abc import Iterator, Sequence

    from multitracer.tables import Document, Numbers, Times
    from parsers._signalling.dissection import DissectedMessage
    from parsers._signalling.gsmtap import Message, Numbered
    from parsers._signalling.measurements import Reading
    from parsers._signalling.messages import Named


# Clock jumps in a diagnostic log: times before and after a jump cannot be compared.


_BACK_NS = 5 * NS_PER_S
"""Minimum backward step of a clock that was set, ns: a log contains messages of several tasks, and in our recordings
the packets of SCAT are up to 1 s out of order."""
_FORWARD_NS = 86_400 * NS_PER_S
"""Minimum forward step of a clock that was set, ns: a phone with a network logs a message every few hours."""
_FIRST_NETWORK_NS = 631_152_000 * NS_PER_S
"""1990-01-01, before GSM (1991): earlier times mean that the modem has not received the time yet."""
_SAME_NS = 3 * NS_PER_S // 2
"""Maximum difference of two jumps between the same two clocks; not measured."""
_MOST_SHOWN = 4


def stretches(time_ns: Times) -> Numbers:
    """Return the number of the clock by which each row's time was taken, from 0.

    It increases by 1 at each jump of the log's clock.

    Parameters
    ----------
    time_ns : ndarray of int64, ns since 1970, shape (n,)
        In the order of the log; NOT_A_TIME where missing, which is of the clock of the row before.

    Returns
    -------
    ndarray of int64, shape (n,)
    """
    known = np.flatnonzero(time_ns != NOT_A_TIME)
    number = np.zeros(len(time_ns), np.int64)
    if len(known) < 2:
        return number
    steps = np.diff(time_ns[known])
    jumps = (steps < -_BACK_NS) | (steps > _FORWARD_NS)
    jumps[_returns(steps)] = True
    number[known[1:][jumps]] = 1
    return np.cumsum(number)


def _returns(steps: Times) -> list[int]:
    """Return the indexes of the forward steps at which the log returns to an earlier clock.

    The tasks of a modem adopt a new clock one after the other, so a log can alternate between both
    clocks: between two jumps backwards by the same amount there is one forward.
    """
    back = np.flatnonzero(steps < -_BACK_NS)
    chosen = []
    for first, second in pairwise(back.tolist()):
        amount_ns = -int(steps[first])
        if abs(amount_ns + int(steps[second])) > _SAME_NS or second - first < 2:
            continue
        between = np.abs(steps[first + 1 : second] - amount_ns)
        if between.min() <= _SAME_NS:
            chosen.append(first + 1 + int(between.argmin()))
    return chosen


def without_network(time_ns: Times, clock: Numbers) -> Times:
    """Return the times; those that count from 1980 become NOT_A_TIME if other times of the log do not."""
    early = (time_ns != NOT_A_TIME) & (time_ns < _FIRST_NETWORK_NS)
    if not len(clock) or clock[-1] == 0 or early.all():
        return time_ns
    return np.where(early, NOT_A_TIME, time_ns)


def sentences(time_ns: Times, clock: Numbers) -> list[str]:
    """Return warnings about the clocks of the log; empty if there is only one clock, and it is right."""
    if not len(clock):
        return []
    count = int(clock[-1]) + 1
    early = int(np.count_nonzero((time_ns != NOT_A_TIME) & (time_ns < _FIRST_NETWORK_NS)))
    if count == 1:
        if not early:
            return []
        return [
            ("all times are relative (they count from 1980), because the modem had not yet received the network time")
        ]
    parts = []
    for number in range(min(count, _MOST_SHOWN)):
        of_it = time_ns[(clock == number) & (time_ns != NOT_A_TIME)]
        parts.append(f"{moment(int(of_it.min()))} to {moment(int(of_it.max()))}")
    more = f" and {count - _MOST_SHOWN} more" if count > _MOST_SHOWN else ""
    of_modem = (
        f"; {early:,} messages have no time, because the modem had not yet received the network time" if early else ""
    )
    jumps = "once" if count == 2 else f"{count - 1} times"
    sentence = (
        f"the times change {jumps} to another clock ({'; '.join(parts)}{more}); the column clock "
        "of the table signalling shows the clock of each message, and no handover is derived "
        f"across a change{of_modem}"
    )
    return [sentence]


_CELL_COLUMNS = {"LTE": ("lte_cell_id", 28, "lte_area", 16), "NR": ("nr_cell_id", 36, "nr_area", 24)}
"""Fields of SIB1 and their lengths in bits (TS 36.331 and TS 38.331, 6.3.4 and 6.3.2)."""
_BROADCASTS = ("SystemInformationBlockType1", "SIB1")


def read_signalling(*paths: str | os.PathLike[str], runs: Sequence[tuple[int, int]] = ()) -> dict[str, Table]:
    """Return the tables `signalling`, `radio` and `handovers` from the GSMTAP packets of a capture.

    Parameters
    ----------
    *paths : path
        A capture in a supported format, or several in order, whose packets are numbered consecutively;
        other packets are skipped. Without any path the tables are empty.
    runs : sequence of (int, int)
        Begin and end of each run of a program that wrote the capture from a log, ns: times in between are no times of
        the log.

    Returns
    -------
    dict of str to Table
        In the order of the capture. Their provenance counts messages that have no name (`unknown`, by
        GSMTAP type), malformed ones, and packets that were skipped, and holds further warnings.

    Raises
    ------
    PreflightError
        If tshark is not installed.
    InputError, UnknownFormatError, FormatError
        If the capture cannot be read.
    """
    messages = Messages(*paths, runs=runs)
    tables = tables_of(messages, {"source": ", ".join(map(str, paths)), "format": "gsmtap"})
    for table in tables.values():
        table.provenance["skipped"] = dict(messages.skipped)
        if messages.untimed:
            untimed = f"{count(messages.untimed, 'message')} without a time in the log: set to missing"
            table.provenance["warnings"] = [untimed, *table.provenance["warnings"]]
    return tables


def tables_of(messages: Messages | list[Numbered], provenance: Document) -> dict[str, Table]:
    """Return the tables `signalling`, `radio` and `handovers` of messages in the order of their log."""
    dissection = Dissection(messages)
    reader = _Reader()
    all_of_it = list(dissection)
    time_ns = np.array([each.numbered.time_ns for each in all_of_it], np.int64)
    clock = stretches(time_ns)
    shown_ns = without_network(time_ns, clock)
    for i, dissected in enumerate(all_of_it):
        reader.take(dissected, int(shown_ns[i]), int(clock[i]))
    warnings = [*dissection.warnings, *sentences(time_ns, clock), *reader.warnings()]
    facts = provenance | {
        "warnings": [*provenance.get("warnings", ()), *warnings],
        "messages": len(all_of_it),
        "program_lines": reader.lines,
        "unknown": dict(reader.unknown),
        "malformed": reader.malformed,
        "left_out": dissection.left_out,
    }
    return reader.tables(facts)


class _Reader:
    """Converts packets, one after the other, to rows of the three tables."""

    def __init__(self) -> None:
        self.unknown: Counter[str] = Counter()
        self.malformed = 0
        self.lines = 0
        self._messages = Sparse(SIGNALLING)
        self._radio = Sparse(RADIO)
        self._trackers: dict[int, Tracker] = {}
        self._lines: dict[int, ScatLines] = {}
        self._clock = 0

    def take(self, dissected: DissectedMessage, time_ns: int, clock: int) -> None:
        """Process a packet: its messages, or the line of a program's log.

        `clock` is the number of its clock.
        """
        if clock != self._clock:
            self._clock = clock
            for tracker in self._trackers.values():
                tracker.finish()
        numbered = dissected.numbered
        tracker = self._trackers.setdefault(numbered.modem, Tracker(numbered.modem))
        if numbered.message.type == LOG:
            self._take_line(numbered, tracker, time_ns)
            return
        if numbered.message.levels:
            self._append(_measured(numbered.message, tracker), time_ns, numbered)
        if numbered.message.version == 3 and numbered.message.type == SIGNAL:
            return
        self.malformed += "_ws.malformed" in dissected.values.get("protocols", "")
        for named in names(dissected, self.unknown):
            self._messages.append(_row(dissected, named, time_ns, clock))
            if named.layer not in ("rrc", "rr"):
                continue
            for reading in readings(dissected, named.name, named.rat):
                self._append(_placed(reading, dissected, tracker), time_ns, numbered)
            if time_ns != NOT_A_TIME:
                tracker.take(SeenMessage(time_ns, numbered.frame, named, dissected))

    def _take_line(self, numbered: Numbered, tracker: Tracker, time_ns: int) -> None:
        self.lines += 1
        reading = self._lines.setdefault(numbered.modem, ScatLines()).reading(numbered.message.text())
        if reading is None:
            return
        self._append(reading, time_ns, numbered)
        if time_ns != NOT_A_TIME:
            tracker.take_reading(reading, time_ns, numbered.frame)

    def _append(self, reading: Reading, time_ns: int, numbered: Numbered) -> None:
        place = {"time_ns": time_ns, "line": numbered.frame}
        modem = None if numbered.modem == NA else numbered.modem
        self._radio.append({**reading, **place, "modem": modem})

    def warnings(self) -> Iterator[str]:
        """Yield a warning for each kind of message that has no name."""
        if self.unknown:
            kinds = ", ".join(f"{name} {n:,}" for name, n in self.unknown.most_common())
            yield (f"tshark does not dissect {self.unknown.total():,} of the GSMTAP packets; their types: {kinds}")

    def tables(self, provenance: Document) -> dict[str, Table]:
        """Return the three tables by name, with rows in the order of the log."""
        handovers = Sparse(HANDOVERS)
        rows = [row for tracker in self._trackers.values() for row in tracker.rows()]
        for row in sorted(rows, key=_order):
            handovers.append(row)
        made = {SIGNALLING: self._messages, RADIO: self._radio, HANDOVERS: handovers}
        return {schema.name: Table(schema, rows.columns(), dict(provenance)) for schema, rows in made.items()}


def _order(row: dict[str, object]) -> int:
    line, complete = row["command_line"], row["complete_line"]
    assert isinstance(line, int)
    assert isinstance(complete, int)
    return line if line != NA else complete


def _row(dissected: DissectedMessage, named: Named, time_ns: int, clock: int) -> dict[str, object]:
    message = dissected.numbered.message
    is_contained = named.contained
    row: dict[str, object] = {
        "time_ns": time_ns,
        "frame": dissected.numbered.frame,
        "modem": dissected.numbered.modem,
        "rat": named.rat,
        "layer": named.layer,
        "direction": {True: "up", False: "down", None: ""}[message.uplink],
        "logical_channel": "" if is_contained else message.logical_channel,
        "message": named.name,
        "cause": named.cause,
        "cause_number": named.cause_number,
        "transaction": named.transaction,
        "bearer": named.bearer,
        "elements": named.elements,
        "physical_cell_id": NA if is_contained else message.physical_cell_id,
        "channel": NA if is_contained else message.channel,
        "clock": clock,
        "encrypted": named.encrypted,
    }
    if named.name in _BROADCASTS and named.rat in _CELL_COLUMNS:
        identity, bits, area, area_bits = _CELL_COLUMNS[named.rat]
        row |= {"cell_id": dissected.bits(identity, bits), "area_code": dissected.bits(area, area_bits)}
    return row


def _measured(message: Message, tracker: Tracker) -> Reading:
    """Return the levels that a packet's tags give of a cell, as a row of `radio`.

    Its cell serves if it is the known serving one. As long as none is known, the cell of a report that names the band
    serves: SCAT knows the band of that cell alone.
    """
    levels, serving = dict(message.levels), tracker.serving
    known = {"channel": message.channel, "physical_cell_id": message.physical_cell_id}
    reading = {"source": "GSMTAP", **levels, **{name: value for name, value in known.items() if value != NA}}
    if serving.rat and serving.rat == levels.get("rat", serving.rat):
        here = KnownCell(serving.rat, message.physical_cell_id, message.channel)
        reading["role"] = "serving" if serving.may_be(here) else "neighbour"
        if serving.may_be(here) and serving.cell_id != NA:
            reading["cell_id"] = serving.cell_id
    elif not serving.rat and "band" in levels:
        reading["role"] = "serving"
    return reading


def _placed(reading: Reading, dissected: DissectedMessage, tracker: Tracker) -> Reading:
    """Return a reading of a measurement report with the identity of the serving cell added, if known.

    The report itself does not name the serving cell.
    """
    if reading.get("role") != "serving" or "physical_cell_id" in reading:
        return reading
    message, serving = dissected.numbered.message, tracker.serving
    channel, cell = message.channel, message.physical_cell_id
    known = {"channel": channel, "physical_cell_id": cell}
    is_same = serving.rat == reading["rat"] and (channel == NA or serving.channel in (NA, channel))
    if is_same and cell in (NA, serving.physical_cell_id):
        known |= {"channel": channel if channel != NA else serving.channel}
        known |= {"physical_cell_id": serving.physical_cell_id, "cell_id": serving.cell_id}
    return {**reading, **{name: value for name, value in known.items() if value != NA}}
