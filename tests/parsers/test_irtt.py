"""Round trips of irtt."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import given

import parsers
from parsers import irtt
from tests.narrowed import parsed
from tests.parsers.damage import damaged, survives


def test_irtt_is_a_series_of_round_trips() -> None:
    def trip(n: int, lost: str, **delay: int) -> dict[str, Any]:
        wall = 1_770_113_472_000_000_000 + n * 10_000_001
        return {"seqno": n, "lost": lost, "timestamps": {"client": {"send": {"wall": wall}}}, "delay": delay}

    trips = [trip(0, "false", rtt=25_000_000), trip(1, "true"), trip(2, "false", rtt=30_000_000)]
    data = json.dumps({"version": {"irtt": "0.9.1"}, "config": {}, "round_trips": trips}).encode()
    assert parsers.recognise(data, path="x").name == "irtt"
    rows = list(parsed(irtt.FORMAT, data)["pings"].rows())
    assert [row["rtt_s"] for row in rows] == [0.025, None, 0.03]
    assert rows[1]["time_ns"] == 1_770_113_472_010_000_001


@given(data=damaged(b'{"round_trips":[{"lost":"false","delay":{"rtt":5}}]}'))
def test_damaged_irtt_gives_tables_or_an_error(data: bytes) -> None:
    survives(irtt.parse, data)
