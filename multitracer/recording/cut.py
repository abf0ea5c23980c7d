"""Cuts a recording to an interval of time, and warns if the interval holds no data."""

from __future__ import annotations

from typing import TYPE_CHECKING

from multitracer.errors import InputError
from multitracer.recording.window import EVERYTHING, within_both

if TYPE_CHECKING:
    from collections.abc import Sequence

    from multitracer.capture import CaptureTables
    from multitracer.recording.recording import Recording
    from multitracer.recording.window import Bounds, Window


def is_emptied(complete: Sequence[CaptureTables], parts: Sequence[CaptureTables]) -> bool:
    """Return whether a time window removed all segments, although the complete captures had some."""
    held, kept = (sum(len(tables.segments) for tables in each) for each in (complete, parts))
    return held > 0 and not kept


def cut_recording(recording: Recording, window: Window) -> tuple[Recording, Bounds]:
    """Return the recording with its captures cut to a time window, and the bounds of the window in ns.

    Logs that are parsed already stay parsed, and are not cut.

    Raises
    ------
    WindowError
        If the end is not after the start.
    InputError
        If the window is given in seconds, and no packet or reading exists to count them from.
    """
    bounds_ns = bounds_of(recording, window)
    cut = recording.without_captures()
    cut.bounds_ns = within_both(recording.bounds_ns, bounds_ns)
    parts = [capture.tables.between(*bounds_ns) for capture in recording.captures]
    for capture, tables in zip(recording.captures, parts, strict=True):
        cut.add(capture.point, tables)
    if is_emptied([capture.tables for capture in recording.captures], parts):
        cut.notes.append("no TCP segment lies between begin and end; all numbers are of an empty capture")
    return cut, bounds_ns


def bounds_of(recording: Recording, window: Window) -> Bounds:
    """Return the bounds of a window in ns; its seconds count from the first packet or reading."""
    if any(capture.tables.first_ns is not None for capture in recording.captures):
        return window.bounds_ns((capture.tables for capture in recording.captures), speed=recording.speed)
    first_ns = None if recording.captures else recording.radio_context().first_ns
    if window.is_relative and first_ns is None:
        raise InputError(
            f"{recording.name}: this recording contains no packet or reading, from which seconds "
            "could be counted; give ISO 8601 times"
        )
    return window.bounds_from(first_ns or 0, recording.speed)


def warn_of_empty(recording: Recording, window: Window) -> None:
    """Add a warning to the recording if the window contains no segment and no reading.

    The recording is not cut.
    """
    if window == EVERYTHING:
        return
    if not recording.captures:
        if not recording.radio_context().shown(bounds_of(recording, window)):
            recording.notes.append("no reading lies between --from and --to; what shows that time is empty")
        return
    complete = [capture.tables for capture in recording.captures]
    bounds_ns = window.bounds_ns(complete, speed=recording.speed)
    if is_emptied(complete, [tables.between(*bounds_ns) for tables in complete]):
        recording.notes.append("no TCP segment lies between --from and --to; what shows that time is empty")
