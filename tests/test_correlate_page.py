"""The table of docs/correlate.md is that of its results, and the results are those of today."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

import multitracer as mt
from docs.programs import correlate_drives as program

if TYPE_CHECKING:
    from pathlib import Path


def test_table_is_that_of_the_results() -> None:
    page = program.PAGE.read_text("utf-8")
    assert program.with_section(page, program.kept()) == page, "run python -m docs.programs.correlate_drives"


def test_each_drive_has_rows_and_each_row_a_number_or_a_reason() -> None:
    lines = program.kept()
    assert {line["drive"] for line in lines} == set(program.DRIVES)
    assert all(bool(line["nmi"]) != bool(line["reason"]) for line in lines)
    assert all(line["lag_s"] == "" for line in lines if line["reason"])


def test_rows_of_the_bundled_drive_are_those_of_today() -> None:
    path = program.path_of(program.BUNDLED)
    assert path is not None
    assert list(program.peaks_of(program.BUNDLED, path, difference=False)) == of(program.BUNDLED, "0")


@pytest.mark.fixtures
def test_rows_of_a_drive_of_others_are_those_of_today(fixture_folder: Path) -> None:
    drive = next(name for name in program.DRIVES if "2019.12.16" in name)
    for difference in (False, True):
        made = list(program.peaks_of(drive, fixture_folder / drive, difference=difference))
        assert made == of(drive, str(int(difference)))


@pytest.mark.fixtures
def test_what_the_logger_counted_is_compared_only_where_it_is_named(fixture_folder: Path) -> None:
    drive = fixture_folder / next(name for name in program.DRIVES if "2019.12.16" in name)
    typical = mt.correlate(drive, lags=(0, 0), permutations=19).peaks
    assert not {"Radio_rate_down", "Radio_rate_up"} & set(typical["x"])
    named = mt.correlate(drive, with_="Radio_rate_up", lags=(0, 0), permutations=19).peaks
    assert named["sessions"].tolist() == [1]


@pytest.mark.fixtures
def test_quality_of_a_phone_at_rest_follows_its_own_load(fixture_folder: Path) -> None:
    drive = next(name for name in program.DRIVES if "Static" in name)
    assert (fixture_folder / drive).is_file()
    (line,) = [line for line in of(drive, "0") if line["x"] == "rsrq_db"]
    assert float(line["lag_high_s"]) < 0, "the throughput leads"
    assert float(line["spearman"]) < -0.3
    assert float(line["q_value"]) <= 0.01


@pytest.mark.fixtures
def test_which_is_first_in_a_car_stays_open(fixture_folder: Path) -> None:
    drive = next(name for name in program.DRIVES if "2019.12.14" in name)
    assert (fixture_folder / drive).is_file()
    (line,) = [line for line in of(drive, "0") if line["x"] == "rsrq_db"]
    assert float(line["q_value"]) <= 0.05
    assert float(line["lag_low_s"]) < -5 < 5 < float(line["lag_high_s"])


def of(drive: str, differenced: str) -> list[program.Line]:
    """Return the lines that are kept of a drive."""
    return [line for line in program.kept() if (line["drive"], line["differenced"]) == (drive, differenced)]
