"""`session.seconds()`: what happened in each second, with the columns of a campaign's table `seconds`."""

from __future__ import annotations

import lzma
import shutil
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
import pytest

import multitracer as mt
from multitracer.campaign.run import run
from tests.conftest import SAMPLES
from tests.recording.captures import Conversation, write_conversations

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture(scope="module")
def drive() -> mt.Session:
    return mt.open(SAMPLES / "rehearsed-drive")


def test_they_are_the_rows_of_a_campaign(drive: mt.Session, tmp_path: Path) -> None:
    run([str(SAMPLES / "rehearsed-drive")], tmp_path / "campaign")
    of_campaign = mt.open_campaign(tmp_path / "campaign").frame("seconds").drop(columns="session")
    seconds = drive.seconds()
    assert seconds.columns.tolist() == of_campaign.columns.tolist() == mt.columns("seconds")["column"].tolist()
    for name in seconds:
        assert seconds[name].isna().tolist() == of_campaign[name].isna().tolist(), name
        assert seconds[name].dropna().tolist() == of_campaign[name].dropna().tolist(), name
    assert seconds.attrs["columns"]["rtt_ns"]["unit"] == "ns"


def test_the_directions_add_up_to_the_throughput(drive: mt.Session) -> None:
    """In one drive the server sends only; in the other the client's requests are answered."""
    exchanges = mt.open(SAMPLES / "measured-drive")
    for session, share in ((drive, 0.0), (exchanges, 0.08)):
        seconds = session.seconds().dropna(subset="throughput_bps")
        forward, reverse = seconds["throughput_forward_bps"], seconds["throughput_reverse_bps"]
        np.testing.assert_allclose(forward + reverse, seconds["throughput_bps"], atol=1e-6)
        assert forward.sum() / seconds["throughput_bps"].sum() == pytest.approx(share, abs=0.01)


def test_an_outage_has_the_cause_that_the_radio_log_shows(drive: mt.Session) -> None:
    seconds = drive.seconds()
    causes = seconds[seconds["limited_by"] == "outage"].groupby("cause").size()
    assert causes.to_dict() == {"coverage": 24, "handover": 2}
    assert (seconds["cause"] == mt.RadioCause.COVERAGE.label).sum() == 25
    assert seconds.loc[seconds["limited_by"] == "application", "cause"].isna().all()


def test_columns_without_values_have_a_reason(tmp_path: Path) -> None:
    seconds = mt.open(write_conversations(tmp_path / "a.pcap", Conversation(segments=50))).seconds()
    without = {name for name in seconds if seconds[name].isna().any()}
    assert without == set(seconds.attrs["absent"])
    assert "handover" in without, "it is not known that no cell changed"
    assert seconds.attrs["absent"]["rsrp_dbm"] == seconds.attrs["absent"]["cause"] == "no radio log of a phone"
    assert "no position was logged" in repr(seconds)
    assert "channel and 6 more: no radio log of a phone" in repr(seconds)


def test_a_second_without_a_value_has_a_reason_where_others_have_one(drive: mt.Session) -> None:
    seconds = drive.seconds()
    lacking = {name for name in seconds if seconds[name].isna().any()}
    assert set(seconds.attrs["absent"]) == lacking
    assert seconds["lat_deg"].isna().sum() == 1, "before the first fix"
    assert "lat_deg, lon_deg, heading_deg, distance_m: no position within reach" in repr(seconds.head(1))
    assert "lat_deg" not in repr(seconds.tail(1).dropna(axis=1)).partition("\n\n")[2]


def test_a_change_of_the_cell_is_not_known_after_the_radio_log(drive: mt.Session, tmp_path: Path) -> None:
    shutil.copytree(SAMPLES / "rehearsed-drive", tmp_path / "drive")
    path = tmp_path / "drive" / "mobile" / "radio-0.jsonl.xz"
    lines = lzma.decompress(path.read_bytes()).splitlines(keepends=True)
    path.write_bytes(lzma.compress(b"".join(lines[: len(lines) // 2])))
    handover = mt.open(tmp_path / "drive").seconds()["handover"]
    assert drive.seconds()["handover"].notna().all()
    known = handover.notna().tolist()
    assert known == sorted(known, reverse=True)
    assert 60 < sum(known) < 130


def test_without_a_capture_there_is_the_radio(sample_session: Path) -> None:
    seconds = mt.open(sample_session.parent / "rehearsal").seconds()
    assert len(seconds) == 60
    assert seconds["rssi_dbm"].notna().any()
    for name in ("throughput_bps", "throughput_forward_bps", "throughput_reverse_bps", "limited_by", "cause"):
        assert seconds[name].isna().all(), "missing is not 0"
        assert seconds.attrs["absent"][name]


def test_a_part_of_the_session_has_its_own_seconds(drive: mt.Session) -> None:
    whole, part = drive.seconds(), drive.between(30, 40).seconds()
    assert 9 <= len(part) <= 12
    assert part["time_ns"].min() - whole["time_ns"].min() >= pd.Timedelta(28, "s")
