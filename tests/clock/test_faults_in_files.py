"""`align` names each of the doctor's faults in a recording whose file has it: the sample's, stamped again."""

from __future__ import annotations

import json
import shutil
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import numpy as np
import pytest

import parsers
from multitracer.cli._clocks import aligned
from multitracer.errors import ClockError
from tests.cli.program import call
from tests.clock.restamp import MS, S, restamp, stamps_of
from tests.conftest import SAMPLES

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from multitracer.tables import Times

MOBILE, FIXED = (SAMPLES / "cellular_upload" / host / "tcp-0.pcap.gz" for host in ("mobile", "fixed"))
PACKETS = 2000
THEN = int(datetime(2026, 11, 12, 9, 19, 2, tzinfo=UTC).timestamp()) * S
"""A day and a month that can be exchanged."""


def moved(seconds: float) -> Callable[[Times], Times]:
    return lambda t: t + round(seconds * S)


def swapped(stamps: Times) -> Times:
    """Return stamps of 12 November as of 11 December."""
    return stamps + 29 * 86_400 * S


def direction_off(stamps: Times) -> Times:
    capture = parsers.read_capture([FIXED])
    flow = capture.segments["flow"][: len(stamps)]
    port_a, port_b = (capture.flows[name][flow >> 1] for name in ("port_a", "port_b"))
    return stamps + np.where(np.where(flow & 1, port_b, port_a) == 5001, 5 * S, 0)


FAULTS: dict[str, Callable[[Times], Times]] = {
    "tai": moved(37),
    "gps": moved(18),
    "gps-epoch": moved(-315_964_800),
    "time-zone": moved(5.75 * 3600),
    "day-month": swapped,
    "year": moved(-365 * 86_400),
    "whole-seconds": lambda t: t // S * S,
    "steps-back": lambda t: t - 2 * S * (np.arange(len(t)) > 1500),
    "direction-clocks": direction_off,
    "saw-tooth": lambda t: t // (20 * MS) * (20 * MS) + t % (20 * MS) * 46,
}


def complaints(*inputs: Path) -> list[dict[str, object]]:
    return list(json.loads(call("align", "--json", "--no-keep", *inputs).stdout)["doctor"])


BEGIN = int(stamps_of(MOBILE)[0])


