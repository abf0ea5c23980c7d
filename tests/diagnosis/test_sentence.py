"""What the first sentence names first, and that no large part of the time is silent."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from multitracer.diagnosis.diagnose import explain
from multitracer.diagnosis.held import idle_gaps_in_words
from multitracer.diagnosis.limits.limited import shown_s
from multitracer.diagnosis.limits.names import Confidence, Limit, LimitSubtype, RadioCause
from multitracer.diagnosis.limits.partition import Cells
from multitracer.diagnosis.limits.spans import Spans
from multitracer.diagnosis.remedies import ADVICE
from multitracer.diagnosis.rules import RULES
from multitracer.diagnosis.sentence import _rest, headline_of, rows_in_words
from multitracer.recording.places import OPTIONS
from multitracer.recording.read import read
from multitracer.words import about
from tests.analysis.pcap_file import write_pcap
from tests.analysis.traffic import ACK, MS, RST, START_NS, SYN, Segment
from tests.diagnosis.exchange import FULL, Exchange, of
from tests.diagnosis.test_limit_findings import _CLIENT, _SERVER, answers

_RECORDINGS = Path(__file__).parents[1] / "causes" / "recordings"


def test_programs_of_both_ends_are_told_together(tmp_path: Path) -> None:
    """Neither the one that took less is silent, nor stands a smaller share before a larger one."""
    headline = answers(think_ms=400, pause_ms=500).diagnosed(tmp_path, reverse=True).headline
    assert headline.limit is Limit.APPLICATION
    assert headline.part is LimitSubtype.NONE
    assert re.match(
        r"Mostly the programs at both ends: the client waited .* before it sent its next request, .*; "
        r"the server took 4\.0 s to begin 10 answers, typically 0\.4 s each \(9\d % of ",
        headline.sentence,
    )
    assert headline.help.count(";") == 1, "each end has its own remedy"


def test_the_sentence_and_the_finding_count_the_same_waits_of_a_client(tmp_path: Path) -> None:
    found = answers(think_ms=1, pause_ms=1000).diagnosed(tmp_path, reverse=True)
    told = re.search(r"waited (\d+) times before it sent its next request", found.headline.sentence)
    counted = re.search(r"waited (\d+) times before it sent its next request", of(found, "client-think-time").sentence)
    assert told is not None
    assert counted is not None
    assert told[1] == counted[1] == "9"


def test_a_window_that_was_full_is_told_as_it_was_then(tmp_path: Path) -> None:
    """Not the middle of a large and a closed one, nor what was offered when it was not full."""
    exchange = Exchange().opened()
    exchange.data(51, 0, count=4)
    exchange.note(101, 1, seq=_SERVER, ack=_CLIENT + 4 * FULL, window=2 * FULL)
    exchange.data(102, 4, count=2)
    exchange.note(152, 1, seq=_SERVER, ack=_CLIENT + 6 * FULL, window=0)
    exchange.note(3000, 1, seq=_SERVER, ack=_CLIENT + 6 * FULL, window=60_000)
    exchange.data(3000.1, 6, count=4)
    exchange.ack(3050, 10)
    found = exchange.diagnosed(tmp_path)
    assert "window of 0 to 2,000 bytes was full" in of(found, "receiver-limited").sentence
    assert "it had no room for a segment for 2.8 s" in found.headline.sentence


def test_what_a_queue_shows_counts_only_while_the_link_was_the_limit(tmp_path: Path) -> None:
    """An outage stands before the link: delays that go on through it show no more of the link."""
    exchange = Exchange().opened()
    for number in range(60):
        exchange.data(51 + 2 * number, number)
        exchange.ack(101 + 10 * number, number + 1)
    exchange.data(701, 60, count=8)
    for wait_ms in (300, 600, 1200, 2400):
        exchange.data(701 + wait_ms, 60)
    exchange.ack(3151, 68)
    limited = exchange.diagnosed(tmp_path).limited
    always = Spans(limited.cells.begin[:1], limited.cells.end[-1:])
    by_limit = {row.limit: row.seconds for row in limited.shares}
    assert shown_s(limited, Limit.LINK, always) == pytest.approx(by_limit[Limit.LINK])
    assert by_limit[Limit.OUTAGE] > 2


@pytest.mark.parametrize(("segments", "saved"), [(8, 0), (25, 1), (100, 2)])
def test_a_larger_initial_window_saves_no_more_round_trips_than_were_needed(
    tmp_path: Path, segments: int, saved: int
) -> None:
    """Ten segments go out in the first round trip anyway, and thirty in two."""
    exchange, at_ms, sent, flight = Exchange().opened(), 51.0, 0, 10
    while sent < segments:
        flight = min(flight, segments - sent)
        at_ms = exchange.round_trips(at_ms, sent, count=1, flight=flight) + 0.1
        sent, flight = sent + flight, 2 * flight
    found = [each for each in exchange.diagnosed(tmp_path).findings if each.kind == "slow-start-limited"]
    assert len(found) == (saved > 0)
    assert all(each.numbers["saving_s"] == pytest.approx(0.05 * saved, abs=0.005) for each in found)


def test_a_syn_that_is_repeated_after_data_opens_nothing(tmp_path: Path) -> None:
    """A server that had two handshakes repeats the SYN-ACK of one long after it had sent its answer."""
    exchange = answers(think_ms=1, pause_ms=0)
    exchange.syn_ack(3000)
    found = exchange.diagnosed(tmp_path, reverse=True)
    opening_s = sum(row.seconds for row in found.limited.shares if row.limit is Limit.HANDSHAKE)
    assert opening_s == pytest.approx(0.05, abs=0.01)


def test_a_client_connects_before_its_server_knows(tmp_path: Path) -> None:
    """A round trip takes the client's connect; half of one more its ACK, which the server waits for."""
    exchange = Exchange().opened()
    exchange.data(50.2, 0)
    exchange.note(160, 1, seq=_SERVER + 1, ack=_CLIENT + FULL, payload=FULL)
    exchange.note(160.1, 0, seq=_CLIENT + FULL, ack=_SERVER + 1 + FULL)
    sentence = exchange.diagnosed(tmp_path, reverse=True).headline.sentence
    assert "it took 0.05 s to connect, and 0.025 s more until the server knew" in sentence


