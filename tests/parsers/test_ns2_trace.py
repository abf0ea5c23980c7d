"""Traces of ns-2's wired links, and the runs that we write as such."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING

import pytest

import parsers
from multitracer.errors import FormatError
from multitracer.lab.scenario.library import load_scenario
from multitracer.lab.simulator.network import EPOCH_NS
from multitracer.lab.simulator.ns2_trace import Ns2Trace
from multitracer.lab.simulator.run import record_virtual
from parsers import ns2_trace

if TYPE_CHECKING:
    from pathlib import Path

    from multitracer.capture import CaptureTables
    from multitracer.tables import Numbers

TRACE = b"""\
+ 0.1 0 1 tcp 40 ------- 1 0.0 3.0 0 0
- 0.1 0 1 tcp 40 ------- 1 0.0 3.0 0 0
r 0.11016 0 1 tcp 40 ------- 1 0.0 3.0 0 0
+ 0.11016 1 3 tcp 40 ------- 1 0.0 3.0 0 0
r 0.12032 1 3 tcp 40 ------- 1 0.0 3.0 0 0
+ 0.12032 3 1 ack 40 ------- 1 3.0 0.0 0 1
r 0.14064 1 0 ack 40 ------- 1 3.0 0.0 0 1
+ 0.14064 0 1 tcp 1040 ------- 1 0.0 3.0 1 2
+ 0.14064 0 1 cbr 1000 ------- 2 0.1 3.1 1 5
+ 0.14064 0 1 tcp 1040 ------- 1 0.0 3.0 2 3
d 0.14064 0 1 tcp 1040 ------- 1 0.0 3.0 2 3
+ 0.15 0 1 tcp 1040 ------- 1 0.0 3.0 3 6
r 0.18 1 0 ack 40 ------- 1 3.0 0.0 1 4
r 0.19 1 0 ack 40 ------- 1 3.0 0.0 1 7
+ 0.5 0 1 tcp 1040 ------- 1 0.0 3.0 2 8
r 0.54 1 0 ack 40 ------- 1 3.0 0.0 3 9
"""
"""As the manual's example, with a queue that drops the second data packet."""


def parsed(data: bytes) -> CaptureTables:
    return ns2_trace.parse(io.BytesIO(data), path="x")


def test_the_packets_at_the_interface_of_the_sender_are_segments() -> None:
    found = parsed(TRACE)
    segments = found.segments
    assert segments["payload_bytes"].tolist() == [0, 0, 1000, 1000, 1000, 0, 0, 1000, 0]
    assert segments["seq"].tolist() == [0, 0, 1, 1001, 2001, 1, 1, 1001, 1]
    assert segments["ack"][[1, 5, 6, 8]].tolist() == [1, 1001, 1001, 3001]
    assert segments["time_ns"][[0, 1, 7]].tolist() == [100_000_000, 140_640_000, 500_000_000]
    (facts,) = found.files
    assert (facts.packets, facts.protocols, facts.damaged) == (10, {"tcp": 9, "udp": 1}, None)
    assert [interface.name for interface in facts.interfaces] == ["node 0 to 1"]
    assert [text for _, text in facts.comments] == [
        "packets that ns-2 dropped at the queue of this interface: 1",
        "events of other interfaces, which were not read: 4",
    ]


def test_a_trace_that_begins_in_a_transfer_has_the_same_distances() -> None:
    later = TRACE.split(b"\n", 7)[-1]
    segments = parsed(later).segments
    data = segments["seq"][segments["payload_bytes"] > 0]
    assert (data - data[0]).tolist() == [0, 1000, 2000, 1000]
    assert (segments["ack"][segments["payload_bytes"] == 0] - data[0]).tolist() == [1000, 1000, 3000]


def test_numbers_that_count_bytes_end_the_reading() -> None:
    full = b"".join(b"+ 0.%d 0 1 tcp 1040 ------- 1 0.0 3.0 %d %d\n" % (n, 1 + 1000 * n, n) for n in range(5))
    found = parsed(full)
    assert "line 2: the numbers of a flow count bytes" in (found.files[0].damaged or "")
    assert len(found.segments) == 1


def test_packets_of_several_sizes_end_the_reading() -> None:
    sizes = (1040, 540, 1040)
    mixed = b"".join(b"+ 0.%d 0 1 tcp %d ------- 1 0.0 3.0 %d 0\n" % (n, size, n) for n, size in enumerate(sizes))
    found = parsed(mixed)
    assert "line 3: data packets of one flow have several sizes" in (found.files[0].damaged or "")
    assert found.segments["payload_bytes"].tolist() == [1000, 500], "the last packet of a transfer may be shorter"


def test_other_lines_are_counted_and_other_files_refused() -> None:
    found = parsed(b"v 0.1 eval {set sim_annotation {starts}}\n" + TRACE)
    assert len(found.segments) == 9
    assert any("first line 1: not a line of ns-2's trace" in warning for warning in found.files[0].warnings)
    with pytest.raises(FormatError):
        parsed(b"r 1.0 _1_ MAC --- 0 cbr 512\n")
    assert ns2_trace.sniff(TRACE) == "yes"
    assert ns2_trace.sniff(b"r 1.0 _1_ MAC --- 0 cbr 512\n") == ns2_trace.sniff(b"") == "no"


def _rises(numbers: Numbers) -> list[int]:
    """Return positions in a stream, from the first one on."""
    return ((numbers.astype("int64") - int(numbers[0])) % 2**32).tolist()


@pytest.mark.parametrize(("scenario", "sender"), [("ray-2", "fixed"), ("fig4-slow-start", "mobile")])
def test_a_run_written_and_read_again_is_the_capture_of_its_sender(scenario: str, sender: str, tmp_path: Path) -> None:
    chosen = load_scenario(scenario)
    trace = Ns2Trace(chosen)
    record_virtual(chosen, tmp_path / "run", observers=[trace])
    text = trace.text()
    again = parsed(text.encode()).segments
    captured = parsers.read_capture([str(tmp_path / "run" / sender / "tcp-0.pcap")]).segments
    assert (again["time_ns"] + EPOCH_NS).tolist() == captured["time_ns"].tolist()
    assert again["payload_bytes"].tolist() == captured["payload_bytes"].tolist()
    data = captured["payload_bytes"] > 0
    assert _rises(again["seq"][data]) == _rises(captured["seq"][data])
    acks = (again["flow"] != again["flow"][data][0]) & (again["seq"] == 1)
    ours, theirs = _rises(again["ack"][acks]), _rises(captured["ack"][acks])
    assert ours == [min(ack, max(ours)) for ack in theirs], "a FIN has no number"
    fates = [line.split()[0] for line in text.splitlines()]
    assert fates.count("+") == fates.count("r") + fates.count("d"), "nothing is under way at the end of these runs"
