"""What Python says of the time around handovers, on a drive whose numbers can be counted by hand."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pandas as pd
import pytest

import multitracer as mt
from multitracer.errors import InputError
from tests.conftest import SAMPLES

if TYPE_CHECKING:
    from pathlib import Path

HEAD = "Timestamp,Longitude,Latitude,Speed,Operatorname,CellID,NetworkMode,RSRP,RSRQ,SNR,CQI,DL_bitrate\n"


@pytest.fixture(scope="module")
def drive(tmp_path_factory: pytest.TempPathFactory) -> mt.Session:
    """Ten minutes at 10 Mbit/s, a change of the cell each 70 s, 1 Mbit/s for the 4 s after each."""
    path: Path = tmp_path_factory.mktemp("drive") / "drive.csv"
    rows = [
        f"2026.11.20_10.{t // 60:02d}.{t % 60:02d},{8 + 0.0002 * t:.4f},48.0,54,A,{t // 70},LTE,-90,-10,15,"
        f"10,{1000 if t >= 70 and t % 70 < 4 else 10000}"
        for t in range(600)
    ]
    path.write_text(HEAD + "\n".join(rows) + "\n")
    return mt.open(path)


def test_windows_around_each_change(drive: mt.Session) -> None:
    table = drive.around_handovers
    assert table.groupby("handover").size().tolist() == [4] * 8
    means = table.groupby("window")["throughput_bps"].mean()
    assert means["before"] == 1e7
    assert means["after"] == pytest.approx((4 * 1e6 + 1e7) / 5)
    assert (table.loc[table.window == "after", "throughput_ratio"] < 0.3).all()
    assert table["rtt_samples"].isna().all()


def test_a_handover_without_a_baseline_has_the_reason(drive: mt.Session) -> None:
    table = mt.open(SAMPLES / "rehearsed-drive").around_handovers
    first = table[table["window"] == "baseline"].iloc[0]
    assert pd.isna(first["throughput_ratio"])
    assert first["reason"] == "less than half of its throughput is known"
    assert (drive.around_handovers["reason"] == "").all()


def test_epochs_over_all_changes(drive: mt.Session) -> None:
    table = drive.handover_epochs("throughput")
    assert table["n"].tolist() == [8] * 40
    by_begin = {row["begin_s"]: row for row in table.to_dict("records")}
    assert by_begin[-5.0]["median"] == 1e7
    assert [by_begin[2.0][name] for name in ("median_low", "median", "median_high")] == [1e6] * 3
    assert by_begin[8.0]["mean"] == 1e7


def test_what_was_not_recorded_is_said(drive: mt.Session) -> None:
    with pytest.raises(InputError, match=r"drive.csv: .* contains no quantity 'rtt'; the quantities are throughput"):
        drive.handover_epochs("rtt")
    with pytest.raises(InputError, match=r"the quantities are (?!.*rtt)"):
        drive.handover_epochs("jitter")
    assert drive.limits_around_handovers.empty
