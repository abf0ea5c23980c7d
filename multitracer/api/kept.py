"""The cache of a session's results, so that a second call takes no time."""

from __future__ import annotations

from functools import cached_property, lru_cache
from typing import TYPE_CHECKING

from multitracer.diagnosis.diagnose import diagnose, explain
from multitracer.diagnosis.drive import Drive
from multitracer.recording.quantities import Quantities
from multitracer.recording.radio_context import RadioContext
from multitracer.recording.transfer import Transfer

if TYPE_CHECKING:
    from multitracer.diagnosis.diagnosis import Diagnosis
    from multitracer.recording.recording import Recording
    from multitracer.recording.window import Bounds

if TYPE_CHECKING:
    lazy_property = cached_property
else:

    class lazy_property(property):  # noqa: N801  # used as `property` and `cached_property` are
        """A public property that is computed once.

        Completion in a Python prompt computes every `cached_property` of an object to learn what it is (all tables
        of a drive took 20 s), but no `property`.
        """

        def __set_name__(self, owner: type, name: str) -> None:
            self._name = name

        def __get__(self, instance: object, owner: type | None = None) -> object:
            if instance is None:
                return self
            if self._name not in instance.__dict__:
                instance.__dict__[self._name] = super().__get__(instance, owner)
            return instance.__dict__[self._name]


_TRANSFERS = 8
"""Maximum number of cached transfers, so that a loop over 10,000 connections does not fill the memory."""


class Kept:
    """A recording, with cached results for the most recently used connections.

    Parameters
    ----------
    recording : Recording
    bounds_ns : (int or None, int or None)
        Begin and end for the tables of logs; captures may already be cut to these bounds.
    """

    def __init__(self, recording: Recording, bounds_ns: Bounds = (None, None)) -> None:
        self._recording = recording
        self._bounds_ns = bounds_ns
        self._transfer = lru_cache(_TRANSFERS)(self._read_transfer)
        self._diagnosis = lru_cache(_TRANSFERS)(self._diagnose)

    @cached_property
    def _radio_context(self) -> RadioContext:
        captures = self._recording.captures
        return RadioContext(self._recording, captures[0].point.name if captures else None, self._bounds_ns)

    @cached_property
    def _drive(self) -> Drive:
        """The session as a drive; without a phone, nothing is diagnosed for it."""
        here = Drive(self._radio_context)
        return self._explained_drive if here.phones else here

    @cached_property
    def _explained_drive(self) -> Drive:
        """The drive, with the diagnosis of its largest connection if the packets have times."""
        if not len(self._recording) or self._transfer(None, None).without_time:
            return Drive(self._radio_context)
        diagnosis = self._diagnosis(None, None)
        point = diagnosis.transfer.at_sender.host
        return Drive(RadioContext(self._recording, point, self._bounds_ns), diagnosis)

    def _quantities(self, connection: int | None = None) -> Quantities:
        """Return the quantities of the recording over time, by name."""
        return Quantities(self._recording, connection, bounds_ns=self._bounds_ns)

    def _read_transfer(self, connection: int | None, reverse: bool | None) -> Transfer:
        return Transfer.of(self._recording, connection, reverse=reverse)

    def _diagnose(self, connection: int | None, reverse: bool | None) -> Diagnosis:
        if connection is None and reverse is None and len(self._recording) > 1:
            return explain(self._recording)
        return diagnose(self._transfer(connection, reverse), both=reverse is None)
