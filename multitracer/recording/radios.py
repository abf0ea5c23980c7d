"""The radios of a phone with several cards: each has a serving cell of its own."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from multitracer.tables import NA

if TYPE_CHECKING:
    from multitracer.tables import Table

_COLUMN = "modem"


def radios_of(*tables: Table) -> list[int]:
    """Return the numbers of the radios that tables name, that with most rows first."""
    numbers = np.concatenate([np.empty(0, np.int64), *(table[_COLUMN] for table in tables)])
    distinct, counts = np.unique(numbers[numbers != NA], return_counts=True)
    order = np.argsort(-counts, kind="stable")
    return [int(number) for number in distinct[order]]


def rows_of(table: Table, radio: int, *, unnamed: bool) -> Table:
    """Return the rows of one radio, with or without those that name none."""
    numbers = table[_COLUMN]
    mask = numbers == radio
    return table.take(mask | (numbers == NA) if unnamed else mask)


def each_radio(*tables: Table) -> list[tuple[Table, ...]]:
    """Return tables of a phone for each of its radios, that with most rows first.

    Rows that name none, such as answers of a modem beside its diagnostic log, go with the first.
    """
    radios = radios_of(*tables)
    if len(radios) < 2:
        return [tables]
    return [tuple(rows_of(table, radio, unnamed=radio == radios[0]) for table in tables) for radio in radios]
