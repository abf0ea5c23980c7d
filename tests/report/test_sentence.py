"""One direction in a sentence, on captures whose story is known."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from multitracer.capture import CaptureTables
from multitracer.captured import SourceFile
from multitracer.logs import Point
from multitracer.recording.capture import Capture
from multitracer.recording.inputs import Inputs
from multitracer.recording.recording import Recording
from multitracer.report.connection_table import choose
from multitracer.report.figure_section import figure_section
from multitracer.report.sections import NOTHING, provenance_section, sentence, summary_section, trust_line
from tests.analysis.traffic import ACK, MS, START_NS, SYN, Segment, capture, handshake
from tests.report.test_markup import parsed

C, S = 1001, 5001
START, DATA, SERVER = START_NS, 1000, "10.0.0.2:80"


def part(found: CaptureTables) -> Capture:
    found.files[0].first_ns = START
    return Capture(Point("made", ("made.pcap",)), found)


def said(segments: list[Segment]) -> str:
    drawn = choose([part(capture(segments))], connection=None, most=1)
    return sentence(drawn[0]) if drawn else NOTHING


def at(ms: float, side: int, seq: int, payload: int = 0, **how: Any) -> Segment:
    return Segment(side, seq, payload, time_ns=START + int(ms * MS), **{"ack": S if side == 0 else C, **how})


def opened(rtt_ms: float) -> list[Segment]:
    """Return a handshake seen at the client."""
    return [at(0, 0, C - 1, flags=SYN, ack=0), at(rtt_ms, 1, S - 1, flags=SYN | ACK), at(rtt_ms + 0.01, 0, C)]


def transfer(rtt_ms: float, segments: int) -> list[Segment]:
    """Return data at 100 ms steps, each acknowledged after a round trip."""
    rows = opened(rtt_ms)
    for i in range(segments):
        begin = 1000 + 100 * i
        rows.append(at(begin, 0, C + i * DATA, DATA))
        rows.append(at(begin + rtt_ms, 1, S, ack=C + (i + 1) * DATA))
    return sorted(rows, key=lambda s: s.time_ns or 0)


def test_who_sent_how_much_to_whom_how_fast_and_with_what_delay() -> None:
    assert said(transfer(50, 11)) == (
        "10.0.0.1:40000 sent 11 kB to 10.0.0.2:80 in 1.0 s (80 kbit/s acknowledged); none of it sent more than once; "
        "median RTT 50 ms, worst 50 ms at 0.1 s."
    )


def test_what_was_sent_twice_is_a_share() -> None:
    rows = [*transfer(50, 10), at(5000, 0, C, DATA), at(5050, 1, S, ack=C + 10 * DATA)]
    assert "; 10 % of it sent more than once; " in said(rows)


def test_a_stall_is_told_though_karns_rule_is_silent_about_it() -> None:
    rows = [replace(row, stamp=(int(((row.time_ns or 0) - START) / MS) + 1, 7)) for row in opened(600)]
    for ms, number in ((1000, 0), (2500, 0)):  # the second in vain
        rows.append(at(ms, 0, C + number * DATA, DATA, stamp=(ms + 1, 7)))
    rows.append(at(5000, 1, S, ack=C + DATA, stamp=(8, 1001)))
    assert "median RTT 600 ms, worst 4.0 s at 5.0 s." in said(rows)


def test_near_the_receiver_there_is_no_rtt() -> None:
    rows = [
        at(0, 0, C - 1, flags=SYN, ack=0),
        at(0.01, 1, S - 1, flags=SYN | ACK),
        at(100, 0, C),
        at(200, 0, C, DATA),
        at(200.01, 1, S, ack=C + DATA),
    ]
    assert "RTT not measurable here, near the receiver." in said(rows)
    drawn = choose([part(capture(rows))], connection=None, most=1)[0]
    assert "cannot tell" in summary_section(drawn, connections=1)


def test_near_the_receiver_nobody_says_that_nothing_was_sent_twice() -> None:
    """A lost segment comes late: its first copy was never seen here, nor what was outstanding."""
    rows = [
        at(0, 0, C - 1, flags=SYN, ack=0),
        at(0.01, 1, S - 1, flags=SYN | ACK),
        at(100, 0, C),
        at(200, 0, C, DATA),
        at(200.01, 1, S, ack=C + DATA),
        at(201, 0, C + 2 * DATA, DATA),
        at(301, 0, C + DATA, DATA),
        at(301.01, 1, S, ack=C + 3 * DATA),
    ]
    assert "none of it arrived twice, 1 segment behind later ones; RTT not measurable here" in said(rows)
    drawn = choose([part(capture(rows))], connection=None, most=1)[0]
    tiles = summary_section(drawn, connections=1)
    assert "Retransmitted" not in tiles
    assert "known only at the sender" in tiles
    assert "Filled holes" in tiles
    assert "3 data segments arrived<" in tiles
    assert "cannot be read there" in figure_section(["one"], at_receiver=drawn.is_at_receiver)


def test_one_segment_takes_no_time() -> None:
    rows = [*handshake(C - 1, S - 1), Segment(0, C, DATA, ack=S)]
    assert "sent 1.0 kB to 10.0.0.2:80 in a single moment; none of it sent more than once" in said(rows)


def test_copies_are_not_among_what_was_delivered_once() -> None:
    rows = [*handshake(C - 1, S - 1), *2 * [Segment(0, C, DATA, ack=S)], Segment(0, C + DATA, DATA, ack=S)]
    drawn = choose([part(capture(rows))], connection=None, most=1)[0]
    assert "3 data segments sent, copies among them<" in summary_section(drawn, connections=1)


def test_a_connection_without_data_says_so() -> None:
    assert said(handshake()) == f"10.0.0.1:40000 sent no data to {SERVER} that this capture holds."


def test_packets_captured_twice_are_not_called_sent_twice() -> None:
    rows = [row for s in transfer(50, 20) for row in (s, s)]
    numbered = [replace(row, ip_id=1 + i // 2) for i, row in enumerate(rows)]
    assert "captured twice" in said(numbered)


def test_no_connection_at_all() -> None:
    assert said([]) == NOTHING


def test_the_direction_with_more_data_is_told() -> None:
    rows = [*opened(10), at(20, 0, C, 100), at(30, 1, S, 5000, ack=C + 100), at(40, 0, C + 100, ack=S + 5000)]
    assert said(rows).startswith("10.0.0.2:80 sent 5.0 kB to 10.0.0.1:40000")


def test_both_directions_are_drawn_when_both_carry_data() -> None:
    rows = [*opened(10), at(20, 0, C, 3000), at(30, 1, S, 5000, ack=C + 3000), at(40, 0, C + 3000, ack=S + 5000)]
    drawn = choose([part(capture(rows))], connection=None, most=6)
    assert [(d.connection, d.reverse) for d in drawn] == [(1, True), (1, False)]


def test_at_most_so_many_are_drawn_the_chosen_one_first() -> None:
    rows = [replace(s, pair=pair, payload=s.payload * (pair + 1)) for pair in range(9) for s in transfer(20, 3)]
    found = part(capture(sorted(rows, key=lambda s: s.time_ns or 0)))
    assert [d.number for d in choose([found], connection=None, most=4)] == [9, 8, 7, 6]
    assert [d.number for d in choose([found], connection=2, most=4)] == [2, 9, 8, 7]


@pytest.mark.slow
@pytest.mark.parametrize("number", [4_000])
def test_a_capture_that_talks_much_is_cut_short(number: int) -> None:
    source = SourceFile(
        "made.pcap",
        "pcap",
        comments=[(None, "x" * number)] + [(i, "more") for i in range(number)],
        not_decoded={f"reason {i}": i for i in range(number)},
        warnings=["careful"] * number,
    )
    talkative = Capture(Point("made", ("made.pcap",)), CaptureTables([source] * 1000))
    html = provenance_section(Recording(Inputs("made", []), [talkative]), command="")
    assert len(html) < 500_000
    assert "and 950 more files" in html
    assert "and more" in parsed(html).text


def test_the_worst_verdict_of_several_captures_counts() -> None:
    complete = part(capture(transfer(50, 30)))
    one_sided = part(capture([s for s in transfer(50, 30) if s.side == 0]))
    inputs = Inputs("both", [])
    assert 'class="trust good"' in trust_line(Recording(inputs, [complete]))
    assert 'class="trust good"' not in trust_line(Recording(inputs, [complete, one_sided]))


def test_a_capture_without_tcp_has_no_numbers_to_read_with_care() -> None:
    udp = SourceFile("made.pcap", "pcap", packets=400, protocols={"udp": 400})
    line = trust_line(Recording(Inputs("made", []), [Capture(Point("made", ("made.pcap",)), CaptureTables([udp]))]))
    assert "Trust: caution." in line
    assert "nothing was analysed" in line
    assert "numbers" not in line