def test_a_client_that_thinks_before_it_goes_on_begins_no_answer(tmp_path: Path) -> None:
    """What it sends after an answer is more of its own, whoever is asked."""
    exchange, at_ms = Exchange().opened(), 60.0
    for turn in range(5):
        exchange.data(at_ms, 2 * turn, count=2)
        at_ms += 50
        exchange.note(at_ms, 1, seq=_SERVER + 100 * turn, ack=_CLIENT + 2 * (turn + 1) * FULL, payload=100)
        at_ms += 700
    sentence = exchange.diagnosed(tmp_path, reverse=False).headline.sentence
    assert sentence.startswith(
        "Mostly the client: it waited 4 times before it sent its next request, typically 0.7 s, 2.8 s in all ("
    )


def test_waits_for_one_server_in_both_directions_are_one(tmp_path: Path) -> None:
    """It thinks before it answers, and the client's next data wait for it, too: one program, one clause."""
    exchange, at_ms, sent, got = Exchange().opened(), 60.0, 0, 0
    for _ in range(8):
        exchange.data(at_ms, sent, count=2)
        sent, at_ms = sent + 2, at_ms + 50.2
        exchange.note(at_ms, 1, seq=_SERVER + got, ack=_CLIENT + sent * FULL)
        at_ms += 400
        exchange.note(at_ms, 1, seq=_SERVER + got, ack=_CLIENT + sent * FULL, payload=200)
        got, at_ms = got + 200, at_ms + 0.2
        exchange.note(at_ms, 0, seq=_CLIENT + sent * FULL, ack=_SERVER + got)
    sentence = exchange.diagnosed(tmp_path).headline.sentence
    assert re.match(r"Mostly the server: it took \d\.\d s to begin [78] answers, typically 0\.4 s each \(", sentence)
    assert "waited" not in sentence


