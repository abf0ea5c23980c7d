"""What a session keeps in memory, so that a second call costs nothing."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

from multitracer.diagnosis.diagnose import Diagnosis, diagnose, explain
from multitracer.diagnosis.transfer import Transfer

if TYPE_CHECKING:
    from multitracer.recording.layers import Layers
    from multitracer.recording.recording import Recording
    from multitracer.recording.window import Bounds

_TRANSFERS = 8
"""So many connections' logs and answers are kept: a loop over ten thousand must not fill the memory."""


class Kept:
    """A recording, with the results for the connections that were used last.

    Parameters
    ----------
    recording : Recording
    bounds_ns : (int or None, int or None)
        Of the tables of its logs, whose captures may be cut already.
    """

    def __init__(self, recording: Recording, bounds_ns: Bounds = (None, None)) -> None:
        self._recording = recording
        self._bounds_ns = bounds_ns
        self._transfer = lru_cache(_TRANSFERS)(self._read_transfer)
        self._diagnosis = lru_cache(_TRANSFERS)(self._diagnose)

    def _read_transfer(self, connection: int | None, reverse: bool | None) -> Transfer:
        return Transfer.of(self._recording, connection, reverse=reverse)

    def _diagnose(self, connection: int | None, reverse: bool | None) -> Diagnosis:
        if connection is None and reverse is None and len(self._recording) > 1:
            return explain(self._recording)
        return diagnose(self._transfer(connection, reverse))

    def _layers(self, connection: int | None, reverse: bool | None) -> Layers:
        return self._transfer(connection, reverse).layers
