"""Measurements of NDT7: what the client prints, and M-Lab's archive."""

from __future__ import annotations

import json

from hypothesis import given

import parsers
from parsers import ndt7
from tests.narrowed import parsed
from tests.parsers.damage import damaged, survives


def measurement(us: int, octets: int) -> dict[str, object]:
    return {"AppInfo": {"ElapsedTime": us, "NumBytes": octets}, "Origin": "client", "Test": "download"}


KERNEL = {"ElapsedTime": 500_000, "BytesAcked": 1000, "RTT": 40_000, "RTTVar": 2000, "SndCwnd": 10}
EVENTS = [
    {"Key": "starting", "Value": {"Test": "download"}},
    {"Key": "measurement", "Value": measurement(1_000_000, 1_000_000)},
    {"Key": "measurement", "Value": {"TCPInfo": KERNEL, "Origin": "server", "Test": "download"}},
    {"Key": "measurement", "Value": measurement(2_000_000, 3_000_000)},
]
CLIENT = b"".join(json.dumps(each).encode() + b"\n" for each in EVENTS)


def test_what_the_client_prints_is_a_series_of_rates() -> None:
    assert parsers.recognise(CLIENT, path="x").name == "ndt7"
    tables = parsed(ndt7.FORMAT, CLIENT)
    rows = list(tables["application_rate"].rows())
    client = [row["rate_bps"] for row in rows if row["series"] == "download, client"]
    assert client == [8e6, 16e6]
    (server,) = [row for row in rows if row["series"] == "download, server"]
    assert (server["rtt_s"], server["cwnd_segments"]) == (0.04, 10)
    sums = {row["reporter"]: row["bytes"] for row in tables["application_sums"].rows()}
    assert sums == {"receiver": 3_000_000, "sender": 1000}


def test_the_archive_has_times() -> None:
    test = {
        "UUID": "x",
        "StartTime": "2026-02-03T10:11:12.5Z",
        "ClientMeasurements": [measurement(1_000_000, 1_000_000)],
    }
    data = json.dumps({"GitShortCommit": "x", "Download": test}).encode()
    assert parsers.recognise(data, path="x").name == "ndt7"
    (row,) = parsed(ndt7.FORMAT, data)["application_rate"].rows()
    assert (row["time_ns"], row["until_ns"]) == (1_770_113_472_500_000_000, 1_770_113_473_500_000_000)


@given(data=damaged(CLIENT))
def test_damaged_measurements_give_tables_or_an_error(data: bytes) -> None:
    survives(ndt7.parse, data)
