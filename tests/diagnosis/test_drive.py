"""A capture, a log of the radio and one of positions, together: where it was bad, and around the handovers.

The packets are those of the bundled upload, which an outage of 1.4 s interrupts. The radio is written here.
"""

from __future__ import annotations

import json
import shutil
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from multitracer.diagnosis.diagnose import explain
from multitracer.diagnosis.drive import Drive
from multitracer.diagnosis.limits.names import Limit, LimitSubtype
from multitracer.errors import InputError
from multitracer.recording.radio_context import RadioContext
from multitracer.recording.read import read
from multitracer.units import NS_PER_S
from tests.conftest import SAMPLES

if TYPE_CHECKING:
    from pathlib import Path

    from multitracer.diagnosis.diagnosis import Diagnosis
    from multitracer.diagnosis.finding import Finding

BEGIN_NS = 1_795_252_742_144_988_755
"""First SYN of the upload."""
OUTAGE_S = 17.0
"""After it; the outage lasts from here until 18.3 s."""


LISTED = {"schema": "multitracer.session/1", "files": [{"path": "radio.csv", "host": ""}]}
"""A manifest that lists the radio's log: it was recorded with the packets, by one clock."""


def road(folder: Path, cells: dict[float, int], weak_s: tuple[float, float] = (0, 0)) -> Drive:
    """Return a drive of 30 s with one reading a second; `cells` is which cell serves from when on."""
    shutil.copy(SAMPLES / "cellular_upload" / "mobile" / "tcp-0.pcap.gz", folder)
    radio = ["time_ns,source,role,rat,rsrp_dbm,sinr_db,cell_id"]
    places = ["time_ns,lat_deg,lon_deg,speed_mps"]
    for t in range(30):
        time_ns = BEGIN_NS + t * NS_PER_S
        cell = next(cell for begin, cell in reversed(cells.items()) if t >= begin)
        rsrp = -118 if weak_s[0] <= t < weak_s[1] else -85
        radio.append(f"{time_ns},csv,serving,LTE,{rsrp},18.0,{cell}")
        places.append(f"{time_ns},{48 + 0.0001 * t},11.0,11.1")
    (folder / "radio.csv").write_text("\n".join(radio) + "\n")
    (folder / "position.csv").write_text("\n".join(places) + "\n")
    (folder / "manifest.json").write_text(json.dumps(LISTED))
    recording = read(str(folder))
    diagnosis = explain(recording)
    point = diagnosis.transfer.at_sender.host
    return Drive(RadioContext(recording, point), diagnosis)


