"""GPS tells a host how far its clock is from UTC, within the delay of a receiver."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import numpy as np
import pytest

import parsers
from multitracer.clock.model.relation import Clock
from multitracer.clock.session_clock import clocks_of
from multitracer.clock.sources.one_way import relate_gps
from multitracer.errors import ClockError
from multitracer.recording.read import read
from multitracer.schemas.radio import POSITION
from multitracer.tables import NOT_A_TIME, Table
from tests.conftest import SAMPLES

if TYPE_CHECKING:
    from pathlib import Path

S, MS = 1_000_000_000, 1_000_000
NOW = int(datetime(2026, 11, 12, 9, 19, 2, tzinfo=UTC).timestamp()) * S


def positions(*, ahead_s: float, skew_ppm: float = 0.0, n: int = 600, quickest_ms: int = 80) -> Table:
    """Return a fix each second, told so much to 580 ms later to a host whose clock is ahead of UTC."""
    fix = NOW + np.arange(n) * S
    told = fix + np.random.default_rng(4).integers(quickest_ms * MS, 580 * MS, n)
    host = told + round(ahead_s * S) + np.rint((told - NOW) * skew_ppm * 1e-6).astype(np.int64)
    empty = Table.empty(POSITION)
    columns = {c.name: np.full(n, np.nan if c.dtype == "float64" else 0).astype(c.dtype) for c in empty.schema}
    return Table(POSITION, columns | {"time_ns": host, "fix_time_ns": fix})


@pytest.mark.parametrize("quickest_ms", [10, 80, 450])
@pytest.mark.parametrize("ahead_s", [-3.7, 0.0, 120.0])
def test_the_offset_from_utc_is_known_to_the_receivers_delay(ahead_s: float, quickest_ms: int) -> None:
    (found,) = relate_gps(positions(ahead_s=ahead_s, skew_ppm=40.0, quickest_ms=quickest_ms))
    error = abs(found.offset_ns + ahead_s * S)
    assert error <= found.uncertainty_ns < 500 * MS
    assert found.skew_ppm == pytest.approx(-40, abs=max(found.skew_uncertainty_ppm, 60))
    assert found.evidence == 600


def test_positions_that_only_the_receiver_stamped_say_nothing_of_a_host() -> None:
    table = positions(ahead_s=1)
    for stamps in (table["fix_time_ns"], np.full(600, NOT_A_TIME)):
        alone = Table(POSITION, table.columns | {"time_ns": stamps})
        with pytest.raises(ClockError, match=r"cannot determine the clock offset, because .*; what would help"):
            relate_gps(alone)


def test_a_recorded_drive_is_related_to_utc() -> None:
    _, tables = parsers.read(SAMPLES / "rehearsal" / "gps.jsonl.gz")
    (found,) = relate_gps(tables["position"])  # type: ignore[index]
    assert abs(found.offset_ns) <= found.uncertainty_ns


def test_a_receiver_that_forgets_leap_seconds_is_named(tmp_path: Path) -> None:
    folder = tmp_path / "mobile"
    folder.mkdir()
    (folder / "gps.jsonl").write_text("".join(gpsd_line(i) for i in range(90)))
    reading = {"host": "mobile", "monotonic_before_ns": 1, "realtime_ns": NOW, "monotonic_after_ns": 9}
    (folder / "clocks.jsonl").write_text(json.dumps(reading) + "\n")
    found = clocks_of(read(tmp_path), [])
    assert found.reference == Clock("mobile")
    assert [complaint.code for complaint in found.complaints] == ["gps"]
    assert found.complaints[0].shift_ns == -18 * S


def gpsd_line(i: int) -> str:
    """Return a report of gpsd that was stamped on arrival, its time 18 s ahead."""
    moment = datetime.fromtimestamp(NOW // S + i + 18, tz=UTC)
    arrived = (NOW + i * S + 120 * MS) / S
    report = {
        "class": "TPV", "device": "/dev/ttyACM0", "mode": 3, "time": f"{moment:%Y-%m-%dT%H:%M:%S}.000Z",
        "lat": 40.4, "lon": -3.7,
    }  # fmt: skip
    return f"{arrived:.3f} {json.dumps(report)}\n"