def test_long_pauses_are_told_in_minutes(tmp_path: Path) -> None:
    exchange = Exchange()
    end_ms = exchange.opened().round_trips(50.2, 0, count=3)
    for turn in range(3):
        end_ms = exchange.round_trips(end_ms + 130_000, 12 + 4 * turn, count=1)
    found = exchange.diagnosed(tmp_path)
    assert found.headline is not None
    assert "for 6 min 30 s, mostly in 3 idle gaps of about 2 min 10 s (99.9 % of 6 min 30 s" in found.headline.sentence
    assert "mostly in 3 idle gaps of about 2 min 10 s." in of(found, "application-limited").sentence


@pytest.mark.parametrize(
    ("seconds", "words"), [(0.0312, "0.031 s"), (12.4, "12 s"), (99.4, "99 s"), (99.6, "99.6 s"), (130, "2 min 10 s")]
)
def test_a_length_of_time_never_has_an_exponent(seconds: float, words: str) -> None:
    assert about(seconds) == words


def test_each_remedy_can_be_reached() -> None:
    """A limit has one that always fits, behind all others; what one needs is the kind of a finding, or a fact."""
    kinds = {rule.KIND for rule in RULES} | {f"without-{option}" for option in OPTIONS}
    facts = {"radio", "of-initiator", "policed", "unscaled", "nothing-lost", "unopened", "clock-step", "one-time"}
    facts |= {"read-late", "or-paced", "one-way", "after-idle", "weak-without-state", "varies", "receiver-only"}
    facts |= {"asked-in-vain", "acks-lost", "or-program", "no-sack", "stateless", "or-pace"}
    facts |= {"lost", "window-after-idle"}
    for limit in Limit:
        own = [each for each in ADVICE if each.limit is limit]
        assert [each for each in own if not each.needs and each.part is None] == own[-1:], limit
    assert set().union(*(each.needs for each in ADVICE)) <= kinds | facts | {"one-direction"}


def _attempts(path: Path, *, unanswered: int, refused: int, opened: int, syns: int = 3) -> Path:
    """Write connections to one port: of some no SYN is answered, others are reset or carry data."""
    syn, reset = Segment(0, 0, flags=SYN), Segment(1, 0, flags=RST | ACK, ack=1)
    transfer = [syn, Segment(1, 0, flags=SYN | ACK, ack=1), Segment(0, 1, ack=1), Segment(0, 1, 100, ack=1)]
    transfer += [Segment(1, 1, ack=101), Segment(1, 1, 500, ack=101), Segment(0, 101, ack=501)]
    connections = [([syn] * syns, 1000)] * unanswered + [([syn, reset], 30)] * refused + [(transfer, 30)] * opened
    segments = [
        replace(each, pair=pair, time_ns=START_NS + (20 * pair + gap_ms * place) * MS)
        for pair, (sends, gap_ms) in enumerate(connections)
        for place, each in enumerate(sends)
    ]
    return write_pcap(path, sorted(segments, key=lambda each: each.time_ns or 0))


@pytest.mark.parametrize(
    ("unanswered", "refused", "opened", "says", "helps"),
    [
        (1, 0, 0, "The connection was never opened: 3 SYNs had no answer (100 % of 2.0 s, measured).", "firewall"),
        (0, 1, 0, "The connection was never opened: it was refused 0.03 s after the SYN (100 % of 0.03 s,", "listens"),
        (0, 3, 0, "3 of 3 connections were refused (100 % of 0.07 s, measured).", "listens"),
        (5, 0, 1, "5 of 6 connections were never answered. Mostly opening connections (", "firewall"),
        (2, 1, 3, "1 of 6 connections was refused, 2 were never answered. Mostly opening", "listens"),
    ],
)
def test_connections_that_were_never_opened_are_counted(
    tmp_path: Path, unanswered: int, refused: int, opened: int, says: str, helps: str
) -> None:
    path = _attempts(tmp_path / "attempts.pcap", unanswered=unanswered, refused=refused, opened=opened)
    headline = explain(read(path)).headline
    assert says in headline.sentence
    assert helps in headline.help
    assert "answers sooner" not in headline.help
    assert headline.limit is Limit.HANDSHAKE


