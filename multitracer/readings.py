"""Which readings of a modem or a GPS receiver belong to an interval of time, such as a transaction.

The readings within the interval belong to it. If there are none, the nearest one does, before or after it, unless it
is further away than `MOST_AGE_S`: a value that old says nothing about the interval, and is missing.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from multitracer.units import NOT_A_TIME, NS_PER_S

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import ArrayLike

    from multitracer.tables import Array, Mask, Numbers, Times

MOST_AGE_S = 2.0
"""Maximum distance of a reading from an interval, s: two polls of a modem that is asked once a second, as in paper
000. Not measured."""
MODEM, GPS_RECEIVER = "modem", "GPS receiver"
NOT_NEAR = f"no reading within {MOST_AGE_S:g} s"
"""Why an interval has no value: no reading of the quantity is near."""
NOT_REPORTED = "the modem did not report it"
"""Why no interval has a value of a quantity of the radio: no reading of the modem has one."""


def not_recorded(device: str) -> str:
    """Return why nothing is known of a quantity: there is no log of its device."""
    return f"no {device} was recorded"


@dataclass(frozen=True)
class Nearest:
    """The readings that belong to each of some intervals.

    Attributes
    ----------
    time_ns : ndarray of int64, ns, shape (n_readings,)
        Times of the readings, ascending.
    begin_ns, end_ns : ndarray of int64, ns, shape (n,)
        The intervals; both ends belong to them.
    most_age_ns : int
        Maximum distance of a reading from an interval.
    """

    time_ns: Times
    begin_ns: Times
    end_ns: Times
    most_age_ns: int = round(MOST_AGE_S * NS_PER_S)

    @cached_property
    def first(self) -> Numbers:
        """Index of the first reading that is not before each interval."""
        return np.searchsorted(self.time_ns, self.begin_ns)

    @cached_property
    def count(self) -> Numbers:
        """Number of readings within each interval."""
        return np.searchsorted(self.time_ns, self.end_ns, "right") - self.first

    @cached_property
    def at(self) -> Numbers:
        """Index of one reading for each interval: the nearest to its middle, or if none is within, the nearest to it.

        -1 without any reading. Of two readings that are equally near, the earlier one is used.
        """
        if not len(self.time_ns):
            return np.full(len(self.begin_ns), -1)
        middle = np.where(self.count > 0, self.begin_ns + (self.end_ns - self.begin_ns) // 2, self.begin_ns)
        low, high = np.where(self.count > 0, (self.first, self.first + self.count - 1), (self.first - 1, self.first))
        after = np.clip(np.searchsorted(self.time_ns, middle), low, high)
        before = np.maximum(np.clip(after - 1, low, high), 0)
        after = np.minimum(after, len(self.time_ns) - 1)
        far = (self._distance_ns(before, middle), self._distance_ns(after, middle))
        return np.where(far[0] <= far[1], before, after)

    def _distance_ns(self, at: Numbers, middle: Times) -> Times:
        """Return the distance of readings from the middles, or for an interval without readings from its ends."""
        beyond = np.maximum(self.begin_ns - self.time_ns[at], self.time_ns[at] - self.end_ns)
        return np.asarray(np.where(self.count > 0, np.abs(self.time_ns[at] - middle), beyond))

    @cached_property
    def age_ns(self) -> Times:
        """How long before the begin the reading was, ns: 0 within the interval; below 0 after it, since its end.

        NOT_A_TIME without any reading.
        """
        if not len(self.time_ns):
            return np.full(len(self.begin_ns), NOT_A_TIME)
        time_ns = self.time_ns[self.at]
        outside = np.where(time_ns < self.begin_ns, self.begin_ns - time_ns, self.end_ns - time_ns)
        return np.asarray(np.where(self.count > 0, 0, outside))

    @cached_property
    def is_near(self) -> Mask:
        """Whether an interval has a reading that is within it or near enough; bool, shape (n,)."""
        return np.asarray((self.age_ns != NOT_A_TIME) & (np.abs(self.age_ns) <= self.most_age_ns))

    def mean(self, values: Array) -> Array:
        """Return the mean of the values within each interval, else the nearest value; NaN where none is near.

        Parameters
        ----------
        values : ndarray of float64, shape (n_readings,)
        """
        means = self.one(values)
        for row in np.flatnonzero(self.count > 1):
            means[row] = values[self.first[row] : self.first[row] + self.count[row]].mean()
        return means

    def one(self, values: Array) -> Array:
        """Return the value of the reading `at` for each interval; NaN, or an empty text, where none is near.

        Parameters
        ----------
        values : ndarray of float64 or text, shape (n_readings,)
        """
        chosen = np.full(len(self.begin_ns), "" if values.dtype.kind == "U" else np.nan, values.dtype)
        chosen[self.is_near] = values[self.at[self.is_near]]
        return chosen


IDENTITY = ("cell_id", "physical_cell_id", "channel")
"""Columns of RADIO that can name a cell, the best one first."""
_NO_CELL = (0x0FFF_FFFF, 0x7FFF_FFFF)
"""Values that mean an unknown cell identity: all 28 bits set, as modems write it, and Android's CellInfo.UNAVAILABLE.
"""
_NO_CELL_GSM = 0xFFFF  # all 16 bits of a GSM cell identity (TS 24.008, 10.5.1.1) set
_GSM = ("GSM", "EDGE")


def known_cell_id(cell_id: ArrayLike, rat: ArrayLike) -> Mask:
    """Return which cell identities are known: no modem's value for "unknown" in that technology.

    Parameters
    ----------
    cell_id : int, or ndarray of int64, shape (n,)
        Below 0 if it was not read.
    rat : str, or ndarray of str, shape (n,)
        As the column of RADIO.
    """
    cell = np.asarray(cell_id)
    no_gsm: Mask = np.isin(rat, _GSM) & (cell == _NO_CELL_GSM)
    return np.asarray((cell >= 0) & ~np.isin(cell, _NO_CELL) & ~no_gsm)


def cell_words(reading: Mapping[str, object]) -> str:
    """Return the name of the cell in a reading, from the best of its identifiers; empty without any.

    Parameters
    ----------
    reading : mapping of str to object
        Values by column of RADIO; a value that is unknown is missing, None, negative, or what modems write for it
        (`known_cell_id`).
    """
    known = {
        name: int(value) for name in IDENTITY if isinstance(value := reading.get(name), int | np.integer) and value >= 0
    }
    if "cell_id" in known and known_cell_id(known["cell_id"], str(reading.get("rat"))):
        return f"cell {known['cell_id']}"
    if "physical_cell_id" in known:
        channel = f", channel {known['channel']}" if "channel" in known else ""
        return f"PCI {known['physical_cell_id']}{channel}"
    return f"channel {known['channel']}" if "channel" in known else ""
