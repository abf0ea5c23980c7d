"""Each transaction has the radio and the place that the session's logs hold for its time, or the reason for none."""

from __future__ import annotations

import csv
import json
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

import multitracer as mt
from multitracer.manifest import RECORDED_AT, Host, Manifest, Role, write_manifest
from multitracer.readings import MOST_AGE_S, Nearest, cell_words
from multitracer.recording.inputs import find_inputs
from multitracer.recording.recording import Recording
from multitracer.recording.transactions import sources_of, transactions_of
from multitracer.schemas.transactions import LOGGED
from multitracer.tables import NOT_A_TIME
from multitracer.units import NS_PER_S
from tests.transactions import START_NS, transactions, write_session

if TYPE_CHECKING:
    from pathlib import Path

    from multitracer.clock.session_clock import Clocks

    Record = dict[str, object]

BOOT_NS = 500 * NS_PER_S
QENG = '+QENG: "servingcell","NOCONN","LTE","FDD",001,01,{cell:X},10,1300,3,5,5,1A2D,{rsrp},-11,{rssi},14,9,-,20'


def _line(record: Record) -> str:
    return json.dumps(record, separators=(",", ":")) + "\n"


def _log(path: Path, name: str, records: list[Record], *, ahead_s: float = 0.0) -> None:
    """Write the log of a collector whose wall clock is ahead of that of the transactions."""
    clocks: list[Record] = [
        {
            "kind": "clock", "monotonic_before_ns": at_ns, "monotonic_after_ns": at_ns,
            "realtime_ns": START_NS - BOOT_NS + at_ns + round(ahead_s * NS_PER_S),
        }
        for at_ns in (BOOT_NS, BOOT_NS + 3600 * NS_PER_S)
    ]  # fmt: skip
    header: Record = {"kind": "header", "format": f"multitracer-{name}", "version": 1}
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(map(_line, [header, clocks[0], *records, clocks[1]])))


def _at(second: float) -> int:
    return BOOT_NS + round(second * NS_PER_S)


def _modem(path: Path, readings: list[tuple[float, int, int]], *more: Record, ahead_s: float = 0.0) -> None:
    """Write a modem's log with readings of RSSI and cell at these seconds after the first transaction."""
    answers: list[Record] = [
        {
            "kind": "answer", "command": 'AT+QENG="servingcell"', "result": "OK", "asked_ns": _at(at),
            "answered_ns": _at(at), "raw": QENG.format(cell=cell, rssi=rssi, rsrp=rssi - 28) + "\r\n\r\nOK\r\n",
        }
        for at, rssi, cell in readings
    ]  # fmt: skip
    _log(path, "modem", [*answers, *more], ahead_s=ahead_s)


def _gps(path: Path, places: list[tuple[float, float, int]]) -> None:
    """Write a log of gpsd's reports: time, latitude, and whether there was a fix."""
    reports: list[Record] = [
        {
            "kind": "report", "at_ns": _at(at),
            "raw": json.dumps({"class": "TPV", "mode": mode, **({"lat": lat, "lon": 11.0} if mode > 1 else {})}),
        }
        for at, lat, mode in places
    ]  # fmt: skip
    _log(path, "gps", reports)


def _session(folder: Path, rtts_s: list[float]) -> Path:
    """Write transactions: each begins half a second after the end of the one before."""
    return write_session(folder, transactions({64: rtts_s}))


def _joined(folder: Path) -> pd.DataFrame:
    return mt.open(folder).transactions


