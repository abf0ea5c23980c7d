"""The phones of a recording: what one host logged of its radio, and from it the cells that served.

A host with several logs of the radio (a modem asked by commands, and a diagnostic log) is one phone; one with
several cards is a phone for each, since each card has a serving cell of its own.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from multitracer.analysis.mobility.handovers import handovers_of, is_leg
from multitracer.analysis.mobility.stays import stays_of
from multitracer.mobility import JUDGED_HANDOVERS
from multitracer.radio import RADIO
from multitracer.recording.radios import each_radio
from multitracer.signalling import HANDOVERS
from multitracer.tables import NA, Table

if TYPE_CHECKING:
    from multitracer.analysis.mobility.stays import Stays
    from multitracer.recording.surroundings import Placed, Surroundings


@dataclass(frozen=True)
class Phone:
    """What one host logged of its radio.

    Attributes
    ----------
    host : str
    radio : Table
        RADIO of all its logs.
    signalling : Table
        HANDOVERS that its messages show, empty without them.
    paths : tuple of str
        The logs.
    """

    host: str
    radio: Table
    signalling: Table
    paths: tuple[str, ...]

    @cached_property
    def handovers(self) -> Table:
        """JUDGED_HANDOVERS: changes of the serving cell, by time."""
        return handovers_of(self.radio, self.signalling)

    @cached_property
    def changes(self) -> Table:
        """The handovers, and the legs of a dual connection or of an active set that came and went, by time.

        JUDGED_HANDOVERS; a leg has no verdict.
        """
        return self._with_legs(self.handovers)

    def changes_with(self, minimum_stay_s: float) -> Table:
        """Return `changes` with another minimum time of stay, in s: a shorter stay makes a ping-pong."""
        return self._with_legs(handovers_of(self.radio, self.signalling, minimum_stay_s=minimum_stay_s))

    def _with_legs(self, handovers: Table) -> Table:
        legs = self.signalling.take(is_leg(self.signalling))
        no_verdict = Table.empty(JUDGED_HANDOVERS) if not len(legs) else _unjudged(legs)
        both = Table.concatenate(JUDGED_HANDOVERS, [handovers, no_verdict])
        return both.take(np.argsort(both["time_ns"], kind="stable"))

    @cached_property
    def stays(self) -> Stays:
        """STAYS: which cell served at which time."""
        return stays_of(self.radio, self.handovers)


def phones_of(surroundings: Surroundings) -> list[Phone]:
    """Return the phones of a recording, the one with most readings first."""
    radio, orders = surroundings.radio, surroundings.logged(HANDOVERS.name)
    hosts = dict.fromkeys(placed.host for placed in (*radio, *orders))
    phones = []
    for host in hosts:
        tables = _together(radio, host, Table.empty(RADIO)), _together(orders, host, Table.empty(HANDOVERS))
        paths = tuple(dict.fromkeys(placed.path for placed in (*radio, *orders) if placed.host == host))
        phones += [Phone(host, radio_of, orders_of, paths) for radio_of, orders_of in each_radio(*tables)]
    return sorted(phones, key=lambda phone: -len(phone.radio) - len(phone.signalling))


def _unjudged(legs: Table) -> Table:
    """Return HANDOVERS as JUDGED_HANDOVERS without a verdict."""
    rows = len(legs)
    missing = {
        "ping_pong": np.full(rows, NA, np.int8),
        "stay_least_s": np.full(rows, np.nan),
        "stay_most_s": np.full(rows, np.nan),
        "verdict": np.full(rows, "", "U10"),
        "verdict_reason": np.full(rows, "no change of the serving cell", "U64"),
    }
    return Table(JUDGED_HANDOVERS, legs.columns | missing)


def _together(logs: list[Placed], host: str, empty: Table) -> Table:
    tables = [placed.table for placed in logs if placed.host == host]
    return Table.concatenate(empty.schema, tables) if tables else empty
