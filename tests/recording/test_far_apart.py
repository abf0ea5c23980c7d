"""Logs whose clock is days or years away from that of the packets are said to be so."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.cli.program import call

if TYPE_CHECKING:
    from pathlib import Path


def session(tmp_path: Path, capture: Path, begin_s: int) -> Path:
    folder = tmp_path / "session"
    folder.mkdir()
    (folder / "tcp.pcap.gz").write_bytes(capture.read_bytes())
    rows = [f"{(begin_s + n) * 10**9},gpsd,52.0,{8 + n / 1000}" for n in range(5)]
    (folder / "gps.csv").write_text("\n".join(["time_ns,source,lat_deg,lon_deg", *rows, ""]))
    return folder


@pytest.mark.parametrize("begin_s", [1000, 500_000_000])
def test_a_log_of_another_year_is_said(tmp_path: Path, sample_sender: Path, begin_s: int) -> None:
    folder = session(tmp_path, sample_sender, begin_s)
    said = call("inspect", folder).stderr
    assert "years before those of the packets" in said
    assert ("its clock was not set" in said) == (begin_s == 1000)
    done = call("report", folder, "-o", tmp_path / "r.html")
    assert "years before those of the packets" in done.stderr
    assert "years before those of the packets" in (tmp_path / "r.html").read_text()


def test_a_log_within_a_day_is_left_to_the_clock_check(tmp_path: Path, sample_session: Path) -> None:
    assert "those of the packets" not in call("inspect", sample_session).stderr


@pytest.mark.fixtures
def test_a_rollover_of_the_week_number_is_named(fixture_folder: Path, tmp_path: Path) -> None:
    folder = fixture_folder / "reports" / "gps_week_rollover_session"
    if not folder.exists():
        pytest.skip("no reports")
    said = call("inspect", folder).stderr
    assert "are 19.6 years before those of the packets" in said
    assert "rollover of the week number of GPS" in said
    call("report", folder, "-o", tmp_path / "r.html")
    assert "19.6 years" in (tmp_path / "r.html").read_text()