def test_value_age_and_number_of_the_readings(tmp_path: Path) -> None:
    folder = _session(tmp_path / "drive", [0.2, 2.5, 0.1, 0.1])  # they begin at 0, 0.7, 3.7 and 4.3 s
    _modem(
        folder / "mobile" / "radio-0.jsonl",
        [(-0.4, -71, 5), (1.0, -80, 5), (2.0, -84, 6), (3.0, -92, 6), (4.0, -60, 7), (5.0, -61, 7)],
    )
    _gps(folder / "mobile" / "gps-0.jsonl", [(0.0, 48.0, 3), (1.9, 48.1, 3), (2.4, 48.2, 3), (3.7, 48.3, 3)])
    table = _joined(folder)
    assert table["rssi_dbm"].tolist() == [-71.0, (-80 - 84 - 92) / 3, -60.0, -60.0]
    assert table["rssi_age_s"].tolist() == pytest.approx([0.4, 0.0, -0.2, 0.3])
    assert table["rssi_readings"].tolist() == [0, 3, 0, 0]
    assert table["rsrp_dbm"].tolist() == [-99.0, (-108 - 112 - 120) / 3, -88.0, -88.0]
    assert table["cell"].tolist() == ["cell 5", "cell 6", "cell 7", "cell 7"], "that in the middle"
    assert table["lat_deg"].tolist() == [48.0, 48.1, 48.3, 48.3]
    assert table["place_age_s"].tolist() == pytest.approx([0.0, 0.0, 0.0, 0.6])
    assert set(table["rssi_absent"]) == set(table["place_absent"]) == {""}
    assert set(table["bler_absent"]) == {"the modem did not report it"}
    assert table["bler_percent"].isna().all()


def test_a_modem_that_dies_leaves_the_reason(tmp_path: Path) -> None:
    folder = _session(tmp_path / "drive", [0.2] * 20)  # one every 0.7 s
    lost: Record = {"kind": "missed", "count": 9, "since_ns": _at(3.0), "until_ns": _at(12.0), "why": "unplugged"}
    _modem(folder / "mobile" / "radio-0.jsonl", [(0.0, -70, 5), (1.0, -70, 5), (2.0, -75, 5)], lost)
    _gps(folder / "mobile" / "gps-0.jsonl", [(float(n), 48.0, 1) for n in range(15)])
    table = _joined(folder)
    begins_s = 0.7 * np.arange(20)
    assert (table["rssi_dbm"].isna() == (begins_s > 2.0 + MOST_AGE_S)).all()
    gone = table["rssi_absent"][begins_s > 2.0 + MOST_AGE_S]
    assert set(gone[:11]) == {"no reading within 2 s: unplugged"}
    assert gone.iloc[-1] == "no reading within 2 s", "after the last attempt nothing is known"
    assert table["rssi_age_s"].iloc[-1] == pytest.approx(19 * 0.7 - 2.0), "the age says how old the last one is"
    assert table["radio_readings"].iloc[-1] is pd.NA
    assert set(table["place_absent"]) == {"the GPS receiver had no fix"}


def test_without_logs_the_reason_names_what_was_not_recorded(tmp_path: Path) -> None:
    table = _joined(_session(tmp_path / "bare", [0.2]))
    assert table["sinr_absent"].tolist() == ["no modem was recorded"]
    assert table["place_absent"].tolist() == ["no GPS receiver was recorded"]


def test_a_modem_that_never_answered_was_recorded_all_the_same(tmp_path: Path) -> None:
    folder = _session(tmp_path / "drive", [0.2])
    missed: Record = {"kind": "missed", "count": 9, "since_ns": _at(0.0), "until_ns": _at(9.0), "why": "silent"}
    _modem(folder / "mobile" / "radio-0.jsonl", [], missed)
    assert _joined(folder)["rssi_absent"].tolist() == ["the modem gave no reading"]


