"""The log of `measure run --latency`."""

from __future__ import annotations

import json

from hypothesis import given

import parsers
from parsers import latency
from tests.narrowed import parsed
from tests.parsers.damage import damaged, survives

BEGIN_NS = 1_770_113_472_000_000_000
LOG = b"\n".join(
    json.dumps(line).encode()
    for line in (
        {"latency": 1, "server": "192.0.2.1:5100", "time_ns": BEGIN_NS},
        {"probe": "connect", "phase": "idle", "time_ns": BEGIN_NS + 1, "rtt_ns": 25_000_000},
        {"interval": "down", "time_ns": BEGIN_NS, "until_ns": BEGIN_NS + 1_000_000_000, "bytes": 1_250_000},
        {"probe": "loaded", "phase": "down", "time_ns": BEGIN_NS + 2, "rtt_ns": 1_000_000_000},
        {"ended": None},
    )
)


def test_log_is_round_trips_and_rates() -> None:
    assert parsers.recognise(LOG, path="x").name == "latency"
    tables = parsed(latency.FORMAT, LOG)
    pings, rates = list(tables["pings"].rows()), list(tables["application_rate"].rows())
    assert [(row["time_ns"], row["series"], row["rtt_s"]) for row in pings] == [
        (BEGIN_NS + 1, "idle connect", 0.025),
        (BEGIN_NS + 2, "down loaded", 1.0),
    ]
    assert [(row["direction"], row["bytes"], row["rate_bps"]) for row in rates] == [("received", 1_250_000, 1e7)]


@given(data=damaged(LOG))
def test_damaged_log_gives_tables_or_an_error(data: bytes) -> None:
    survives(latency.parse, data)