def test_one_syn_proves_no_dead_server(tmp_path: Path) -> None:
    """It took no time, of which no share can be told; the answer may have come after the capture's end."""
    headline = explain(read(_attempts(tmp_path / "one.pcap", unanswered=1, refused=0, opened=0, syns=1))).headline
    assert headline.sentence == ("The connection was never opened: one SYN was sent, and no answer is in the capture.")
    assert headline.confidence is Confidence.WEAK
    assert "goes on for longer" in headline.help


def test_marks_without_loss_are_no_loss() -> None:
    for view in ("", "mobile/tcp-0.pcap.gz", "fixed/tcp-0.pcap.gz"):
        headline = explain(read(_RECORDINGS / "00195-ecn" / "session" / view)).headline
        assert headline.limit is Limit.CONGESTION_WINDOW
        assert "nothing was lost" in headline.help
        assert "less loss" not in headline.help


@pytest.mark.fixtures
@pytest.mark.parametrize(
    ("name", "says", "helps", "never"),
    [
        ("nowscale_synack.pcap.gz", "the receiver's window", "window scaling", "SO_RCVBUF"),
        ("syn_noanswer.pcap", "never opened: 6 SYNs had no answer", "firewall", "sooner"),
        ("refused.pcap", "3 of 3 connections were refused", "listens at this port", "sooner"),
        ("ecn_sender.pcap.gz", "the congestion window", "marks slowed the sender down", "less loss"),
    ],
)
def test_the_remedy_fits_what_people_reported(
    fixture_folder: Path, name: str, says: str, helps: str, never: str
) -> None:
    headline = explain(read(fixture_folder / "reports" / name)).headline
    assert says in headline.sentence
    assert helps in headline.help
    assert never not in headline.help


def test_help_is_told_against_each_limit_that_is_named() -> None:
    told = explain(read(_RECORDINGS / "00053-outage-data" / "session")).headline
    assert (told.limit, told.share < 0.6) == (Limit.OUTAGE, True)
    assert told.help.endswith(". For the link (47 %): a faster link, or less other traffic on it")
    alone = explain(read(_RECORDINGS / "00109-syn-lost" / "session")).headline
    assert re.findall(r"\. For ([a-z ]+) \(1\d %\)", alone.help) == ["slow start"]
    assert "Slow start was the limit for 1" in alone.sentence


def test_fewer_connections_do_not_help_where_one_forgot_its_window(tmp_path: Path) -> None:
    """After an idle time Linux begins with a small window again; only a new connection begins with its first one."""
    exchange, sent, at_ms = Exchange().opened(), 0, 51.0
    for _ in range(4):
        for flight in (10, 20, 40, 80):
            at_ms = exchange.round_trips(at_ms, sent, count=1, flight=flight) + 0.1
            sent += flight
        at_ms += 400
    after = exchange.diagnosed(tmp_path)
    assert "Slow start" in after.headline.sentence
    assert "tcp_slow_start_after_idle=0" in after.headline.help
    assert "fewer new connections" not in after.headline.help
    new = explain(read(_RECORDINGS / "00109-syn-lost" / "session")).headline
    assert "For slow start (1" in new.help
    assert "fewer new connections" in new.help


def test_losses_are_counted_where_less_of_them_would_help() -> None:
    told = explain(read(_RECORDINGS / "00009-random-loss" / "session")).headline
    assert re.match(r"less loss \([\d,]+ of [\d,]+ data packets were lost\)", told.help)
    assert told.help.count(" lost)") == 1, "their number is told once"
    assert ". For the repair of lost data (" in told.help