def test_values_of_a_file_without_logs_remain(tmp_path: Path) -> None:
    """As of a session whose logs were not copied, written by an older version."""
    folder = write_session(tmp_path / "old", transactions({64: [0.2, 0.3]}, radio=True))
    path = folder / "transactions.csv"
    with path.open(newline="") as stream:
        rows = list(csv.DictReader(stream))
    with path.open("w", newline="") as stream:
        writer = csv.DictWriter(stream, LOGGED[1], extrasaction="ignore", lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
    table = _joined(folder)
    assert table["rssi_dbm"].tolist() == [float(row["rssi_dbm"]) for row in rows]
    assert table["rssi_absent"].tolist() == ["", ""]
    assert table["rsrp_absent"].tolist() == ["no modem was recorded"] * 2


def test_measurement_folders_are_on_the_clock_of_the_host_that_ran_them(tmp_path: Path) -> None:
    drive = tmp_path / "drive"
    drive.mkdir()
    write_manifest(drive, Manifest("drive", hosts={"van": Host(), "fixed": Host()}))
    for name, host in (("tcp", "van"), ("centauruscomm", "fixed")):
        own = write_session(drive / name, transactions({64: [0.2]}, protocol=name), link=name)
        write_manifest(own, Manifest(name, hosts={"client": Host(role=Role.CLIENT)}, more={RECORDED_AT: host}))
    _modem(drive / "van" / "radio-0.jsonl", [(0.1, -70, 5)])
    _modem(drive / "fixed" / "radio-0.jsonl", [(0.1, -90, 6)])
    recording = Recording(find_inputs(drive))
    assert not recording.warnings
    joined = {log.host: table["rssi_dbm"].tolist() for log, table in transactions_of(recording)}
    assert joined == {"van": [-70.0], "fixed": [-90.0]}
    (source,) = sources_of(recording)
    assert (source.name, len(source.table)) == ("drive", 2), "blocks of one experiment"


def test_a_modem_whose_clock_is_apart_and_unknown_is_not_joined(tmp_path: Path) -> None:
    """Its readings may be of another time: no value and one warning, also if the clocks happen to show the same."""
    for ahead_s in (1800.0, 0.0):
        folder = _session(tmp_path / f"drive{ahead_s:g}", [0.2] * 3)
        _modem(folder / "phone" / "radio-0.jsonl", [(float(n), -70, 5) for n in range(5)], ahead_s=ahead_s)
        _gps(folder / "phone" / "gps-0.jsonl", [(float(n), 48.0, 3) for n in range(5)])
        session = mt.open(folder)
        table = session.transactions
        assert table["rssi_dbm"].isna().all()
        assert set(table["rssi_absent"]) == set(table["place_absent"]) == {"nothing relates its clock to the client's"}
        (warning,) = session.warnings
        assert "readings of phone are not joined to the transactions of the client" in warning


def test_a_modem_whose_clock_is_apart_and_known_is_joined_on_the_clock_of_the_client(tmp_path: Path) -> None:
    """A phone beside the client, 1,800 s ahead: what both receivers said of GPS time relates the clocks."""
    folder = _session(tmp_path / "drive", [0.2] * 3)
    write_manifest(folder, Manifest("drive", hosts={"van": Host(role=Role.CLIENT), "phone": Host()}))
    for host, ahead_s in (("van", 0.0), ("phone", 1800.0)):
        _gps_with_time(folder / host / "gps-0.jsonl", ahead_s=ahead_s)
    _modem(folder / "phone" / "radio-0.jsonl", [(float(n), -70 - n, 5) for n in range(9)], ahead_s=1800)
    table = _joined(folder)
    assert table["rssi_dbm"].tolist() == [-70.0, -71.0, -71.0], "they began at 0, 0.7 and 1.4 s"
    assert set(table["rssi_absent"]) == {""}


def test_the_clocks_of_a_session_are_related_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """For three measurements, each with a modem and a GPS receiver of another host, and for a gap of the modem."""
    drive = tmp_path / "drive"
    drive.mkdir()
    write_manifest(drive, Manifest("drive", hosts={"van": Host(role=Role.CLIENT), "phone": Host()}))
    for name in ("tcp", "wtcp", "centauruscomm"):
        write_manifest(
            write_session(drive / name, transactions({64: [0.2] * 20}, protocol=name)),
            Manifest(name, more={RECORDED_AT: "van"}),
        )
    for host, ahead_s in (("van", 0.0), ("phone", 1800.0)):
        _gps_with_time(drive / host / "gps-0.jsonl", ahead_s=ahead_s)
    lost: Record = {"kind": "missed", "count": 9, "since_ns": _at(3.0), "until_ns": _at(12.0), "why": "unplugged"}
    _modem(drive / "phone" / "radio-0.jsonl", [(0.0, -70, 5), (1.0, -70, 5), (13.0, -70, 5)], lost, ahead_s=1800)
    related, align = [], Recording.align

    def counted(recording: Recording, **chosen: Any) -> Clocks:
        related.append(chosen)
        return align(recording, **chosen)

    monkeypatch.setattr(Recording, "align", counted)
    recording = Recording(find_inputs(drive))
    for _, table in transactions_of(recording):
        reasons = dict.fromkeys(table["rssi_absent"].tolist())
        assert list(reasons) == ["", "no reading within 2 s: unplugged"]
    assert (len(related), recording.warnings) == (1, [])


def test_a_value_that_means_no_cell_is_none(tmp_path: Path) -> None:
    """All 28 bits set, as modems write it; and Android's CellInfo.UNAVAILABLE."""
    for unknown in (0x0FFF_FFFF, 0x7FFF_FFFF):
        folder = _session(tmp_path / f"drive{unknown}", [0.2])
        _modem(folder / "mobile" / "radio-0.jsonl", [(0.1, -70, unknown)])
        assert _joined(folder)["cell"].tolist() == ["PCI 10, channel 1300"]
    assert cell_words({"rat": "GSM", "cell_id": 0xFFFF, "channel": 62}) == "channel 62"
    assert cell_words({"rat": "LTE", "cell_id": 0xFFFF, "channel": 62}) == "cell 65535"


def test_a_damaged_manifest_of_a_measurement_is_said(tmp_path: Path) -> None:
    drive = tmp_path / "drive"
    write_session(drive / "tcp", transactions({64: [0.2]}))
    (drive / "tcp" / "manifest.json").write_text("{")
    recording = Recording(find_inputs(drive))
    (source,) = sources_of(recording)
    assert len(source.table) == 1
    (warning,) = recording.warnings
    assert "the file is not valid JSON" in warning
    assert warning.endswith("the folder is read without it")


def _gps_with_time(path: Path, *, ahead_s: float) -> None:
    """Write a minute of gpsd's reports with the time of the receiver, a tenth of a second after each fix."""
    reports: list[Record] = []
    for second in range(60):
        fixed_at = datetime.fromtimestamp(START_NS / NS_PER_S + second, UTC)
        stamp = fixed_at.strftime("%Y-%m-%dT%H:%M:%S.000Z")
        tpv = {"class": "TPV", "mode": 3, "time": stamp, "lat": 48.0, "lon": 11.0}
        reports.append({"kind": "report", "at_ns": _at(second + 0.1), "raw": json.dumps(tpv)})
    _log(path, "gps", reports, ahead_s=ahead_s)


times = st.lists(st.integers(0, 40), max_size=12).map(sorted)


@given(times, st.integers(0, 40), st.integers(0, 10))
def test_the_nearest_reading_is_used(at: list[int], begin: int, length: int) -> None:
    """Against the definition: the mean within the interval, else the nearest of all, the earlier one of two."""
    values = np.arange(len(at)) * 10.0
    second = NS_PER_S
    nearest = Nearest(np.array(at, np.int64) * second, np.array([begin]) * second, np.array([begin + length]) * second)
    within = [value for time, value in zip(at, values, strict=True) if begin <= time <= begin + length]
    far = [(max(begin - time, time - begin - length), time) for time in at]
    (mean,), (age_ns,), (count,) = nearest.mean(values), nearest.age_ns, nearest.count
    assert count == len(within)
    if within:
        assert (mean, age_ns) == (np.mean(within), 0)
    elif far and min(far)[0] <= MOST_AGE_S:
        distance, time = min(far)
        assert age_ns == (begin - time if time < begin else begin + length - time) * second
        assert abs(age_ns) == distance * second
        assert mean in [value for stamp, value in zip(at, values, strict=True) if stamp == time]
    else:
        assert np.isnan(mean)
        assert (age_ns == NOT_A_TIME) == (not at)
