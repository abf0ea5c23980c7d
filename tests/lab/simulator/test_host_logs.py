"""What no log can hold is refused when it is written."""

from __future__ import annotations

import io

import pytest

from multitracer.errors import LocalProtocolError
from multitracer.lab.simulator.host_logs import HostLogWriter
from multitracer.lab.simulator.network import SimulatedClock
from multitracer.protocols.link_events import ResetStarted

YEARS_NS = 110 * 366 * 86_400 * 10**9
"""After which no pcap of a run that begins in 2000 has a time."""


@pytest.fixture
def logs() -> HostLogWriter:
    return HostLogWriter("mobile", SimulatedClock(1_000), opened=lambda _: io.BytesIO(), snap_bytes=96, facts={})


def test_a_time_that_no_capture_holds_is_refused(logs: HostLogWriter) -> None:
    logs.packet(b"octets", YEARS_NS)
    with pytest.raises(LocalProtocolError, match="is outside the range of pcap"):
        logs.write()


def test_an_event_whose_cause_is_two_words_is_refused(logs: HostLogWriter) -> None:
    logs.link_events([ResetStarted(1, 0, "no answer")])
    with pytest.raises(LocalProtocolError, match="contains spaces"):
        logs.write()