def test_no_row_of_the_table_is_above_what_no_other_cause_exceeds() -> None:
    for folder in _RECORDINGS.glob("000[0-2]*"):
        found = explain(read(folder / "session"))
        said = re.search(r"no other cause exceeds (\d+) %", found.headline.sentence)
        if said is None:
            continue
        assert found.headline.confidence is not Confidence.WEAK
        shares = [float(row[2].strip("< %")) for row in rows_in_words(found.limited) if not row[0].startswith("link")]
        assert max(shares) < int(said[1]), folder.name


def test_an_outage_is_told_with_its_begin_and_end() -> None:
    found = explain(read(_RECORDINGS / "00053-outage-data" / "session"))
    assert re.search(r"arrived for 6\.\d s, from \d+\.\d s to \d+\.\d s \(", found.headline.sentence)
    said = of(found, "outage").sentence
    assert re.search(r" from \d+\.\d s (to \d+\.\d s )?of the transfer", said)
    assert "into the transfer" not in said


def test_a_slow_reader_needs_no_larger_buffer() -> None:
    for name in ("3000020-posts-read-slowly", "00062-slow-reader"):
        found = explain(read(_RECORDINGS / name / "session"))
        helps = [found.headline.help, of(found, "receiver-limited").help]
        assert not any("SO_RCVBUF" in each for each in helps), name
        assert all("reads" in each for each in helps), name


def test_a_reader_that_waits_for_data_needs_a_larger_buffer() -> None:
    found = explain(read(_RECORDINGS / "1000061-satellite-rcvbuf" / "session" / "fixed" / "tcp-0.pcap.gz"))
    helps = [found.headline.help, of(found, "receiver-limited").help]
    assert all("larger receive buffer" in each and "sooner" not in each for each in helps)


def test_a_rate_that_changed_once_is_told_as_two_rates() -> None:
    told = explain(read(_RECORDINGS / "30020-rate-step" / "session")).headline
    assert ", at 1.18 Mbit/s and, from 1.9 s on, at 121 kbit/s (99 % of" in told.sentence


def test_what_is_named_beside_the_largest_limit_has_its_confidence() -> None:
    told = explain(read(_RECORDINGS / "00053-outage-data" / "session")).headline
    assert "The link was the limit for 47 % (measured)." in told.sentence


def test_parts_of_segments_that_the_kernel_holds_wait_by_nagles_algorithm() -> None:
    told = explain(read(_RECORDINGS / "1020035-cellular-steady" / "session")).headline
    assert "small segments waited 4.2 s for the ACK of a small one (Nagle's algorithm)" in told.sentence
    assert told.help.endswith("TCP_NODELAY would only make each message sooner"), "nobody waited for them"


def test_a_handshake_counts_the_syns_that_it_needed() -> None:
    told = explain(read(_RECORDINGS / "30049-syn-lost" / "session")).headline
    assert "it took 3.16 s, because the SYN was sent 4 times (" in told.sentence
    once = explain(read(_RECORDINGS / "30008-refused" / "session")).headline
    assert "times" not in once.sentence


@pytest.mark.parametrize(("acks_s", "confidence"), [(2.4, Confidence.WEAK), (0.0, Confidence.INFERRED)])
def test_what_is_the_largest_limit_by_a_weak_part_is_weak(
    tmp_path: Path, acks_s: float, confidence: Confidence
) -> None:
    """A queue of data for 2.6 s is known; one of ACKs for 2.4 s may be the congestion window, which has 4 s or 1 s."""
    exchange = Exchange().opened()
    exchange.round_trips(100, 0, count=3)
    found = exchange.diagnosed(tmp_path).limited
    edges = np.cumsum([0, 2.6, acks_s, 4 if acks_s else 1]) * 1e9
    limit = np.array([Limit.LINK.value, Limit.LINK.value, Limit.CONGESTION_WINDOW.value])
    part = np.array([LimitSubtype.NONE.value, LimitSubtype.ACKS.value, LimitSubtype.NONE.value])
    cells = Cells(edges[:-1], edges[1:], limit, part, np.array([False, True, False]))
    headline = headline_of(replace(found, cells=cells.joined(), seen=None, shown=None))
    assert headline.limit is Limit.LINK
    assert headline.confidence is confidence
    assert f", {confidence.label})" in headline.sentence