@pytest.fixture(scope="module")
def near(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return restamp(MOBILE, tmp_path_factory.mktemp("near") / "mobile.pcap", lambda t: t - BEGIN + THEN, most=PACKETS)


@pytest.mark.slow
@pytest.mark.parametrize("code", FAULTS)
def test_each_fault_is_named_in_a_file_that_has_it(code: str, near: Path, tmp_path: Path) -> None:
    change = FAULTS[code]
    far = restamp(FIXED, tmp_path / "fixed.pcap", lambda t: change(t - BEGIN + THEN), most=PACKETS)
    assert _aligned_or_refused(near, far) == {code}


def _aligned_or_refused(near: Path, far: Path) -> set[str]:
    """Return the codes of the doctor's complaints; of logs that cannot be aligned, as told in the refusal."""
    try:
        found = aligned((str(near), str(far)), reference=None, evidence=False).clocks.complaints
    except ClockError as error:
        said = str(error).split("the clock check found these faults:")[1]
        return {part.strip().split(" in ")[0] for part in said.split(";")}
    return {complaint.code for complaint in found}


def test_the_same_files_without_a_fault_are_sound(near: Path, tmp_path: Path) -> None:
    far = restamp(FIXED, tmp_path / "fixed.pcap", lambda t: t - BEGIN + THEN, most=PACKETS)
    assert complaints(near, far) == []


def test_a_modems_log_whose_dates_have_day_and_month_exchanged(tmp_path: Path) -> None:
    folder = tmp_path / "drive"
    shutil.copytree(SAMPLES / "cellular_upload", folder, ignore=shutil.ignore_patterns("clocks.jsonl", "tcp_*"))
    begin = int(stamps_of(MOBILE)[0])
    for host, source in (("mobile", MOBILE), ("fixed", FIXED)):
        (folder / host / "tcp-0.pcap.gz").unlink()
        restamp(source, folder / host / "tcp-0.pcap", lambda t: t - begin + THEN, most=PACKETS)
    moments = (datetime.fromtimestamp(THEN // S + i, tz=UTC) for i in range(10))
    swap = (f"{at:%Y}-{at.day:02d}-{at.month:02d}T{at:%H:%M:%S}+00:00" for at in moments)
    text = "".join(f"{moment}\nAT+CSQ\n\n+CSQ: 17,3\n\nOK\n" for moment in swap)
    (folder / "mobile" / "modem.txt").write_text(text)
    (found,) = complaints(folder)
    assert found["code"] == "day-month"
    assert found["shift_ns"] == -29 * 86_400 * S
    assert str(found["source"]).endswith("modem.txt")


def test_a_clock_that_begins_to_count_atomic_time_in_the_middle_is_named(tmp_path: Path) -> None:
    far = restamp(FIXED, tmp_path / "fixed.pcap", lambda t: t + 37 * S * (np.arange(len(t)) > 3000))
    (found,) = complaints(MOBILE, far)
    assert (found["code"], found["source"]) == ("tai", str(far))
    assert str(found["sentence"]).startswith("from 2026-11-21 09:19")
    assert found["shift_ns"] == -37 * S


DAY = 86_400


def write_radio(path: Path, *begins_s: float) -> None:
    """Write a radio log of a minute for each time, in seconds after the sample's packets begin."""
    path.parent.mkdir(parents=True, exist_ok=True)
    first = int(stamps_of(MOBILE)[0])
    times = [first + round((begin + second) * S) for begin in begins_s for second in range(60)]
    lines = ["time_ns,source,role,rat,rsrp_dbm", *(f"{time},csv,serving,LTE,-90" for time in times)]
    path.write_text("\n".join(lines) + "\n")


@pytest.fixture
def session(tmp_path: Path) -> Path:
    folder = tmp_path / "session"
    (folder / "mobile").mkdir(parents=True)
    shutil.copy(MOBILE, folder / "mobile")
    return folder


@pytest.mark.parametrize(("begin_s", "says"), [(-3 * DAY, "before mobile begins"), (2.6 * DAY, "after mobile ends")])
@pytest.mark.parametrize("host", ["mobile", "phone"])
def test_a_log_that_does_not_overlap_the_packets_is_named(session: Path, host: str, begin_s: float, says: str) -> None:
    write_radio(session / host / "radio.csv", begin_s)
    (complaint,) = complaints(session)
    assert complaint["code"] == "no-overlap"
    assert str(complaint["source"]).endswith("radio.csv")
    assert f"2 d {'23' if begin_s < 0 else '14'} h {says}" in str(complaint["sentence"])
    assert f"with {-begin_s:+,.0f} s" in str(complaint["repair"])
    assert "no-overlap" in call("align", "--no-keep", session).stdout


def test_a_log_of_many_files_overlaps_if_one_of_them_does(session: Path) -> None:
    write_radio(session / "mobile" / "radio-0.csv", -400)
    write_radio(session / "mobile" / "radio-1.csv", -30)
    assert complaints(session) == []
    (session / "mobile" / "radio-1.csv").unlink()
    assert [each["code"] for each in complaints(session)] == ["no-overlap"]


@pytest.mark.parametrize(("day", "is_named"), [(0, False), (1, True)])
def test_a_radio_without_packets_is_held_against_the_positions(tmp_path: Path, day: int, is_named: bool) -> None:
    write_radio(tmp_path / "drive" / "radio.csv", day * DAY)
    first = int(stamps_of(MOBILE)[0])
    fixes = [f"{first + second * S},3,52.5,{13 + second / 9999}" for second in range(60)]
    (tmp_path / "drive" / "position.csv").write_text("\n".join(["time_ns,fix,lat_deg,lon_deg", *fixes]) + "\n")
    said = call("align", "--no-keep", tmp_path / "drive", status=1).stderr  # what its GPS is short of
    assert ("no-overlap in" in said) == is_named


@pytest.mark.parametrize("reference", ["near", "far"])
def test_of_two_clocks_the_one_that_was_set_back_an_hour_is_at_fault(reference: str, tmp_path: Path) -> None:
    far = restamp(FIXED, tmp_path / "far.pcap", lambda t: t - 3600 * S * (np.arange(len(t)) > 3000))
    near = restamp(MOBILE, tmp_path / "near.pcap", lambda t: t)
    by = {"near": near, "far": far}[reference]
    found = json.loads(call("align", "--json", "--reference", by, near, far).stdout)["doctor"]
    assert [(each["code"], each["source"]) for each in found] == [("steps-back", str(far)), ("time-zone", str(far))]
    assert found[1]["shift_ns"] == 3600 * S


def _set_back(second: float) -> float:
    return second - (3600 if second > 30 else 0)


def _whole_minutes(second: float) -> float:
    return second // 60 * 60


@pytest.mark.parametrize(
    ("change", "code"), [(_set_back, "steps-back"), (_whole_minutes, "coarse-stamps"), (float, "")]
)
def test_a_log_that_is_no_capture_is_examined_by_itself(
    session: Path, change: Callable[[float], float], code: str
) -> None:
    first = int(stamps_of(MOBILE)[0]) // (60 * S) * 60 * S
    times = [first + round(change(float(second)) * S) for second in range(200)]
    lines = ["time_ns,source,role,rat,rsrp_dbm", *(f"{time},csv,serving,LTE,-90" for time in times)]
    log = session / "mobile" / "radio.csv"
    log.write_text("\n".join(lines) + "\n")
    found = [(each["code"], each["source"]) for each in complaints(session)]
    assert found == ([(code, str(log))] if code else [])
    assert (f"{code}: {log}: " in call("align", "--no-keep", session).stdout) == bool(code)


@pytest.mark.parametrize(("away_s", "code"), [(-3 * DAY, "no-overlap"), (-5 * 3600, "time-zone")])
def test_captures_of_two_hosts_that_share_no_packet_are_held_against_each_other(
    away_s: int, code: str, tmp_path: Path
) -> None:
    folder = tmp_path / "session"
    for host, sample in (("mobile", "cellular_upload"), ("fixed", "rehearsed-drive")):
        (folder / host).mkdir(parents=True)
        (source,) = (SAMPLES / sample / host).glob("tcp-0.pcap.*")
        shutil.copy(source, folder / host)
    begins = [int(parsers.read_capture([path]).segments["time_ns"][0]) for path in sorted(folder.glob("*/*"))]
    (mobile,) = (folder / "mobile").iterdir()
    restamp(mobile, folder / "mobile" / "tcp-0.pcap", lambda t: t - begins[1] + begins[0] + away_s * S)
    mobile.unlink()
    (found,) = complaints(folder)
    assert found["code"] == code
