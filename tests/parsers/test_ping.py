"""Replies of ping, with and without times."""

from __future__ import annotations

from hypothesis import given

import parsers
from parsers import ping
from tests.narrowed import parsed
from tests.parsers.damage import damaged, survives

PING = b"""\
PING one.one (192.0.2.1) 56(84) bytes of data.
[1770113472.123456] 64 bytes from one.one (192.0.2.1): icmp_seq=1 ttl=57 time=12.3 ms
[1770113473.123456] no answer yet for icmp_seq=2
[1770113474.200000] 64 bytes from one.one (192.0.2.1): icmp_seq=3 ttl=57 time=14.3 ms
"""


def test_ping_is_a_series_of_round_trips() -> None:
    assert parsers.recognise(PING, path="x").name == "ping"
    table = parsed(ping.FORMAT, PING)["pings"]
    assert [row["rtt_s"] for row in table.rows()] == [0.0123, None, 0.0143]
    assert table["time_ns"].tolist()[0] == 1_770_113_472_123_456_000
    assert set(table["series"]) == {"one.one"}
    plain = b"Reply from 192.0.2.1: bytes=32 time<1ms TTL=64\nRequest timed out.\n"
    assert [row["rtt_s"] for row in parsed(ping.FORMAT, plain)["pings"].rows()] == [0.001, None]


@given(data=damaged(PING))
def test_damaged_ping_gives_tables_or_an_error(data: bytes) -> None:
    survives(ping.parse, data)