@pytest.mark.parametrize(("acks_s", "is_told"), [(4.0, True), (2.0, False)])
def test_a_link_that_is_more_of_its_time_that_of_the_acks_says_so(tmp_path: Path, acks_s: float, is_told: bool) -> None:
    """Also where another limit, here the congestion window for 5 s, is larger than that part alone."""
    exchange = Exchange().opened()
    exchange.round_trips(100, 0, count=3)
    found = exchange.diagnosed(tmp_path).limited
    edges = np.cumsum([0, 3, acks_s, 4.5]) * 1e9
    limit = np.array([Limit.LINK.value, Limit.LINK.value, Limit.CONGESTION_WINDOW.value])
    part = np.array([LimitSubtype.NONE.value, LimitSubtype.ACKS.value, LimitSubtype.NONE.value])
    cells = Cells(edges[:-1], edges[1:], limit, part, np.array([False, False, False]))
    headline = headline_of(replace(found, cells=cells.joined(), seen=None, shown=None))
    assert (headline.limit, headline.part) == (Limit.LINK, LimitSubtype.NONE)
    assert ("the link, more in the direction of the ACKs:" in headline.sentence) is is_told
    assert ("less traffic in the direction of the ACKs" in headline.help) is is_told


@pytest.mark.parametrize(("idle_s", "is_told"), [(2.0, True), (0.4, False)])
def test_a_connection_that_was_idle_before_it_failed_may_have_been_forgotten(
    tmp_path: Path, idle_s: float, is_told: bool
) -> None:
    exchange = Exchange().opened()
    last_ms = exchange.round_trips(100, 0, count=3)
    for again_ms in (0, 300, 900, 2100, 4500, 9300):
        exchange.data(last_ms + idle_s * 1e3 + again_ms, 12)
    told = exchange.diagnosed(tmp_path).headline
    assert told.limit is Limit.OUTAGE
    assert ("keep-alives, if a firewall or NAT had forgotten the idle connection" in told.help) is is_told


def test_a_window_that_needs_scaling_is_helped_by_scaling_also_if_neither_end_offered_it(tmp_path: Path) -> None:
    """The recording has a window of 65,535 bytes: no buffer makes it larger."""
    syn, syn_ack = Segment(0, 0, flags=SYN, options={"mss": 1000}), Segment(1, 0, flags=SYN | ACK, ack=1)
    syn_ack = replace(syn_ack, options={"mss": 1000})
    segments = [replace(syn, time_ns=START_NS), replace(syn_ack, time_ns=START_NS + 50 * MS)]
    segments.append(Segment(0, 1, ack=1, time_ns=START_NS + 50 * MS))
    for trip in range(20):
        at_ns = START_NS + (51 + 50 * trip) * MS
        segments += [Segment(0, 1 + (65 * trip + n) * 1000, 1000, ack=1, time_ns=at_ns) for n in range(65)]
        segments.append(Segment(1, 1, ack=1 + 65_000 * (trip + 1), window=65_535, time_ns=at_ns + 50 * MS - 1000))
    told = explain(read(write_pcap(tmp_path / "talk.pcap", segments))).headline
    assert told.limit is Limit.RECEIVER_WINDOW
    assert told.help.startswith("window scaling at both ends")


@pytest.mark.parametrize(("handover_s", "rest"), [(0.4, "the rest"), (1.2, "most of the rest")])
def test_the_radio_is_not_good_for_the_rest_if_a_cause_of_seconds_is_not_named(handover_s: float, rest: str) -> None:
    causes = {RadioCause.NORMAL: 100.0, RadioCause.COVERAGE: 30.0, RadioCause.HANDOVER: handover_s}
    assert _rest(causes, [RadioCause.COVERAGE]) == rest
    assert _rest(causes, [RadioCause.COVERAGE, RadioCause.HANDOVER]) == "the rest"


