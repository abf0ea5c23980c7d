"""Results of speed tests."""

from __future__ import annotations

import json

from hypothesis import given

from parsers import speedtest
from tests.narrowed import parsed
from tests.parsers.damage import damaged, survives


def test_speedtest_cli_is_in_bits_per_second() -> None:
    result = {
        "download": 8e6, "upload": 1e6, "ping": 30.5, "server": {"host": "x"}, "bytes_sent": 1000,
        "bytes_received": 9000, "timestamp": "2026-02-03T10:11:12.5Z",
    }  # fmt: skip
    tables = parsed(speedtest.FORMAT, json.dumps(result).encode())
    assert tables["application_sums"]["rate_bps"].tolist() == [8e6, 1e6]
    assert tables["pings"]["rtt_s"].tolist() == [0.0305]


@given(data=damaged(b'{"ping":{"latency":3},"download":{"bandwidth":5,"bytes":9}}'))
def test_damaged_speedtest_gives_tables_or_an_error(data: bytes) -> None:
    survives(speedtest.parse, data)
