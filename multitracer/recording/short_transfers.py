"""Many transfers of one capture: what is known of the short ones is computed together.

Computed alone, a connection of ten segments takes as long as one of a thousand: hundreds of short connections, of a
web page or a flood, would take seconds.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from multitracer.analysis.verdicts import judge_all
from multitracer.recording.transfer import Transfer
from multitracer.tables import NA

if TYPE_CHECKING:
    from collections.abc import Sequence

    from multitracer.recording.capture import Capture
    from multitracer.recording.recording import Recording
    from multitracer.tables import Array, Table

_FEWEST = 8
"""Minimum number of short connections that are computed together; of fewer it takes as long. Not measured."""
_SHORT = 1_000
"""Maximum segments of a short connection: above, the time that each segment takes is larger than the rest.
Measured with connections of equal length: 1.9 ms for one of 10 segments, and 2.1 ms for one of 1,000."""


def transfers_of(recording: Recording, capture: Capture, rows: Sequence[int]) -> list[Transfer]:
    """Return the transfers of connections of a capture, each in the direction with more bytes.

    Parameters
    ----------
    recording : Recording
    capture : Capture
    rows : sequence of int
        Rows of the connections in the capture's table, from 0.
    """
    segments = capture.analysis.connections["segments"]
    short = np.array(sorted(row for row in rows if segments[row] <= _SHORT), dtype=np.int64)
    transfers: dict[int, Transfer] = {}
    if len(short) >= _FEWEST and is_alone(recording, capture):
        for own, table, sacks, bounds in capture.analysis.prepare(short):
            here = [Transfer.of(recording, capture.offset + row + 1) for row in own.tolist()]
            side = 2 * np.arange(len(own)) + np.array([each.reverse for each in here])
            vantage = np.array([each.vantage for each in here], dtype=np.uint8)
            verdicts = _split(judge_all(table, sacks, bounds, side, vantage), bounds)
            for row, transfer, judged in zip(own.tolist(), here, verdicts, strict=True):
                transfers[row] = replace(transfer, judged=judged)
    return [transfers.get(row) or Transfer.of(recording, capture.offset + row + 1) for row in rows]


def is_alone(recording: Recording, capture: Capture) -> bool:
    """Return whether a capture is the only log of the recording."""
    return not recording.inputs.listed and all(other is capture or not len(other) for other in recording.captures)


def _split(verdicts: Table, bounds: Array) -> list[Table]:
    """Return the verdicts on each connection, with the rows of its own table."""
    connection = np.searchsorted(bounds, verdicts["row"], side="right") - 1
    order = np.argsort(connection, kind="stable")
    ends = np.searchsorted(connection[order], np.arange(len(bounds)))
    tables = []
    for begin, first, last in zip(bounds[:-1].tolist(), ends[:-1].tolist(), ends[1:].tolist(), strict=True):
        own = verdicts.take(order[first:last])
        for name in ("row", "earlier_row", "answer_row"):
            own.columns[name] = np.where(own[name] == NA, NA, own[name] - begin)
        tables.append(own)
    return tables