def test_a_window_that_shrinks_proves_no_program_that_reads_in_time(tmp_path: Path) -> None:
    """A small buffer offers the same window again and again; one that is read slowly offers less and less."""
    for windows, is_steady in (((4, 4, 4), True), ((4, 2, 1), False)):
        exchange, at_ms, number = Exchange().opened(), 51.0, 0
        for turn in range(12):
            flight = 4 if turn == 0 else windows[(turn - 1) % 3]
            exchange.data(at_ms, number, count=flight)
            number += flight
            exchange.note(at_ms + 50, 1, seq=_SERVER, ack=_CLIENT + number * FULL, window=windows[turn % 3] * FULL)
            at_ms += 51
        folder = tmp_path / str(is_steady)
        folder.mkdir()
        found = exchange.diagnosed(folder)
        assert found.headline.limit is Limit.RECEIVER_WINDOW
        assert ("the receiver's TCP state (ss) shows which" in found.headline.help) != is_steady
        assert ("the receiver's TCP state (ss) shows which" in of(found, "receiver-limited").help) != is_steady


def test_requests_that_are_missing_at_the_server_may_be_lost() -> None:
    """Then the waits for them belong to the losses: 79 %, as both captures show; who was slow is not sure."""
    told = explain(read(_RECORDINGS / "3000110-lost-requests" / "session" / "fixed" / "tcp-0.pcap.gz")).headline
    assert "or its requests were lost on the way, as some of its ACKs were" in told.sentence
    assert "If these requests were lost, lost packets cost 79 % in all." in told.sentence
    assert told.confidence is Confidence.WEAK
    assert told.help.startswith("a capture at the client: it shows whether")


@pytest.mark.parametrize("view", ["", "mobile/tcp-0.pcap.gz"])
def test_losses_in_both_directions_are_one_cause_with_its_remedy(view: str) -> None:
    """Requests and answers were lost on one path: their times have one sum, and each direction its part."""
    found = explain(read(_RECORDINGS / "3000110-lost-requests" / "session" / view))
    assert re.match(
        r"Mostly the repair of lost data: new data waited \d\.\d s for it from client to server, \d\d times, and "
        r"[\d.]+ s from server to client, \d times \(75 % of 5\.3 s, weak\)\.",
        found.headline.sentence,
    )
    assert found.headline.sentence.count("lost data") == 1
    assert found.headline.help.startswith("less loss"), "the largest limit has a remedy, and the first one"
    recovery = [row.share for row in found.limited.shares if row.limit is Limit.RECOVERY]
    assert found.headline.share == pytest.approx(sum(recovery))


def test_losses_in_an_outage_are_explained_by_it() -> None:
    found = explain(read(_RECORDINGS / "3000106-small-messages-outage" / "session"))
    assert "outage" in [each.kind for each in found.findings]
    assert found.unexplained_losses == ""


def test_further_limits_come_in_descending_order() -> None:
    told = explain(read(_RECORDINGS / "3000106-small-messages-outage" / "session" / "fixed" / "tcp-0.pcap")).headline
    shares = [int(each) for each in re.findall(r"(\d+) %", told.sentence)]
    assert len(shares) >= 3
    assert shares == sorted(shares, reverse=True)


def test_what_made_a_window_small_is_no_fact_where_the_limit_is_none() -> None:
    told = explain(read(_RECORDINGS / "00009-random-loss" / "session")).headline
    assert told.confidence is Confidence.WEAK
    assert "it kept data back for 2.8 s after losses, though the path seemed to have room" in told.sentence


def test_a_time_below_ten_milliseconds_has_its_own_unit() -> None:
    told = explain(read(_RECORDINGS / "00111-refused" / "session" / "fixed" / "tcp-0.pcap")).headline
    assert "it was refused 32 µs after the SYN (100 % of 32 µs, measured)" in told.sentence


def test_a_reset_that_ended_the_connection_is_told_at_once() -> None:
    told = explain(read(_RECORDINGS / "00188-reset" / "session" / "mobile" / "tcp-0.pcap.gz")).headline
    assert told.sentence.endswith("The client ended the connection by a reset at 2.1 s.")
    assert "a capture at the server shows whether its own interface is that link" in told.help


