"""Reads and analyses captures by both paths, the native kernel and Python; says where answers differ."""

from __future__ import annotations

import os
from contextlib import contextmanager
from dataclasses import fields, replace
from hashlib import blake2b
from pathlib import Path
from typing import TYPE_CHECKING
from unittest.mock import patch

import numpy as np

from multitracer.analysis import analyse
from multitracer.analysis.running import RunningAnalysis
from multitracer.analysis.segments import in_chunks
from multitracer.capture import CaptureTables
from multitracer.errors import MultiTracerError
from multitracer.logs import Point
from multitracer.native import VARIABLE, kernel
from multitracer.recording.inputs import UNREADABLE, Inputs
from multitracer.recording.read import Need, read, with_segments
from multitracer.recording.recording import look_inside
from multitracer.schemas.tcp import TCP_SEGMENTS
from multitracer.tables import Table
from parsers._chunks import complete_capture

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from multitracer.analysis import Analysis
    from multitracer.recording.recording import Recording

Read = "Callable[[], CaptureTables]"
_FEW = 4
"""Each connection is another reading of the file, or walked over alone."""
_TABLES = ("segments", "flows", "sack_blocks", "syn_options")


@contextmanager
def python_only() -> Iterator[None]:
    """Turn the native kernel off."""
    before = os.environ.get(VARIABLE)
    os.environ[VARIABLE] = "0"
    try:
        yield
    finally:
        os.environ.pop(VARIABLE)
        if before is not None:
            os.environ[VARIABLE] = before


def read_by_both(reading: Callable[[], CaptureTables]) -> CaptureTables | str:
    """Return what the native path reads, or the sentence of its refusal, after comparing it with Python's.

    Raises
    ------
    AssertionError
        If the two differ, in values, types, order of counts, or words.
    """
    native = _outcome(reading)
    with python_only():
        python = _outcome(reading)
    assert_equal(native, python)
    return native


def _outcome(reading: Callable[[], CaptureTables]) -> CaptureTables | str:
    try:
        return reading()
    except MultiTracerError as error:
        return f"{type(error).__name__}: {error}"


def assert_equal(native: CaptureTables | str, python: CaptureTables | str) -> None:
    """Compare two captures, or the sentences of two refusals."""
    if isinstance(native, str) or isinstance(python, str):
        assert native == python
        return
    for one, two in zip(native.files, python.files, strict=True):
        for each in fields(one):
            assert repr(getattr(one, each.name)) == repr(getattr(two, each.name)), each.name
    for name in _TABLES:
        for column, values in getattr(native, name).columns.items():
            expected = getattr(python, name)[column]
            assert values.dtype == expected.dtype, f"{name}.{column}"
            assert values.tobytes() == expected.tobytes(), f"{name}.{column}: {values} for {expected}"