def near_outage(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    at = BEGIN_NS + round((OUTAGE_S + 0.6) * NS_PER_S)
    return [row for row in rows if row["begin_ns"] <= at <= row["end_ns"]]


@pytest.mark.parametrize(
    ("cells", "weak_s", "cause"),
    [({0: 1}, (15, 20), "coverage"), ({0: 1, 17: 2}, (0, 0), "handover"), ({0: 1}, (0, 0), "unknown")],
)
def test_outage_has_the_cause_that_the_radio_shows(
    tmp_path: Path, cells: dict[float, int], weak_s: tuple[float, float], cause: str
) -> None:
    drive = road(tmp_path, cells, weak_s)
    (row,) = near_outage(list(drive.stretches.rows()))
    assert row["cause"] == cause
    assert row["lat_deg"] == pytest.approx(48.0018, abs=0.0003)
    assert 1 < row["lost_s"] <= row["seconds"]


def test_limits_are_those_of_all_connections(tmp_path: Path) -> None:
    drive = road(tmp_path, {0: 1})
    limits = drive.limits
    assert limits is not None
    assert {"link", "outage", "handshake"} <= set(limits.limit.tolist())
    assert 0 < limits.server_sends.mean() < 1  # one upload, two downloads


def test_handover_in_the_outage_is_compared_with_the_time_before(tmp_path: Path) -> None:
    drive = road(tmp_path, {0: 1, 17: 2})
    table, shares = drive.around
    by_window = {row["window"]: row for row in table.rows()}
    assert by_window["during"]["throughput_bps"] < 0.5 * by_window["before"]["throughput_bps"]
    assert by_window["baseline"]["throughput_bps"] is None  # a minute before, nothing was captured
    assert by_window["before"]["sent"] is None  # from the sender alone nobody knows which were lost
    after = {row["limit"]: row["share"] for row in shares.rows() if row["window"] == "after"}
    assert 0.1 < after["outage"] < 0.4  # 0.8 s of 5
    assert sum(after.values()) == pytest.approx(1.0)


def test_throughput_is_the_payload_whatever_the_step(tmp_path: Path) -> None:
    drive = road(tmp_path, {0: 1})
    coarse, fine = drive.throughput, drive.fine_throughput
    assert coarse is not None
    assert fine is not None
    begin = BEGIN_NS + np.array([2, 5, 10]) * NS_PER_S
    means = [steps.mean(begin, begin + 3 * NS_PER_S)[0] for steps in (coarse, fine)]
    np.testing.assert_allclose(means[0], means[1], rtol=0.25)
    assert (means[0] > 1e6).all()


def test_epochs_of_the_recorded_quantities(tmp_path: Path) -> None:
    drive = road(tmp_path, {0: 1, 8: 2, 17: 1})
    assert drive.epochs("throughput")["n"].max() == 2
    assert np.nanmax(drive.epochs("rtt")["median"]) > 1e6
    with pytest.raises(InputError, match="contains no quantity 'jitter'; the quantities are throughput, rtt"):
        drive.epochs("jitter")


def _handover(diagnosis: Diagnosis | None) -> tuple[Finding, float]:
    """Return the finding, and for how long the transfer stood still in all."""
    assert diagnosis is not None
    (handover,) = (each for each in diagnosis.findings if each.kind == "handover")
    stops = (each for each in diagnosis.limited.shares if each.limit == Limit.OUTAGE or each.part == LimitSubtype.TIMER)
    return handover, sum(each.seconds for each in stops)


def test_a_handover_costs_the_whole_stop_in_which_it_fell(tmp_path: Path) -> None:
    handover, stopped_s = _handover(road(tmp_path, {0: 1, 17: 2}).diagnosis)
    assert handover.cost_s == pytest.approx(stopped_s)
    assert 1 < handover.cost_s <= (handover.end_ns - handover.begin_ns) / NS_PER_S


def test_a_handover_without_a_stop_costs_nothing(tmp_path: Path) -> None:
    handover, stopped_s = _handover(road(tmp_path, {0: 1, 8: 2}).diagnosis)
    assert (handover.cost_s, stopped_s > 1) == (0, True)


def causes(drive: Drive) -> tuple[set[str | None], dict[str, Any]]:
    """Return the causes of the outage's intervals, and the incident of the outage."""
    assert drive.diagnosis is not None
    document = drive.diagnosis.document(intervals=True)
    stops = {each["cause"] for each in document["intervals"] if each["limit"] == "outage"}
    (row,) = [each for each in document["limits"] if each["limit"] == "outage"]
    assert row["cause"] in stops
    assert sum(row["causes"].values()) <= row["seconds"] + 1e-6
    (incident,) = [each for each in document["incidents"] if each["kind"] in ("outage", "blackout", "handover")]
    assert incident["cause"] == row["cause"]
    return stops, incident


def test_an_outage_during_which_the_signal_is_weak_is_no_coverage(tmp_path: Path) -> None:
    stops, incident = causes(road(tmp_path, {0: 1}, weak_s=(17, 19)))
    assert stops == {"coverage"}
    assert incident["sentence"].startswith("No coverage (RSRP -118 dBm): no ACK came back for")
    assert incident["help"] == "Better coverage: another place, antenna or network."


def test_an_outage_beside_a_good_radio_is_radio_normal(tmp_path: Path) -> None:
    stops, incident = causes(road(tmp_path, {0: 1}))
    assert stops == {"radio-normal"}
    assert incident["help"].startswith("Look beyond the radio")


def test_an_outage_in_which_the_cell_changes_is_a_handover(tmp_path: Path) -> None:
    assert causes(road(tmp_path, {0: 1, 18: 2}))[0] == {"handover"}


@pytest.mark.parametrize("weak_s", [(21, 24), (2, 30)], ids=["later", "also while data flowed"])
def test_a_weak_signal_without_order_or_effect_is_no_cause(tmp_path: Path, weak_s: tuple[float, float]) -> None:
    stops, _ = causes(road(tmp_path, {0: 1}, weak_s=weak_s))
    assert "coverage" not in stops


def test_causes_rest_on_no_reading_that_is_far_away(tmp_path: Path) -> None:
    drive = road(tmp_path, {0: 1}, weak_s=(0, 7))
    log = tmp_path / "radio.csv"
    lines = log.read_text().splitlines()
    log.write_text("\n".join([*lines[:8], *lines[-2:]]) + "\n")  # between 6 s and 28 s nothing was read
    assert drive.diagnosis is not None
    found = explain(read(str(tmp_path)))
    assert {each["cause"] for each in found.document(intervals=True)["intervals"] if each["limit"] == "outage"} == {
        None
    }


def test_a_log_of_impossible_readings_is_no_witness(tmp_path: Path) -> None:
    road(tmp_path, {0: 1})
    wild = [f"{BEGIN_NS - 40 * 365 * 86_400 * NS_PER_S},csv,serving,LTE,nan,nan,", f"{BEGIN_NS},csv,,,,inf,-5"]
    log = tmp_path / "radio.csv"
    log.write_text("\n".join([log.read_text().splitlines()[0], *wild]) + "\n")
    found = explain(read(str(tmp_path)))
    assert found.headline.cause.label is None
    assert all(each["cause"] is None for each in found.document()["incidents"])
