"""A wait for the peer is followed to what held the peer's own data back."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from multitracer.diagnosis.diagnose import diagnose, explain
from multitracer.diagnosis.limits.names import Confidence, Limit, LimitSubtype
from multitracer.recording.read import read
from multitracer.recording.transfer import Transfer
from tests.analysis.pcap_file import write_pcap
from tests.analysis.traffic import ACK, MS, SYN, Segment
from tests.diagnosis.exchange import FULL, Exchange, kinds, of

if TYPE_CHECKING:
    from pathlib import Path

    from multitracer.diagnosis.diagnosis import Diagnosis

_SERVER, _CLIENT = 5_001, 1_001
_ANSWER = 4
"""Full segments of each answer: the server sends more than the client."""


def asked(
    *, turns: int = 8, pause_ms: float = 20, lost: int = 0, in_two: bool = False, window: int | None = None
) -> Exchange:
    """Return requests and answers as the client captures them.

    `lost` is how often the last request has to be sent again, and is never answered. With `in_two`, each request is two
    small writes, of which the second waits for the delayed ACK of the first. With `window`, each request continues
    with two full segments, and the server offers only `window` bytes until it has waited for 300 ms.
    """
    exchange, rtt_ms = Exchange().opened(), 50.0
    at_ms, sent, got = rtt_ms + 1, 0, 0

    def note(side: int, size: int = 0, **what: Any) -> None:
        seq, ack = (_CLIENT + sent, _SERVER + got) if side == 0 else (_SERVER + got, _CLIENT + sent)
        exchange.note(at_ms, side, **({"seq": seq, "ack": ack, "payload": size} | what))

    for _ in range(turns):
        note(0, 100)
        sent += 100
        if in_two:
            at_ms += rtt_ms + 200
            note(1)
            note(0, 100)
            sent += 100
        if window is not None:
            at_ms += rtt_ms
            note(1, window=window)
            at_ms += 300
            note(1)
            for _ in range(2):
                note(0, FULL)
                sent += FULL
        at_ms += rtt_ms
        for _ in range(_ANSWER):
            note(1, FULL)
            got += FULL
        note(0)
        at_ms += pause_ms
    for tries in range(lost + 1 if lost else 0):
        note(0, 100)
        at_ms += 300 * 2**tries
    return exchange


def explained(exchange: Exchange, folder: Path) -> Diagnosis:
    ordered = sorted(exchange.segments, key=lambda segment: segment.time_ns or 0)
    return explain(read(write_pcap(folder / "talk.pcap", ordered)))


def seconds(found: Diagnosis, limit: Limit, part: LimitSubtype | None = None) -> dict[bool, float]:
    """Return the seconds of a limit by direction: False the client's data, True the server's."""
    of_limit = [row for row in found.limited.shares if row.limit is limit and part in (None, row.part)]
    return {way: sum(row.seconds for row in of_limit if row.reverse is way) for way in (False, True)}


def test_requests_in_two_writes_wait_for_delayed_acks_whichever_direction_is_larger(tmp_path: Path) -> None:
    found = explained(asked(in_two=True), tmp_path)
    assert found.transfer.reverse
    assert (found.headline.part, found.headline.reverse) == (LimitSubtype.NAGLE, False)
    assert found.headline.sentence.startswith("Mostly the client: small segments waited")
    assert "TCP_NODELAY" in found.headline.help
    assert seconds(found, Limit.APPLICATION, LimitSubtype.NAGLE)[False] == pytest.approx(8 * 0.25, rel=0.2)
    sure = {row.confidence for row in found.limited.shares if row.part is LimitSubtype.NAGLE}
    assert sure == {Confidence.INFERRED}, "no log shows the socket's option"
    assert not of(found, "nagle-delayed-ack").reverse
    assert "client-think-time" not in kinds(found)  # the same time is not told of twice


def test_a_request_that_is_never_answered_is_an_outage_of_the_clients_data(tmp_path: Path) -> None:
    found = explained(asked(lost=5), tmp_path)
    assert seconds(found, Limit.OUTAGE)[False] > 5
    assert found.headline.sentence.startswith("Mostly an outage (data from client to server): no ACK came back for")
    assert not next(each for each in found.incidents if each.kind in ("outage", "blackout")).reverse
    assert found.limited.total_s > 9


def test_a_request_before_a_closed_window_is_limited_by_the_server(tmp_path: Path) -> None:
    found = explained(asked(window=0, pause_ms=0), tmp_path)
    assert found.transfer.reverse
    assert seconds(found, Limit.RECEIVER_WINDOW)[False] == pytest.approx(8 * 0.3, rel=0.25)


def test_a_single_request_waits_for_no_window(tmp_path: Path) -> None:
    """Its one segment is in transit, or with the server: no congestion window holds more back."""
    segments = [
        Segment(0, 1000, flags=SYN, time_ns=0),
        Segment(1, 5000, ack=1001, flags=SYN | ACK, time_ns=MS // 50),
        Segment(0, 1001, ack=5001, time_ns=MS // 30),
        Segment(0, 1001, 81, ack=5001, time_ns=MS // 20),
        Segment(1, 5001, 247, ack=1082, time_ns=MS // 4),
        Segment(0, 1082, ack=5248, time_ns=MS // 3),
    ]
    found = explain(read(write_pcap(tmp_path / "one.pcap", segments)))
    assert not seconds(found, Limit.SLOW_START)[False]


def test_a_client_that_only_thinks_stays_the_limit(tmp_path: Path) -> None:
    found = explained(asked(pause_ms=400), tmp_path)
    alone = diagnose(Transfer.of(found.transfer.recording))
    assert found.headline == alone.headline
    assert [tuple(row) for row in found.limited.shares] == [tuple(row) for row in alone.limited.shares]
    assert kinds(found) == kinds(alone)


@pytest.mark.parametrize("lost", [0, 4])
@pytest.mark.parametrize("in_two", [False, True])
def test_the_seconds_of_both_directions_are_the_whole_time_once(tmp_path: Path, lost: int, in_two: bool) -> None:
    found = explained(asked(lost=lost, in_two=in_two), tmp_path)
    cells = found.limited.cells
    assert (cells.begin[1:] == cells.end[:-1]).all()
    assert sum(row.share for row in found.limited.shares) == pytest.approx(1)
    assert sum(row.share for row in found.group.shares) == pytest.approx(1)
    document = found.document(intervals=True)
    assert sum(row["seconds"] for row in document["limits"]) == pytest.approx(document["limits_total_s"], abs=1e-4)
    for name in ("limits", "intervals", "incidents", "findings"):
        assert {row["direction"] for row in document[name]} <= {"forward", "reverse"}
    assert sorted(part for each in found.incidents for part in each.parts) == list(range(len(found.findings)))


@pytest.mark.parametrize("reverse", [False, True])
def test_a_direction_that_is_asked_for_is_explained_alone(tmp_path: Path, reverse: bool) -> None:
    ordered = sorted(asked(lost=4, in_two=True).segments, key=lambda segment: segment.time_ns or 0)
    found = explain(read(write_pcap(tmp_path / "talk.pcap", ordered)), reverse=reverse)
    assert {row.reverse for row in found.limited.shares} == {reverse}
    assert {each.reverse for each in found.findings} <= {reverse}


def test_the_other_directions_times_are_on_one_clock(tmp_path: Path) -> None:
    """The server's capture, whose clock is an hour ahead, beside the client's."""
    segments = sorted(asked(in_two=True).segments, key=lambda segment: segment.time_ns or 0)
    for host, shift_ms in (("client", 0.0), ("server", 3_600_000.0)):
        (tmp_path / host).mkdir()
        moved = [_at(each, host, shift_ms) for each in segments]
        write_pcap(tmp_path / host / "tcp-0.pcap", sorted(moved, key=lambda each: each.time_ns or 0))
    found = explain(read(tmp_path))
    assert found.limited.other is not None
    assert seconds(found, Limit.APPLICATION, LimitSubtype.NAGLE)[False] == pytest.approx(8 * 0.25, rel=0.25)
    (nagle,) = [each for each in found.findings if each.kind == "nagle-delayed-ack"]
    begin, end = found.limited.cells.begin[0], found.limited.cells.end[-1]
    assert begin <= nagle.begin_ns < nagle.end_ns <= end


@pytest.mark.parametrize("name", ["client", "server"])
def test_what_nothing_shows_at_the_server_is_not_blamed_on_a_window(tmp_path: Path, name: str) -> None:
    """Without timestamps, the server's capture does not show why the second write came late."""
    moved = [_at(each, name, 0.0) for each in asked(in_two=True).segments]
    found = explain(read(write_pcap(tmp_path / "talk.pcap", sorted(moved, key=lambda each: each.time_ns or 0))))
    assert found.headline.limit is Limit.APPLICATION
    assert found.headline.sentence.startswith("Mostly the client")