def analyse_by_both(capture: CaptureTables) -> Analysis:
    """Return what the native path counts of a capture, after comparing it with Python's, bit for bit.

    Raises
    ------
    AssertionError
        If the two differ in a value of a connection, a direction or a segment, or in what is said of the
        capture.
    """
    native = analyse(capture)
    with python_only():
        python = analyse(capture)
        expected, of_each = segments_of(python), tables_of_each(python)
    assert_same(native, python)
    assert_same_table(segments_of(native, long=1 + len(native.connections) // 1000), expected)
    for one, two in zip(tables_of_each(native), of_each, strict=True):
        assert_same_table(one, two)
    return native


def tables_of_each(analysis: Analysis) -> list[Table]:
    """Return what is told of the segments of some connections; the kernel gets each alone, however short."""
    with patch.object(in_chunks, "LONG", 1):
        numbers = range(1, min(len(analysis.connections), _FEW) + 1)
        ways = (analysis.tcp_segments, analysis.rtt_samples, analysis.sack_blocks)
        return [way(number) for number in numbers for way in ways]


def analysed_before(capture: CaptureTables, before: Analysis) -> Analysis:
    """Return the analysis of a capture whose segments `analyse_by_both` has met; its trust is compared anew.

    Only that follows from more of the file's facts than `what_is_analysed` holds.
    """
    native = replace(before, capture=capture)
    with python_only():
        expected = replace(before, capture=capture).trust
    assert native.trust == expected
    return native


def what_is_analysed(capture: CaptureTables) -> bytes:
    """Return a digest of all of a capture that its connections, directions and segments follow from."""
    digest = blake2b(repr([(file.interfaces, file.without_time) for file in capture.files]).encode())
    for name in _TABLES:
        for values in getattr(capture, name).columns.values():
            digest.update(values.tobytes())
    return digest.digest()


def segments_of(analysis: Analysis, *, long: int = 1) -> Table:
    """Return TCP_SEGMENTS of all connections; those of `long` segments or more the kernel gets alone."""
    with patch.object(in_chunks, "LONG", long):
        rows = 7 + len(analysis.capture.segments) // 100
        chunks = analysis.segments_in_chunks(np.arange(len(analysis.connections)), rows)
        numbers, tables = zip(*chunks, strict=True) if len(analysis.connections) else ((), ())
    assert (np.diff(np.concatenate([[0], *numbers])) >= 0).all()
    return Table.concatenate(TCP_SEGMENTS, list(tables))


def assert_same_table(one: Table, two: Table) -> None:
    """Compare the columns of two tables, bit for bit."""
    for column, values in one.columns.items():
        expected = two[column]
        name = f"{one.schema.name}.{column}"
        assert values.dtype == expected.dtype, name
        assert values.tobytes() == expected.tobytes(), f"{name}: {values} for {expected}"


def assert_same(one: Analysis, two: Analysis) -> None:
    """Compare two analyses, bit for bit."""
    assert_same_table(one.connections, two.connections)
    assert_same_table(one.directions, two.directions)
    assert one.trust == two.trust


def counted_alike(path: str, capture: CaptureTables, analysis: Analysis) -> bool:
    """Compare what is told of a file that the kernel counts by itself with what all of its segments tell.

    Returns
    -------
    bool
        Whether the kernel could.
    """
    try:
        recording = read(Inputs(Path(path).name, [Point(path, (path,))]), need=Need.NUMBERS)
    except UNREADABLE:  # a record that is in no file of its own
        return False
    (part,) = recording.captures
    if is_counted(recording):
        assert_same(part.analysis, analysis)
        assert repr(part.tables.files) == repr(capture.files)
    return is_counted(recording)


def is_counted(recording: Recording) -> bool:
    """Return whether the kernel counted a recording of one capture while it was read."""
    return recording.captures[0].known is not None


def kept_alike(path: str, capture: CaptureTables) -> bool:
    """Compare the segments of a file that the kernel reads by itself with those read block by block.

    Returns
    -------
    bool
        Whether the kernel could.
    """
    native = kernel()
    assert native is not None
    kept = complete_capture(native, path, None)
    if kept is not None:
        if any(file.contents for file in capture.files):
            look_inside(kept.files)
        assert_equal(kept, capture)
    return kept is not None


def read_alone(counted: Analysis, complete: Analysis) -> int:
    """Compare connections whose segments alone are read again with those of the whole; return how many were.

    Of a capture of many connections the first and the last are read.

    Raises
    ------
    AssertionError
        If a connection that was read is another one.
    """
    native, numbers = kernel(), range(1, len(complete.connections) + 1)
    assert native is not None
    compared = 0
    for number in numbers if len(numbers) <= _FEW else (numbers[0], numbers[-1]):
        alone = with_segments(native, counted, number)
        if alone is None:
            continue
        compared += 1
        for table in ("tcp_segments", "sack_blocks", "rtt_samples"):
            one, other = (getattr(analysis, table)(number).columns for analysis in (alone, complete))
            for name, values in one.items():
                assert values.dtype == other[name].dtype, f"{table}.{name}"
                assert values.tobytes() == other[name].tobytes(), f"connection {number}, {table}.{name}"
    return compared


def counted(complete: CaptureTables, rows: int) -> Analysis | None:
    """Return the analysis of a capture that comes in pieces of so many segments; None if it asks for all."""
    native = kernel()
    assert native is not None
    analysis, number = RunningAnalysis(native), np.arange(len(complete.segments))
    for begin in range(0, len(number), rows):
        if not analysis.add(complete.where((number >= begin) & (number < begin + rows))):
            return None
    return analysis.finish(CaptureTables(complete.files, flows=complete.flows), np.arange(len(complete.flows)))
