"""Levels in the tags of GSMTAP version 3, as SCAT writes what a modem measured."""

from __future__ import annotations

import math
import random
import shutil
import struct
from typing import TYPE_CHECKING

import pytest

from tests.parsers.signalling_messages import NR_MESSAGES, read_messages, serving

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.skipif(not shutil.which("tshark"), reason="needs tshark")
LTE, NR = {"rsrp_dbm": 0x106, "rsrq_db": 0x107, "sinr_db": 0x103, "rssi_dbm": 0x101}, {
    "rsrp_dbm": 0x108, "rsrq_db": 0x10B, "sinr_db": 0x10D
}  # fmt: skip


def report(levels: dict[int, float], *, channel: int, cell: int, band: int | None = None, kind: int = 3,
           subtype: int = 0, payload: bytes = b"") -> bytes:  # fmt: skip
    """Return a datagram whose tags hold levels as floats of 32 bits."""
    tags = struct.pack("!HHLHHH", 2, 4, channel, 5, 2, cell)
    tags += b"" if band is None else struct.pack("!HHH", 4, 2, band)
    tags += b"".join(struct.pack("!HHf", tag, 4, value) for tag, value in levels.items())
    tags += struct.pack("!H", 0xFFFE)
    return struct.pack("!BBHHH", 3, 0, -(-(8 + len(tags)) // 4), kind, subtype) + tags + payload


@pytest.mark.parametrize("seed", range(5))
def test_levels_of_lte_and_nr_are_rows_of_radio(tmp_path: Path, seed: int) -> None:
    rng = random.Random(seed)
    datagrams, expected = [], []
    for _ in range(20):
        rat, tags = rng.choice((("LTE", LTE), ("NR", NR)))
        wanted = rng.sample(sorted(tags), rng.randint(1, len(tags)))
        known = {name: round(rng.uniform(-40, -1), 3) for name in wanted}
        place = {"channel": rng.randrange(1, 700_000), "physical_cell_id": rng.randrange(504)}
        band = rng.choice((None, 20, 78))
        datagrams.append(
            report(
                {tags[name]: value for name, value in known.items()},
                channel=place["channel"], cell=place["physical_cell_id"], band=band,
            )
        )  # fmt: skip
        if {*wanted} != {"rssi_dbm"}:
            expected.append((rat, known, place, "" if band is None else str(band)))
        else:
            expected.append(("", known, place, "" if band is None else str(band)))
    table = read_messages(tmp_path, *datagrams)["radio"]
    rows = list(table.rows())
    assert len(rows) == 20
    for row, (rat, known, place, band_text) in zip(rows, expected, strict=True):
        assert (row["rat"], row["band"], row["source"]) == (rat, band_text, "GSMTAP")
        assert {name: row[name] for name in place} == place
        for name in LTE:
            assert row[name] == (pytest.approx(known[name], abs=1e-4) if name in known else None)
    assert not table.provenance["unknown"]


def test_the_known_serving_cell_serves_and_others_are_neighbours(tmp_path: Path) -> None:
    levels = {LTE["rsrp_dbm"]: -101.25, LTE["rsrq_db"]: -14.0625}
    here, beside = report(levels, channel=1350, cell=214), report(levels, channel=1350, cell=131)
    radio = read_messages(tmp_path, report(levels, channel=6300, cell=9, band=20), serving(1350, 214, 77), here, beside)
    rows = [row for row in radio["radio"].rows() if row["source"] == "GSMTAP"]
    assert [row["role"] for row in rows] == ["serving", "serving", "neighbour"]
    assert [row["cell_id"] for row in rows] == [None, 77, None]
    assert [row["rsrp_dbm"] for row in rows] == [-101.25] * 3


def test_levels_beside_a_message_are_read_and_the_message_too(tmp_path: Path) -> None:
    subtype, octets = NR_MESSAGES["complete"]
    datagram = report({NR["rsrp_dbm"]: -88.5}, channel=504_990, cell=3, kind=0x0503, subtype=subtype,
                      payload=bytes.fromhex(octets))  # fmt: skip
    tables = read_messages(tmp_path, datagram)
    assert tables["radio"]["rsrp_dbm"].tolist() == [-88.5]
    assert len(tables["signalling"]) == 1


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf, 0.001, -500.0, 1e30])
def test_impossible_levels_are_no_row(tmp_path: Path, value: float) -> None:
    table = read_messages(tmp_path, report({LTE["rsrp_dbm"]: value}, channel=1, cell=1))["radio"]
    assert len(table) == 0
