"""The capacity of a drive by a stated map: opportunity by opportunity, and of the bundled drive."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from multitracer.analysis.link_capacity import SinrMap, capacity_by_map, parse_map
from multitracer.errors import FormatError, InputError
from multitracer.schemas.radio import RADIO
from multitracer.tables import Table
from multitracer.units import NS_PER_S
from tests.cli.program import call
from tests.conftest import SAMPLES

if TYPE_CHECKING:
    from pathlib import Path

BITS = 1504 * 8
MAP = SinrMap(BITS, -118.0, ((10.0, 100.0), (0.0, 10.0)))
"""100 opportunities a second from 10 dB on, 10 from 0 dB on."""
DRIVE = SAMPLES / "rehearsed-drive"


def radio(*readings: tuple[float, float | None, str], **more: Any) -> Table:
    """Return the readings (s, SINR or None, state) of a serving cell."""
    times, sinr, states = zip(*readings, strict=True)
    count = len(readings)
    columns = {column.name: _missing(column.dtype, count) for column in RADIO.columns}
    columns["time_ns"] = (np.array(times) * NS_PER_S).astype(np.int64) + 5 * NS_PER_S
    columns["sinr_db"] = np.array([np.nan if each is None else each for each in sinr])
    columns["state"], columns["role"] = np.array(states, "U16"), np.repeat("serving", count).astype("U9")
    return Table(RADIO, columns | {name: np.array(values) for name, values in more.items()})


def _missing(dtype: str, count: int) -> Any:
    return np.full(count, np.nan) if dtype == "float64" else np.zeros(count, dtype)


def test_opportunities_follow_the_readings() -> None:
    """A second at 10 a second, one at 100, one without service; the last reading holds no time."""
    mapped = capacity_by_map(radio((0, 5, ""), (1, 12, ""), (2, None, "SEARCH"), (3, 5, ""), (4, 5, "")), MAP)
    stamps = mapped.trace.stamps_ms.tolist()
    assert len(stamps) == 120
    assert stamps[:10] == [*range(100, 1001, 100)]
    assert stamps[10:110] == [*range(1010, 2001, 10)]
    assert stamps[110:] == [*range(3100, 4001, 100)]
    assert (mapped.readings, mapped.unknown_s, mapped.has_load) == (5, 0, False)
    assert "modelled by a stated map from 5 recorded readings" in mapped.sentence


def test_a_reading_holds_for_five_seconds_at_most_and_others_take_their_part() -> None:
    mapped = capacity_by_map(radio((0, 5, ""), (20, 5, ""), (21, 5, "")), MAP, busy_percent=50)
    assert mapped.unknown_s == 15
    assert len(mapped.trace) == 25 + 5
    told = radio((0, 5, ""), (1, 5, ""), (2, 5, ""), cell_busy_pct=[np.nan, 90.0, np.nan])
    assert len(capacity_by_map(told, MAP).trace) == 10 + 1
    weak = radio((0, 5, ""), (1, 5, ""), (2, 5, ""), rsrp_dbm=[-119.0, -100.0, -100.0])
    assert capacity_by_map(weak, MAP).trace.stamps_ms[0] == 1100


def test_nothing_to_map_is_refused() -> None:
    with pytest.raises(InputError, match="no reading of the serving cell"):
        capacity_by_map(radio((0, None, ""), (1, None, "SEARCH")), MAP)
    with pytest.raises(InputError, match="a capacity of 0 bit/s"):
        capacity_by_map(radio((0, -20, ""), (9, -20, "")), MAP)


CLASSES = '"no_service_dbm": -118, "classes": [{"least_sinr_db": 1, "bits_per_s_per_hz": 1}]}'


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "3",
        "{}",
        '{"map": 3}',
        "[" * 9999,
        '{"bandwidth_hz": 1, "no_service_dbm": -118, "classes": []}',
        f'{{"bandwidth_hz": true, {CLASSES}',
        f'{{"bandwidth_hz": 1e99, {CLASSES}',
        f'{{"bandwidth_hz": NaN, {CLASSES}',
    ],
)
def test_what_is_no_map_is_one_sentence(text: str) -> None:
    with pytest.raises(FormatError) as refused:
        parse_map(text, path="map.json")
    assert str(refused.value).startswith("map.json")
    assert "\n" not in str(refused.value)


def test_the_bundled_drive_has_its_stated_map(tmp_path: Path) -> None:
    stated = DRIVE / "truth/drive.json"
    by = parse_map(stated.read_text(), path="drive.json")
    assert by.bandwidth_hz == json.loads(stated.read_text())["map"]["bandwidth_hz"]
    assert by.bits_per_s(12, -90, 25) == pytest.approx(90_000 * 2.4063 * 0.75)
    done = call("export", "capacity", DRIVE, "--map", stated, "--busy", "30", "-o", tmp_path / "drive.down")
    assert "modelled by a stated map" in done.stderr
    stamps = np.array([int(line) for line in (tmp_path / "drive.down").read_text().splitlines()])
    assert 170_000 < stamps[-1] < 190_000
    assert np.diff(stamps).max() > 6_000, "a hole in the coverage lasts eight seconds"
    assert "--busy needs --map" in call("export", "capacity", DRIVE, "--busy", "30", status=2).stderr
    upload = SAMPLES / "cellular_upload"
    assert "contains no radio log" in call("export", "capacity", upload, "--map", stated, status=1).stderr
    wrong = call("export", "capacity", DRIVE, "--map", DRIVE / "manifest.json", status=1)
    assert "not a map from SINR" in wrong.stderr
