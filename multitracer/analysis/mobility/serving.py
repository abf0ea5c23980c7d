"""The readings of the serving cell, sorted by time, and the cell identity in each reading.

Neighbour cells and secondary cells (carrier aggregation, the NR leg of EN-DC) are not serving cells.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from multitracer.analysis.mobility.series import chunks_of, overtaken
from multitracer.readings import known_cell_id
from multitracer.tables import NA, NOT_A_TIME
from multitracer.units import NS_PER_S

if TYPE_CHECKING:
    from multitracer.tables import Array, Mask, Numbers, Table, Times

FAMILY = {
    "GSM": "GSM", "EDGE": "GSM", "UMTS": "UMTS", "HSPA": "UMTS", "CDMA": "CDMA", "EVDO": "CDMA",
    "LTE": "LTE", "NB-IoT": "LTE", "NR": "NR", "CDPD": "CDPD", "BT": "BT",
}  # fmt: skip
"""Technologies of one family: the modem changes the name with the traffic, within one cell."""
GENERATION = {
    "GSM": 2, "EDGE": 2, "CDMA": 2, "UMTS": 3, "HSPA": 3, "EVDO": 3, "LTE": 4, "NR": 5,
}  # fmt: skip
"""Generation of each technology, as operators count. NB-IoT is not an older LTE, and CDPD and Bluetooth have no
generation."""
_ANNOUNCEMENTS = ("+CREG", "+CGREG", "+CEREG", "+C5GREG")
"""Messages in which a modem announces a new cell unasked (TS 27.007, 7.2, 10.1.20, 10.1.22 and 10.1.47)."""
_GAP_NS = 10 * NS_PER_S
"""Minimum length of a gap, ns: as long as a reading is valid in `cells.py`. Not measured."""
_GAP_MEDIANS = 5  # some lost answers of a modem that is asked slowly are no gap. Not measured


@dataclass(frozen=True)
class Serving:
    """The rows of RADIO that describe the serving cell.

    Attributes
    ----------
    radio : Table
        RADIO.
    rows : ndarray of int64, shape (n,)
        Rows of `radio`, sorted by time.
    """

    radio: Table
    rows: Numbers

    @classmethod
    def of(cls, radio: Table) -> Serving:
        """Return the readings of the serving cell (`is_serving`); rows without a time are ignored.

        A modem may announce a new cell in the middle of an answer that it began in the old cell. So of two
        readings with equal times the announcement is the later one. Of two announcements the later one is
        that of the new cell, because the answer to AT+CREG? has the same form.
        """
        known = (radio["time_ns"] != NOT_A_TIME) & ~overtaken(radio["time_ns"], chunks_of(radio))
        rows = np.flatnonzero(is_serving(radio) & known)
        announced = np.isin(radio["source"][rows], _ANNOUNCEMENTS)
        return cls(radio, _old_cell_first(radio, rows[np.lexsort([announced, radio["time_ns"][rows]])]))

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, column: str) -> Array:
        return self.radio[column][self.rows]

    @cached_property
    def time_ns(self) -> Times:
        """Best estimate of the time of each reading, ns."""
        return np.asarray(self["time_ns"])

    @cached_property
    def chunk(self) -> Numbers:
        """Number of the block of each reading in its log; within a block the clock never steps backwards."""
        return np.asarray(chunks_of(self.radio)[self.rows])

    @cached_property
    def gaps(self) -> Numbers:
        """Position of the last reading before each gap of the log: a time without any reading of the radio.

        A gap is longer than 10 s and five times the median distance of readings. So a restarted collector
        leaves a gap, and a router that is asked once a minute does not.
        """
        all_ns = np.sort(self.radio["time_ns"][self.radio["time_ns"] != NOT_A_TIME])
        apart = np.diff(all_ns)
        if not len(apart) or not len(self):
            return np.empty(0, dtype=np.int64)
        begin_ns = all_ns[np.flatnonzero(apart > max(_GAP_NS, _GAP_MEDIANS * float(np.median(apart))))]
        last = np.searchsorted(self.time_ns, begin_ns, side="right") - 1
        return np.unique(last[(last >= 0) & (last < len(self) - 1)])

    @cached_property
    def is_named(self) -> Mask:
        """Whether each reading identifies the cell."""
        return np.asarray(self.known("cell_id") | (self.physical >= 0))

    @cached_property
    def family(self) -> Array:
        """Technology family of each reading, for example "LTE", independent of the traffic; "" if unknown."""
        names, index = np.unique(self["rat"], return_inverse=True)
        return np.array([FAMILY.get(name, name) for name in names.tolist()], dtype="U8")[index]

    @cached_property
    def generation(self) -> Array:
        """Generation of the technology, float64: 2 to 5; NaN where it was not read."""
        names, index = np.unique(self["rat"], return_inverse=True)
        number = np.array([GENERATION.get(name, np.nan) for name in names.tolist()], dtype=np.float64)
        return np.asarray(np.where(self.technology_known, number[index], np.nan))

    @cached_property
    def cell_id(self) -> Numbers:
        """Cell identity of each reading; NA where the modem reported its value for "unknown"."""
        cell = self["cell_id"]
        return np.asarray(np.where(known_cell_id(cell, self["rat"]), cell, NA))

    @cached_property
    def physical(self) -> Numbers:
        """Physical cell and channel as one number, NA where one of them was not read.

        For a log without any channel, the physical cell alone.
        """
        physical, channel = self["physical_cell_id"], self["channel"]
        if not (channel >= 0).any():
            return np.asarray(np.maximum(physical, NA))
        known = (physical >= 0) & (channel >= 0)
        _, cells = np.unique(physical, return_inverse=True)
        names, channels = np.unique(channel, return_inverse=True)
        return np.asarray(np.where(known, cells * len(names) + channels, NA))

    @cached_property
    def technology_known(self) -> Mask:
        """Whether each reading is from the command that reports the technology most often, and reports it.

        Two commands may report different things: one the bearer, the other the capability of the cell.
        """
        known = self.family != ""
        sources, number = np.unique(self["source"], return_inverse=True)
        counts = np.bincount(number[known], minlength=max(len(sources), 1))
        return np.asarray(known & (number == counts.argmax()))

    def known(self, column: str) -> Mask:
        """Return in which readings the column `column` of the cell identity is known: bool."""
        values = self.identity(column)
        return np.asarray(values != "" if values.dtype.kind == "U" else values >= 0)

    def identity(self, column: str) -> Array:
        """Return the column `column` of the cell identity; values that mean "unknown" are replaced by NA."""
        return self.cell_id if column == "cell_id" else self[column]


def is_serving(radio: Table) -> Mask:
    """Return which rows of RADIO describe the serving cell; bool, shape (n_rows,).

    These are the rows with the role of serving cell, and the rows without a role. An exception are rows of
    one report that lists several cells of one technology without a role: a UMTS report lists all cells of the
    active set and does not show which one serves.
    """
    role, physical = radio["role"], radio["physical_cell_id"]
    open_rows = np.flatnonzero((role == "") & (physical >= 0))
    _, rat = np.unique(radio["rat"][open_rows], return_inverse=True)
    line = radio["line"][open_rows].astype(np.int64)
    statement = np.column_stack([line, radio["time_ns"][open_rows], rat.reshape(-1)])
    _, number = np.unique(statement, axis=0, return_inverse=True)
    number = number.reshape(-1)
    minimum = np.full(len(open_rows), np.iinfo(np.int64).max)
    most = np.full(len(open_rows), NA)
    np.minimum.at(minimum, number, physical[open_rows])
    np.maximum.at(most, number, physical[open_rows])
    serving = (role == "serving") | (role == "")
    serving[open_rows[(minimum != most)[number]]] = False
    return np.asarray(serving)


def _old_cell_first(radio: Table, rows: Numbers) -> Numbers:
    """Return the rows with equal times reordered: the cell that served before this time comes first."""
    cell = radio["cell_id"][rows]
    known = np.flatnonzero(cell != NA)
    time = radio["time_ns"][rows][known]
    first = np.flatnonzero(np.append(True, time[1:] != time[:-1])[: len(time)])
    last = np.append(first[1:], len(time))
    if not len(first):
        return rows
    minimum, most = (extreme.reduceat(cell[known], first) for extreme in (np.minimum, np.maximum))
    ordered = rows.copy()
    for group in np.flatnonzero((minimum != most) & (first > 0)).tolist():
        places = known[first[group] : last[group]]
        before = cell[known[first[group] - 1]]
        ordered[places] = rows[places[np.argsort(cell[places] != before, kind="stable")]]
        cell[places] = radio["cell_id"][ordered[places]]
    return ordered
