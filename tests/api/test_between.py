"""A stretch of a session: what is left of captures and of logs, and what is said where nothing is."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

import pandas as pd
import pytest

import multitracer as mt
from multitracer.errors import InputError

if TYPE_CHECKING:
    from pathlib import Path


def test_a_stretch_of_a_stretch_lies_in_both(sample_session: Path) -> None:
    first = mt.open(sample_session).between(10, 20)
    assert len(first.between(begin=2).tcp_state) == len(first.tcp_state)
    assert len(first.between(begin=15).tcp_state) == len(mt.open(sample_session).between(15, 20).tcp_state)


def test_open_with_a_stretch_cuts_the_logs_too(sample_session: Path) -> None:
    complete = mt.open(sample_session)
    opened, cut = mt.open(sample_session, begin=10, end=12), complete.between(10, 12)
    assert len(opened.tcp_state) == len(cut.tcp_state) < len(complete.tcp_state)
    assert opened.connections.equals(cut.connections)


def test_a_stretch_that_holds_nothing_says_so(sample_session: Path) -> None:
    complete = mt.open(sample_session)
    late = complete.between(1000)
    assert late.warnings == ["no TCP segment lies between begin and end; all numbers are of an empty capture"]
    with pytest.raises(InputError, match="no TCP segment lies between begin and end"):
        late.rtt()
    assert late.tcp_state.empty
    assert late.warnings[1:] == ["no row of tcp_state lies between begin and end"]
    assert complete.warnings == []


def test_a_session_without_a_capture_is_cut_by_times_and_by_seconds_of_its_readings(sample_session: Path) -> None:
    drive = mt.open(sample_session.parent / "rehearsal")
    time = drive.radio["time_ns"].iloc[20]
    assert 0 < len(drive.between(time).radio) < len(drive.radio)
    assert len(mt.open(sample_session.parent / "rehearsal", begin=time).radio) == len(drive.between(time).radio)
    first = min(drive.radio["time_ns"].iloc[0], drive.position["time_ns"].iloc[0])
    by_time = drive.between(first + pd.Timedelta(20, "s")).radio
    for cut in (drive.between(20), mt.open(sample_session.parent / "rehearsal", begin=20)):
        assert cut.radio["time_ns"].tolist() == by_time["time_ns"].tolist()
    clocks = mt.open(sample_session.parent / "rehearsal" / "clocks.jsonl")
    with pytest.raises(InputError, match="contains no packet or reading"):
        clocks.between(0, 60)


def test_a_log_that_a_stretch_parsed_is_a_warning_of_the_whole_too(sample_session: Path, tmp_path: Path) -> None:
    folder = shutil.copytree(sample_session.parent / "rehearsal", tmp_path / "drive")
    radio = folder / "radio.jsonl.gz"
    radio.write_bytes(radio.read_bytes()[:-20])
    complete = mt.open(folder)
    cut = complete.between(pd.Timestamp("2020-01-01", tz="UTC"))
    assert len(cut.radio) == len(complete.radio)
    assert len(cut.warnings) == 1
    assert complete.warnings == cut.warnings
