"""The connections that ended: rows in files without a name, by their numbers; memory holds none of them."""

from __future__ import annotations

import tempfile
from typing import TYPE_CHECKING

import numpy as np

from multitracer.errors import InputError
from multitracer.tables import FLOWS, Table
from multitracer.tcp import CONNECTIONS, DIRECTIONS

if TYPE_CHECKING:
    from multitracer.analysis.streaming.open_connections import Ended
    from multitracer.tables import Array, Schema


class EndedConnections:
    """CONNECTIONS, DIRECTIONS and FLOWS on disk; they vanish with the process."""

    def __init__(self) -> None:
        self._connections, self._flows = _Rows(CONNECTIONS), _Rows(FLOWS)
        self._directions = _Rows(DIRECTIONS, each=2)

    def add(self, ended: Ended) -> None:
        """Write connections that ended, in the order of their numbers, each to its place.

        Raises
        ------
        InputError
            If the disk is full.
        """
        number = ended.connections["connection"].astype(np.int64)
        try:
            for rows, table in (
                (self._connections, ended.connections),
                (self._directions, ended.directions),
                (self._flows, ended.flows),
            ):
                rows.write(table, number)
        except OSError as error:
            raise InputError(
                f"{tempfile.gettempdir()}: {error.strerror or error}; the connections that ended are kept "
                "there: make room, or set TMPDIR to another folder"
            ) from error

    def close(self) -> None:
        """Forget what was written, but not what was handed out."""
        for rows in (self._connections, self._directions, self._flows):
            rows.close()

    def tables(self) -> tuple[Table, Table, Table]:
        """Return CONNECTIONS, DIRECTIONS and FLOWS; what is not looked at stays on the disk."""
        connections, directions = self._connections.table(), self._directions.table()
        own = connections["forward_flow"] & 1
        connections.columns["forward_flow"] = (2 * np.arange(len(own)) + own).astype(np.int32)
        return connections, directions, self._flows.table()


class _Rows:
    """Rows of one schema in a file, so many for each connection."""

    def __init__(self, schema: Schema, *, each: int = 1) -> None:
        self._schema, self._each = schema, each
        self._dtype = np.dtype([(column.name, column.dtype) for column in schema])
        self._file = tempfile.TemporaryFile(prefix="multitracer-")  # noqa: SIM115  # as long as the tables
        self._count = 0

    def write(self, table: Table, number: Array) -> None:
        """Write the rows of connections with these numbers (from 1, ascending)."""
        if not len(number):
            return
        rows = np.empty(len(table), self._dtype)
        for name in self._schema.names:
            rows[name] = table[name]
        for run in np.split(np.arange(len(number)), np.flatnonzero(np.diff(number) != 1) + 1):
            self._file.seek((int(number[run[0]]) - 1) * self._each * self._dtype.itemsize)
            self._file.write(rows[run[0] * self._each : (run[-1] + 1) * self._each].data)
        self._count = max(self._count, int(number[-1]) * self._each)

    def close(self) -> None:
        """Close the file; a table that was returned stays."""
        self._file.close()

    def table(self) -> Table:
        """Return all rows."""
        self._file.flush()
        rows: Array = np.empty(0, self._dtype)
        if self._count:
            rows = np.memmap(self._file, self._dtype, "r", shape=(self._count,))
        return Table(self._schema, {name: rows[name] for name in self._schema.names})