def _at(segment: Segment, host: str, shift_ms: float) -> Segment:
    """Return a segment as one host captures it: 25 ms later or earlier on the way, by its own clock."""
    way_ms = 0.0 if host == "client" else (25.0 if segment.side == 0 else -25.0)
    return replace(segment, time_ns=(segment.time_ns or 0) + round((way_ms + shift_ms) * MS))


def test_the_tables_say_whose_data_it_was(tmp_path: Path) -> None:
    found = explained(asked(lost=5), tmp_path)
    table = found.limited.table
    last = len(table["direction"]) - 1
    assert (table["direction"][last], table["limit"][last]) == ("forward", "outage")
    assert set(found.table()["direction"].tolist()) == {"forward"}


@pytest.mark.fixtures
def test_a_reported_capture_of_a_forgotten_connection(fixture_folder: Path) -> None:
    found = explain(read(fixture_folder / "reports" / "nat_timeout.pcap"))
    dead = of(found, "idle-timeout")
    assert dead.cost_s == pytest.approx(38.1, abs=0.1)
    assert (dead.reverse, dead.numbers["unanswered_packets"]) == (False, 7)
    assert "reset-by-peer" not in kinds(found)
    assert "ended in an outage (data from client to server): nothing arrived for 38.1 s" in found.headline.sentence


@pytest.mark.fixtures
def test_a_reported_capture_of_nagle_and_delayed_acks(fixture_folder: Path) -> None:
    found = explain(read(fixture_folder / "reports" / "nagle_delack.pcap"))
    assert (found.headline.part, found.headline.reverse) == (LimitSubtype.NAGLE, False)
    assert "client-think-time" not in kinds(found)


@pytest.mark.fixtures
def test_a_reported_capture_of_a_link_that_dies(fixture_folder: Path) -> None:
    found = explain(read(fixture_folder / "reports" / "public" / "mlab_ndt_2DFE.pcap.gz"))
    assert seconds(found, Limit.OUTAGE)[True] > 4
    assert "slow-start-limited" not in kinds(found)
    outages = [each for each in found.findings if each.kind == "outage"]
    assert max(each.cost_s for each in outages) == pytest.approx(5.1, abs=0.6)
    assert all(each.sentence.endswith("then the peer sent data.") for each in outages)