def test_losses_without_a_known_cause_are_counted_with_the_queue_before_them() -> None:
    found = explain(read(_RECORDINGS / "2000022-codel" / "session" / "mobile" / "tcp-0.pcap.gz"))
    assert found.unexplained_losses.startswith("33 of 651 data packets (5.1 %) were sent again: the packets before")
    assert found.unexplained_losses.endswith("A full queue, a managed one (AQM) or a radio may be the cause (weak).")


@pytest.mark.parametrize(
    ("lengths_s", "words"),
    [
        ([0.71] * 8 + [0.0006] * 21, "mostly in 8 idle gaps of about 0.71 s"),
        ([2.0], "in one idle gap of 2 s"),
        ([5.0, 0.01], "mostly in one idle gap of 5 s"),
        ([0.2, 0.2, 0.2], "in 3 idle gaps of about 0.2 s"),
    ],
)
def test_the_pauses_that_took_the_time_are_counted(lengths_s: list[float], words: str) -> None:
    assert idle_gaps_in_words(np.array(lengths_s)) == words


def test_a_program_that_writes_slowly_makes_no_pauses() -> None:
    """A proxy that is fed at 441 kbit/s passes each piece on: no long silence is there."""
    found = explain(read(_RECORDINGS / "4020032-proxy-slow-server" / "session" / "mobile" / "tcp-0.pcap.gz"))
    assert re.search(
        r"Mostly the server: it (?:wrote|seemed to write) at only 4\d\d kbit/s for 4\.3 s", found.headline.sentence
    )
    assert "at only 4" in of(found, "application-limited").sentence
    thin = explain(read(_RECORDINGS / "2000038-own-program" / "session")).headline.sentence
    assert (said := re.search(r"at only ([0-9.]+) kbit/s for ([0-9.]+) s", thin))
    thin_bits = 8 * int(explain(read(_RECORDINGS / "2000038-own-program" / "session")).transfer.payload_bytes.sum())
    assert 1e3 * float(said[1]) * float(said[2]) == pytest.approx(thin_bits, rel=0.1), "the rate is of all its bytes"


def test_the_connection_at_the_other_side_of_a_proxy_is_pointed_to() -> None:
    """Who asks why the client waited has to look at the proxy's connection to the server, which lies beside."""
    recording = read(_RECORDINGS / "4020032-proxy-slow-server" / "session")
    told = explain(recording, 1).headline.sentence
    assert told.endswith(
        "Connection 2 (10.0.9.1:58626 -> 10.0.9.2:5001, captured at fixed) carried the same number of bytes (257,379) "
        "at the same time; a proxy may be between: explain it, too (--connection 2)."
    )
    assert "Connection 1 (10.0.3.2:42854 -> 10.0.1.2:5001" in explain(recording, 2).headline.sentence


@pytest.mark.parametrize("name", ["2000040-own-several", "00140-small-rcvbuf"])
def test_downloads_of_one_size_between_the_same_hosts_are_no_proxy(name: str) -> None:
    """Two files of 882,160 bytes, and one connection at both ends."""
    assert "proxy" not in explain(read(_RECORDINGS / name / "session"), 2).headline.sentence


def test_two_subtypes_of_one_limit_have_no_remedy_twice() -> None:
    """Writes and small segments that wait: the longer remedy contains the other one."""
    told = explain(read(_RECORDINGS / "1020035-cellular-steady" / "session")).headline.help
    assert told.count("a program that writes more") == 1
    assert "TCP_NODELAY" in told


def test_a_program_that_set_nodelay_is_not_told_to_set_it() -> None:
    """Small segments left behind others without an ACK: no algorithm of Nagle's was at work."""
    found = explain(read(_RECORDINGS / "2000038-own-program" / "session" / "mobile"))
    assert "TCP_NODELAY" not in found.headline.help
    assert LimitSubtype.NAGLE not in {row.part for row in found.limited.shares}
