"""The bundled rehearsal: what happened on the drive is in its logs."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

import parsers
from multitracer.lab.rehearsal.journey import place
from tests.conftest import SAMPLES

if TYPE_CHECKING:
    from multitracer.tables import Table

S = 1_000_000_000
FOLDER = SAMPLES / "rehearsal"


@pytest.fixture(scope="module")
def logs() -> dict[str, dict[str, Table]]:
    found = {}
    for name in ("radio.jsonl.gz", "gps.jsonl.gz", "clocks.jsonl"):
        fmt, tables = parsers.read(FOLDER / name)
        assert isinstance(tables, dict)
        found[fmt.name] = tables
    return found


def test_sample_is_small() -> None:
    assert sum(path.stat().st_size for path in FOLDER.iterdir()) < 30_000


def test_silence_and_the_pulled_cable_are_gaps_and_nothing_is_read_in_them(logs: dict[str, dict[str, Table]]) -> None:
    radio, gaps = logs["modem"]["radio"], logs["modem"]["gaps"]
    assert gaps["reason"].tolist() == ["silent", "unplugged"]
    lasted = (gaps["until_ns"] - gaps["time_ns"]) / S
    assert lasted.tolist() == pytest.approx([6, 4], abs=1.6)
    for begin, end in zip(gaps["time_ns"], gaps["until_ns"], strict=True):
        assert not ((radio["asked_ns"] > begin) & (radio["answered_ns"] < end)).any()
    assert [port["state"] for port in radio.provenance["ports"] if port["kind"] == "port"] == [
        "opened", "lost", "opened",
    ]  # fmt: skip


def test_radio_and_position_both_lose_the_world_in_the_tunnel(logs: dict[str, dict[str, Table]]) -> None:
    radio, position = logs["modem"]["radio"], logs["gps"]["position"]
    tunnel = position["time_ns"][position["fix"] == 0]
    assert len(tunnel) in (3, 4, 5)
    inside = (radio["time_ns"] > tunnel.min()) & (radio["time_ns"] < tunnel.max())
    levels = radio["rssi_dbm"][inside & ~radio.missing("rssi_dbm")]
    assert set(levels.tolist()) == {-113.0}
    fixed = position["fix"] == 3
    assert np.ptp(position["lat_deg"][fixed]) == pytest.approx(0.003, abs=1e-4)
    assert position["speed_mps"][fixed].mean() == pytest.approx(place(0).speed_mps, abs=0.01)


def test_clocks_of_the_host_were_never_set(logs: dict[str, dict[str, Table]]) -> None:
    readings = logs["clocks"]["clock_readings"]
    assert set(readings["event"].tolist()) == {"reading"}
    assert 6 <= len(readings) <= 9
    began, ended = readings["time_ns"].min(), readings["time_ns"].max()
    radio = logs["modem"]["radio"]["time_ns"]
    assert began - 2 * S < radio.min() < radio.max() < ended + 2 * S
