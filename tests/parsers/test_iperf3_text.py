"""Text output of iperf3 and iperf 2."""

from __future__ import annotations

from hypothesis import given

import parsers
from parsers import iperf3_text
from tests.narrowed import parsed
from tests.parsers.damage import damaged, survives

TEXT = b"""\
Connecting to host 192.0.2.10, port 5201
Reverse mode, remote host 192.0.2.10 is sending
[  5] local fd00::2 port 41234 connected to fd00::10 port 5201
[ ID] Interval           Transfer     Bitrate         Jitter    Lost/Total Datagrams
[  5]   0.00-1.00   sec   128 KBytes  1.05 Mbits/sec  0.022 ms  3/95 (3.2%)
[  5]   1.00-2.00   sec   128 KBytes  1.05 Mbits/sec  0.020 ms  0/92 (0%)
- - - - - - - - - - - - - - - - - - - - - - - - -
[ ID] Interval           Transfer     Bitrate         Jitter    Lost/Total Datagrams
[  5]   0.00-2.04   sec   261 KBytes  1.05 Mbits/sec  0.000 ms  0/187 (0%)  sender
[  5]   0.00-2.00   sec   256 KBytes  1.05 Mbits/sec  0.020 ms  3/187 (1.6%)  receiver

iperf Done.
"""
OLD = b"""\
------------------------------------------------------------
Client connecting to 192.0.2.10, TCP port 5001
TCP window size: 85.0 KByte (default)
------------------------------------------------------------
[  3] local 192.0.2.2 port 41234 connected with 192.0.2.10 port 5001
[ ID] Interval       Transfer     Bandwidth
[  3]  0.0- 1.0 sec  1.00 MBytes  8.39 Mbits/sec
[  3]  1.0- 2.0 sec  2.00 MBytes  16.8 Mbits/sec
[  3]  0.0- 2.0 sec  3.00 MBytes  12.6 Mbits/sec
"""


def test_text_of_iperf_is_read() -> None:
    assert parsers.recognise(TEXT, path="x").name == "iperf3-text"
    tables = parsed(iperf3_text.FORMAT, TEXT)
    rates, sums = tables["application_rate"], tables["application_sums"]
    assert rates["rate_bps"].tolist() == [1.05e6, 1.05e6]
    assert (rates["lost_packets"].tolist(), set(rates["direction"])) == ([3, 0], {"received"})
    assert {row["reporter"]: row["bytes"] for row in sums.rows()} == {"sender": 267_264, "receiver": 262_144}
    assert rates["remote"][0] == "[fd00::10]:5201"
    old = parsed(iperf3_text.FORMAT, OLD)
    assert old["application_rate"]["bytes"].tolist() == [1 << 20, 2 << 20]
    assert old["application_sums"]["bytes"].tolist() == [3 << 20]


def test_a_time_in_the_text_places_its_rows() -> None:
    data = b"Time: Tue, 03 Feb 2026 10:11:12 GMT\n" + TEXT
    rates = parsed(iperf3_text.FORMAT, data)["application_rate"]
    assert rates["time_ns"].tolist() == [1_770_113_472_000_000_000, 1_770_113_473_000_000_000]


@given(data=damaged(TEXT))
def test_damaged_iperf3_text_gives_tables_or_an_error(data: bytes) -> None:
    survives(iperf3_text.parse, data)
