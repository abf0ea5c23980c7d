"""Whole sessions peer-to-peer: who says what when, what a loss costs, what outlives a session."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from multitracer.errors import LocalProtocolError
from multitracer.protocols.centaurus.events import (
    ClockCompared,
    Expired,
    ObjectDelivered,
    Received,
    Rejected,
    SessionEnded,
)
from multitracer.protocols.centaurus.messages import CentaurusConfig, Extension
from tests.narrowed import known
from tests.protocols import centaurus_wire as wire
from tests.protocols.centaurus_net import Copy, Network, S, perfect

if TYPE_CHECKING:
    from collections.abc import Callable

    from multitracer.protocols.centaurus.events import Event
    from multitracer.protocols.centaurus.worker import Outgoing

CLASS = 7


def _losing(*indexes: int) -> Callable[[bytes], list[Copy]]:
    """Return a fate that loses these packets, counted from 0."""
    count = iter(range(10**9))
    return lambda octets: [] if next(count) in indexes else perfect(octets)


def test_message_takes_obj_proceed_segments_done_ack_then_nope() -> None:
    net = Network("a", "b")
    net.ends["a"].send("b", CLASS, bytes(1100), net.now_ns)
    net.run(5)
    assert net.messages() == ["a: OBJ", "b: PROCEED", "a: PK", "a: PK", "a: PK", "a: DONE", "b: ACK", "b: NOPE"]
    assert net.received("b") == [bytes(1100)]
    assert net.fates_of("a") == {1: ["ObjectDelivered"]}
    assert not net.ends["a"].sessions
    assert not net.ends["b"].sessions


def test_reply_travels_in_the_other_ends_turn() -> None:
    net = Network("client", "server")

    def reply(name: str, event: Event) -> None:
        if name == "server" and isinstance(event, Received):
            net.ends["server"].send("client", 2, b"reply", net.now_ns)

    net.on_event = reply
    net.ends["client"].send("server", 1, b"request", net.now_ns)
    net.run(5)
    assert net.received("client") == [b"reply"]
    told = [event for event in net.events["client"] if isinstance(event, SessionEnded)]
    assert [event.cause for event in told] == ["complete"]
    assert net.messages().count("server: OBJ") == 1
    assert "client: NOPE" not in net.messages()


@pytest.mark.parametrize("lost", range(8))
def test_one_lost_packet_costs_at_most_a_watchdog(lost: int) -> None:
    net = Network("a", "b", fate=_losing(lost))
    net.ends["a"].send("b", CLASS, bytes(range(256)) * 5, net.now_ns)
    net.run(25)
    assert net.received("b") == [bytes(range(256)) * 5]
    assert net.fates_of("a") == {1: ["ObjectDelivered"]}
    assert net.sent_again == 0


def test_lost_segment_is_asked_for_by_a_new_bitmap_in_the_same_session() -> None:
    net = Network("a", "b", fate=_losing(3))
    net.ends["a"].send("b", CLASS, bytes(1500), net.now_ns)
    net.run(5)
    assert net.messages().count("a: OBJ") == 1
    second = [wire.read_packet(octets) for *_, octets in net.wire][6]
    assert (second["message"], second["round"]) == ("PROCEED", 1)
    assert wire.bits(second["bitmap"], 3) == [1, 0, 1]


def test_lost_done_resumes_in_a_new_session_without_sending_segments_again() -> None:
    net = Network("a", "b", fate=_losing(5))
    net.ends["a"].send("b", CLASS, bytes(1500), net.now_ns)
    net.run(5)
    assert net.received("b") == []
    net.run(15)
    assert net.received("b") == [bytes(1500)]
    assert net.messages().count("a: PK") == 3
    causes = [event.cause for event in net.events["a"] if isinstance(event, SessionEnded)]
    assert causes == ["watchdog", "complete"]


def test_lost_ack_is_repeated_without_a_second_indication() -> None:
    net = Network("a", "b", fate=_losing(6))
    net.ends["a"].send("b", CLASS, bytes(1500), net.now_ns)
    net.run(25)
    assert len(net.received("b")) == 1
    assert net.fates_of("a") == {1: ["ObjectDelivered"]}
    again = [wire.read_packet(octets) for *_, octets in net.wire if b"PR" in octets[17:19]][-1]
    assert wire.bits(again["bitmap"], 3) == [1, 1, 1]
    assert net.messages().count("a: PK") == 3


def test_unwanted_class_is_rejected_and_forgotten() -> None:
    net = Network("a", "b", config=CentaurusConfig(accepts=frozenset({1})))
    net.ends["a"].send("b", 2, b"x", net.now_ns)
    net.ends["a"].send("b", 1, b"y", net.now_ns)
    net.run(5)
    rejected = [event for event in net.events["a"] if isinstance(event, Rejected)]
    assert [(event.handle, event.reason) for event in rejected] == [(1, "class")]
    assert net.received("b") == [b"y"]


def test_strictly_older_stamp_is_rejected() -> None:
    net = Network("a", "b")
    late = net.now_ns + S
    net.ends["a"].send("b", CLASS, b"new", late)
    net.run(1)
    other = Network("a", "b")
    net.ends["a"] = other.ends["a"]  # a restarts, its clock behind
    net.ends["a"].send("b", CLASS, b"old", late - 1)
    net.run(2)
    assert net.received("b") == [b"new"]
    assert [event.reason for event in net.events["a"] if isinstance(event, Rejected)] == ["newer"]


def test_too_large_message_is_rejected_by_the_receiver_and_refused_by_the_sender() -> None:
    net = Network("a", "b")
    net.ends["b"].config = net.ends["b"]._shared.config = replace(CentaurusConfig(), max_message_bytes=1000)
    net.ends["a"].send("b", CLASS, bytes(1001), net.now_ns)
    net.run(2)
    assert [event.reason for event in net.events["a"] if isinstance(event, Rejected)] == ["size"]
    with pytest.raises(LocalProtocolError, match="262144"):
        net.ends["a"].send("b", CLASS, bytes(262145), net.now_ns)


def test_expired_object_is_reported_once_and_its_part_deleted() -> None:
    config = CentaurusConfig(cap_ns=50 * S)
    without_done = lambda octets: [] if octets[17:19] == b"DN" else perfect(octets)  # noqa: E731
    dead = Network("a", "b", config=config, fate=without_done)
    dead.ends["a"].send("b", CLASS, bytes(3000), dead.now_ns, lifetime_ns=30 * S)
    dead.run(79)
    assert dead.ends["b"]._shared.partial_bytes == 6 * 100 + 3000
    dead.run(3)
    assert [type(event) for event in dead.events["a"] if not isinstance(event, SessionEnded | ClockCompared)] == [
        Expired
    ]
    assert dead.ends["b"]._shared.partial_bytes == 0
    assert dead.ends["b"].counters.forgotten_partials == 1
    assert dead.ends["a"]._shared.outgoing_bytes == 0
    assert not dead.ends["a"].sessions


def test_newer_stamp_supersedes_the_part_of_an_older_object() -> None:
    net = Network("a", "b", fate=lambda octets: [] if octets[17:19] == b"DN" else perfect(octets))
    net.ends["a"].send("b", CLASS, bytes(3000), net.now_ns, lifetime_ns=5 * S)
    net.run(11)
    net.fate = perfect
    net.ends["a"].send("b", CLASS, b"newer", net.now_ns)
    net.run(12)
    assert net.received("b") == [b"newer"]
    assert net.ends["b"]._shared.partial_bytes == 0


def test_both_ends_may_begin_at_once() -> None:
    net = Network("a", "b")
    net.ends["a"].send("b", 1, b"from a", net.now_ns)
    net.ends["b"].send("a", 1, b"from b", net.now_ns)
    net.run(5)
    assert (net.received("a"), net.received("b")) == ([b"from b"], [b"from a"])
    causes = [event.cause for end in ("a", "b") for event in net.events[end] if isinstance(event, SessionEnded)]
    assert sorted(causes) == ["complete", "complete", "replaced"]


def test_late_segment_of_a_dead_session_enters_no_other_object() -> None:
    held: list[bytes] = []

    def fate(octets: bytes) -> list[Copy]:
        if octets[17:19] == b"PK" and len(held) < 2:
            held.append(octets)
            return []
        return perfect(octets)

    net = Network("a", "b", fate=fate)
    net.ends["a"].send("b", CLASS, b"1" * 1000, net.now_ns, lifetime_ns=1 * S)
    net.run(0.12)
    net.fate = lambda octets: []
    net.run(15)
    net.fate = perfect
    net.ends["a"].send("b", CLASS, b"2" * 1000, net.now_ns)
    for late in held:
        net.post("a", "b", late, 125_000_000)
    net.run(5)
    assert net.received("b") == [b"2" * 1000]
    assert len(held) == 2
    assert net.ends["b"].counters.unknown_session >= 2


def test_session_ends_at_its_cap_whatever_it_does() -> None:
    config = CentaurusConfig(watchdog_ns=10 * S, cap_ns=30 * S)
    lossy = Network("a", "b", config=config, fate=lambda octets: [] if octets[17:19] == b"PK" else perfect(octets))
    lossy.ends["a"].send("b", CLASS, b"never", lossy.now_ns, lifetime_ns=100 * S)
    lossy.run(65)
    ended = [event for event in lossy.events["a"] if isinstance(event, SessionEnded)]
    assert [event.cause for event in ended] == ["cap", "cap"]
    assert [event.time_ns - event.started_ns for event in ended] == [30 * S, 30 * S]


def test_sent_rearms_the_watchdog_and_silence_ends_the_session() -> None:
    """A line on which each packet takes six seconds to leave: SENT is all that is heard meanwhile."""
    net = Network("a", "b")
    sender = net.ends["a"]
    sender.send("b", CLASS, bytes(4 * 512), net.now_ns)
    obj = known(sender.outgoing(net.now_ns))
    sender.sent(obj, net.now_ns)
    net.ends["b"].receive(obj.octets, "a", net.now_ns)
    proceed = known(net.ends["b"].outgoing(net.now_ns))
    sender.receive(proceed.octets, "b", net.now_ns)
    now_ns = net.now_ns
    for _ in range(5):  # four segments and DONE
        packet = known(sender.outgoing(now_ns))
        now_ns += 6 * S
        sender.on_timer(now_ns)
        assert sender.sessions
        sender.sent(packet, now_ns)
    sender.on_timer(now_ns + 10 * S - 1)
    assert sender.sessions
    sender.on_timer(now_ns + 10 * S)
    assert not sender.sessions


def test_empty_message_is_a_message() -> None:
    net = Network("a", "b")
    net.ends["a"].send("b", CLASS, b"", net.now_ns)
    net.run(2)
    assert net.received("b") == [b""]
    assert "a: PK" not in net.messages()


def test_clocks_are_compared_within_their_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    net = Network("a", "b")
    ahead_ns = 123 * S
    true = net.ends["b"]

    class Ahead:
        """b, whose clock is ahead."""

        def __getattr__(self, name: str) -> Any:
            return getattr(true, name)

        def receive(self, octets: bytes, address: str, now_ns: int) -> None:
            true.receive(octets, address, now_ns + ahead_ns)

        def outgoing(self, now_ns: int) -> Outgoing | None:
            return true.outgoing(now_ns + ahead_ns)

        def sent(self, packet: Outgoing, now_ns: int) -> None:
            true.sent(packet, now_ns + ahead_ns)

        def on_timer(self, now_ns: int) -> None:
            true.on_timer(now_ns + ahead_ns)

        def next_timer(self) -> int | None:
            due = true.next_timer()
            return None if due is None else due - ahead_ns

    monkeypatch.setattr(net, "_check_ages", lambda now_ns: None)
    monkeypatch.setitem(net.ends, "b", Ahead())
    net.ends["a"].send("b", CLASS, bytes(2000), net.now_ns)
    net.run(3)
    found = {name: [e for e in net.events[name] if isinstance(e, ClockCompared)] for name in ("a", "b")}
    for name, offset_ns in (("a", ahead_ns), ("b", -ahead_ns)):
        (told,) = found[name]
        assert abs(told.offset_ns - offset_ns) <= told.uncertainty_ns <= 51_000_000


def test_several_messages_travel_in_one_session_only_if_both_ends_offer_it() -> None:
    for theirs, sessions in ((Extension.SEVERAL, 1), (Extension.NONE, 3)):
        net = Network("a", "b", config=CentaurusConfig(extensions=Extension.SEVERAL))
        net.ends["b"].config = net.ends["b"]._shared.config = CentaurusConfig(extensions=theirs)
        for text in (b"1", b"2", b"3"):
            net.ends["a"].send("b", CLASS, text, net.now_ns)
        net.ends["b"].send("a", CLASS, b"back", net.now_ns + 1)
        net.run(10)
        assert net.received("b") == [b"1", b"2", b"3"]
        assert net.received("a") == [b"back"]
        complete = [e for e in net.events["a"] if isinstance(e, SessionEnded) and e.cause == "complete"]
        assert len(complete) == sessions


def test_segments_grow_with_the_path_only_if_both_ends_offer_it() -> None:
    both = CentaurusConfig(extensions=Extension.PATH_MTU, segment_bytes=1300)
    net = Network("a", "b", config=both)
    for _ in range(2):  # the first session tells what the peer takes
        net.ends["a"].send("b", CLASS, bytes(2600), net.now_ns)
        net.run(3)
    sizes = [wire.read_packet(octets)["segment"] for *_, octets in net.wire if octets[17:19] == b"OB"]
    assert sizes == [512, 1300]
    assert net.received("b") == [bytes(2600)] * 2


def test_segments_that_the_path_swallows_are_cut_smaller() -> None:
    both = CentaurusConfig(extensions=Extension.PATH_MTU, segment_bytes=1300, cap_ns=11 * S)
    net = Network("a", "b", config=both, fate=lambda octets: perfect(octets) if len(octets) < 1000 else [])
    net.ends["a"].send("b", CLASS, b"first", net.now_ns)
    net.run(3)
    net.ends["a"].send("b", CLASS, bytes(2600), net.now_ns, lifetime_ns=300 * S)
    net.run(100)
    assert net.received("b") == [b"first", bytes(2600)]


def test_early_start_saves_a_round_trip_once_a_nonce_is_known() -> None:
    def took_ns(extensions: Extension) -> list[int]:
        net = Network("a", "b", config=CentaurusConfig(extensions=extensions))
        taken = []
        for _ in range(2):
            begin = net.now_ns
            net.ends["a"].send("b", CLASS, bytes(4096), begin)
            net.run(3)
            (told,) = [e for e in net.events["a"] if isinstance(e, ObjectDelivered) and e.time_ns >= begin]
            taken.append(told.time_ns - begin)
            assert told.segments_sent == 8
        assert net.received("b") == [bytes(4096)] * 2
        return taken

    round_trip = 100_000_000
    assert took_ns(Extension.NONE) == [2 * round_trip, 2 * round_trip]
    assert took_ns(Extension.EARLY_START) == [2 * round_trip, round_trip]


def test_no_segment_goes_early_under_a_nonce_of_the_same_session() -> None:
    """Else a late segment of the last object, which carries that nonce, would enter the next one."""
    both = CentaurusConfig(extensions=Extension.EARLY_START | Extension.SEVERAL)
    net = Network("a", "b", config=both)
    for text in (b"1", b"2", b"3"):
        net.ends["a"].send("b", CLASS, text, net.now_ns)
    net.run(3)
    net.ends["a"].send("b", CLASS, b"4", net.now_ns)
    net.run(3)
    offers = [wire.read_packet(octets) for *_, octets in net.wire if octets[17:19] == b"OB"]
    assert [offer["extensions"] >> 7 for offer in offers] == [0, 0, 0, 1]
    assert len({offer["session"] for offer in offers}) == 2
    assert net.received("b") == [b"1", b"2", b"3", b"4"]


def test_repeated_done_is_not_answered_again() -> None:
    net = Network("a", "b", fate=_losing(3))
    net.ends["a"].send("b", CLASS, bytes(1500), net.now_ns)
    net.run(0.2)
    done = [octets for *_, octets in net.wire if octets[17:19] == b"DN"]
    assert len(done) == 1
    for _ in range(3):
        net.post("a", "b", done[0])
    net.run(5)
    assert net.messages().count("b: PROCEED") == 2
    assert net.messages().count("b: ACK") == 1


def test_early_segments_are_kept_in_mind_when_proceed_comes_and_the_rest_follows() -> None:
    config = CentaurusConfig(extensions=Extension.EARLY_START, early_segments=3)
    net = Network("a", "b", config=config)
    for _ in range(2):
        net.ends["a"].send("b", CLASS, bytes(5000), net.now_ns)
        net.run(3)
    assert net.received("b") == [bytes(5000)] * 2
    assert net.messages().count("a: PK") == 20
    assert net.ends["b"].counters.duplicate_segments == 0
