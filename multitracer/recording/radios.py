"""The radios of a phone with several SIM cards: each radio has its own serving cell."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from multitracer.tables import NA

if TYPE_CHECKING:
    from multitracer.tables import Table

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
