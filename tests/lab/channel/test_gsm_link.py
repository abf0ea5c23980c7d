"""The whole data call: what goes in comes out, what a reset takes is in the books, a script is obeyed."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from multitracer.lab.channel.gsm import GsmLink, LinkConfig, OnAir
from multitracer.lab.channel.shared.frame_errors import ErrorConfig
from multitracer.lab.channel.shared.packet_link import SIDES, Side
from multitracer.lab.channel.shared.scheduler import ScriptEvent
from multitracer.lab.simulator.host import Datagram, build_datagram
from multitracer.lab.tcp.packet import Segment, TcpPacket, build_packet, parse_packet
from multitracer.protocols.link_events import (
    FrameSent,
    LinkEvent,
    PacketDropped,
    PppDamaged,
    PppReceived,
    PppSent,
    ResetStarted,
    T1Expired,
    XoffReceived,
    XonReceived,
)
from multitracer.units import NS_PER_MS, NS_PER_S
from tests.examples import examples

if TYPE_CHECKING:
    from multitracer.lab.channel.shared.packet_link import HostName

SLOT_NS = 20 * NS_PER_MS
CONFIG = LinkConfig()
LOSSY = ErrorConfig(kind="independent", rate=0.2)


def packet(number: int, *, payload: int = 460) -> bytes:
    segment = Segment(1, 2, number * payload, 0, 16, 0, bytes([number % 90 + 33]) * payload)
    return build_packet(TcpPacket(bytes([10, 0, 0, 1]), bytes([10, 0, 0, 2]), segment, identification=number & 0xFFFF))


@dataclass
class Drive:
    """A link that is driven slot by slot; each side offers packets as fast as its queue takes them."""

    config: LinkConfig = CONFIG
    script: tuple[ScriptEvent, ...] = ()
    seed: int = 1
    packets: dict[Side, int] = field(default_factory=lambda: {"mobile": 40, "fixed": 0})
    payload: int = 460
    queue_up_to: int = 5
    sent: dict[Side, list[bytes]] = field(default_factory=lambda: {side: [] for side in SIDES})
    received: dict[HostName, list[bytes]] = field(default_factory=lambda: {side: [] for side in SIDES})
    events: dict[Side, list[LinkEvent]] = field(default_factory=lambda: {side: [] for side in SIDES})
    on_air: list[OnAir] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.link = GsmLink(self.config, seed=self.seed, script=self.script, on_air=self.on_air.append)

    def slot(self) -> None:
        now_ns = (self.link.slot + 1) * SLOT_NS
        if self.link.is_up or self.sent["mobile"]:
            for side in SIDES:
                while len(self.sent[side]) < self.packets[side] and len(self.link.ends[side].queue) < self.queue_up_to:
                    self.sent[side].append(packet(len(self.sent[side]), payload=self.payload))
                    self.link.send(side, self.sent[side][-1], now_ns=now_ns)
        for delivery in self.link.tick(now_ns):
            self.received[delivery.host].append(delivery.packet)
        for side in SIDES:
            self.events[side] += self.link.events(side)

    @property
    def is_done(self) -> bool:
        all_sent = all(len(self.sent[side]) == self.packets[side] for side in SIDES)
        return self.link.is_dropped or (all_sent and self.link.is_drained and self.link.is_up)

    def run(self, *, seconds: float = 600) -> Drive:
        while not self.is_done and self.link.slot * SLOT_NS < seconds * NS_PER_S:
            self.slot()
            assert self.link.balance().is_even, self.link.balance()
        return self

    def all_events(self, kind: type) -> list[LinkEvent]:
        return [event for side in SIDES for event in self.events[side] if isinstance(event, kind)]


failed_slots = st.sets(st.integers(40, 400), max_size=150).map(lambda slots: tuple((slot, 1) for slot in sorted(slots)))


@examples(40)
@given(up=failed_slots, down=failed_slots, compression=st.sampled_from(["none", "vj", "vj-slot-id"]))
def test_any_frame_errors_short_of_a_reset_deliver_every_packet_in_order(
    up: tuple[tuple[int, int], ...], down: tuple[tuple[int, int], ...], compression: str
) -> None:
    config = replace(
        CONFIG,
        n2=200,
        header_compression=compression,  # type: ignore[arg-type]
        up=ErrorConfig(kind="replay", replayed=up),
        down=ErrorConfig(kind="replay", replayed=down),
    )
    drive = Drive(config, packets={"mobile": 12, "fixed": 8}).run()
    assert drive.received["fixed"] == drive.sent["mobile"]
    assert drive.received["mobile"] == drive.sent["fixed"]
    assert drive.all_events(ResetStarted) == []
    assert drive.link.balance().flushed == 0
    lost = {frame.arrival_slot for frame in drive.on_air if frame.lost and frame.side == "mobile"}
    assert lost == {slot for slot, _ in up if slot <= drive.link.slot}


resets = st.lists(
    st.builds(
        ScriptEvent, kind=st.just("reset"), at_s=st.floats(0, 12), direction=st.sampled_from(["up", "down", "both"])
    ),
    max_size=6,
)


@examples(40)
@given(
    script=resets,
    seed=st.integers(0, 99),
    rate=st.sampled_from([0.0, 0.1, 0.3]),
    n2=st.integers(1, 8),
    drops=st.booleans(),
)
def test_the_books_balance_and_order_holds_whatever_is_reset(
    script: list[ScriptEvent], seed: int, rate: float, n2: int, drops: bool
) -> None:
    errors = ErrorConfig(kind="independent", rate=rate)
    exhausted = "drop-call" if drops else "reset"
    config = replace(CONFIG, n2=n2, up=errors, down=errors, when_exhausted=exhausted)  # type: ignore[arg-type]
    drive = Drive(config, tuple(script), seed, packets={"mobile": 15, "fixed": 10}).run(seconds=60)
    for side, far in (("mobile", "fixed"), ("fixed", "mobile")):
        arrived = drive.received[far]
        assert arrived == [p for p in drive.sent[side] if p in arrived]  # type: ignore[index]
    balance = drive.link.balance()
    if not drive.all_events(ResetStarted) and not drive.link.is_dropped:
        assert balance.flushed == 0


def test_a_reset_flushes_what_was_under_way_and_the_damage_is_seen() -> None:
    drive = Drive(script=(ScriptEvent(kind="reset", at_s=8),)).run()
    assert 0 < drive.link.balance().flushed < 3_000
    assert len(drive.received["fixed"]) < 40
    assert [event.cause for event in drive.all_events(ResetStarted)] == ["forced", "peer"]  # type: ignore[union-attr]
    assert drive.all_events(PppDamaged)


@pytest.mark.parametrize(("compression", "wrong"), [("vj", 0), ("vj-slot-id", 1)])
def test_what_a_lost_header_does_depends_on_the_slot_id(compression: str, wrong: int) -> None:
    """RFC 1144, section 4: tossed at PPP, or wrong at TCP."""
    config = replace(CONFIG, header_compression=compression)  # type: ignore[arg-type]
    drive = Drive(config, (ScriptEvent(kind="reset", at_s=8),)).run()
    arrived = [parse_packet(data) for data in drive.received["fixed"]]
    damaged = [p for p in arrived if not p.checksum_ok]
    assert (len(damaged) > 0) is bool(wrong)
    assert len(arrived) < 40


def shortest_reset_fade_s(n2: int, direction: str) -> float:
    """Return the shortest total fade that resets a busy link, by bisection."""

    def resets(slots: int) -> bool:
        fade = ScriptEvent(kind="fade", at_s=4, duration_s=slots * 0.02, direction=direction)  # type: ignore[arg-type]
        drive = Drive(replace(CONFIG, n2=n2), (fade,), packets={"mobile": 60, "fixed": 0})
        while drive.link.slot * SLOT_NS < (10 + slots * 0.02) * NS_PER_S:
            drive.slot()
        return bool(drive.all_events(ResetStarted))

    low, high = 10, 40 * n2
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if resets(middle) else (middle, high)
    return high * 0.02


@pytest.mark.parametrize("direction", ["up", "down", "both"])
@pytest.mark.parametrize("n2", [6, 10, 20])
def test_the_shortest_fade_that_resets_the_link_is_n2_times_t1(n2: int, direction: str) -> None:
    assert shortest_reset_fade_s(n2, direction) == pytest.approx(n2 * 0.480, rel=0.1)


@pytest.mark.parametrize("stop_by", ["x-bit", "rnr"])
def test_the_far_end_throttles_1200_to_960_bytes_a_second(stop_by: str) -> None:
    drive = Drive(replace(CONFIG, stop_by=stop_by), packets={"mobile": 100, "fixed": 0}).run()  # type: ignore[arg-type]
    sent = [e for e in drive.events["mobile"] if isinstance(e, FrameSent) and e.offset_bytes is not None]
    gaps = [(a, b) for a, b in itertools.pairwise(sent) if b.tick - a.tick > 10]
    silent = sum(b.tick - a.tick - 1 for a, b in gaps)
    on_rate = sent[-1].offset_bytes / (sent[-1].tick - sent[0].tick - silent) / 0.02  # type: ignore[operator]

    assert on_rate == pytest.approx(1_200, rel=0.02)
    assert len(gaps) >= 5
    assert all(0.95 <= (b.tick - a.tick - 1) * 0.02 <= 1.35 for a, b in gaps)


def test_xoff_and_xon_alternate() -> None:
    drive = Drive(packets={"mobile": 60, "fixed": 0}).run()
    kinds = [type(e) for e in drive.events["mobile"] if isinstance(e, XoffReceived | XonReceived)]
    assert kinds[:4] == [XoffReceived, XonReceived] * 2


def test_a_packet_alone_takes_its_bytes_at_1200_and_the_pipe() -> None:
    drive = Drive(packets={"mobile": 1, "fixed": 0}, payload=200)
    while not drive.sent["mobile"]:
        drive.slot()
    started = drive.link.slot
    while not drive.received["fixed"]:
        drive.slot()
    octets = 200 + 40 + 8
    frames = -(-octets // 24)
    drained = octets / 19.2
    assert drive.link.slot - started == pytest.approx(CONFIG.pipe_slots + max(frames, drained), abs=2)


def test_a_frame_is_on_the_way_for_the_length_of_the_pipe() -> None:
    drive = Drive(packets={"mobile": 2, "fixed": 0}).run()
    assert {frame.arrival_slot - frame.sent_slot for frame in drive.on_air} == {CONFIG.pipe_slots}


def test_each_frame_after_an_idle_line_opens_with_a_flag() -> None:
    drive = Drive(packets={"mobile": 1, "fixed": 0}).run()
    drive.packets["mobile"] = 2
    drive.run()
    sizes = [e.wire_bytes for e in drive.events["mobile"] if isinstance(e, PppSent)]
    assert sizes == [len(packet(0)) + 8] * 2  # two flags, four octets of header, two of FCS


def test_the_call_may_be_dropped_instead_of_reset() -> None:
    fade = ScriptEvent(kind="fade", at_s=4, duration_s=10, direction="both")
    drive = Drive(replace(CONFIG, when_exhausted="drop-call"), (fade,)).run()
    assert drive.link.is_dropped
    before = len(drive.all_events(PacketDropped))
    assert not drive.link.send("mobile", packet(99), now_ns=0) or not drive.link.send("fixed", packet(99), now_ns=0)
    drive.events["mobile"] += drive.link.events("mobile")
    drive.events["fixed"] += drive.link.events("fixed")
    assert len(drive.all_events(PacketDropped)) > before
    assert drive.link.balance().is_even


def test_scripted_drops_are_silent_and_logged() -> None:
    drive = Drive(script=(ScriptEvent(kind="drop", at_s=3, packets=2),)).run()
    assert len(drive.received["fixed"]) == 38
    assert [event.cause for event in drive.all_events(PacketDropped)] == ["script", "script"]  # type: ignore[union-attr]


def test_a_far_terminal_that_stops_reading_stops_the_sender() -> None:
    drive = Drive(script=(ScriptEvent(kind="xoff", at_s=2, duration_s=20),)).run()
    frames = [e for e in drive.events["mobile"] if isinstance(e, FrameSent) and e.offset_bytes is not None]
    longest = max(b.tick - a.tick for a, b in itertools.pairwise(frames))
    assert 17 < longest * 0.02 < 21
    assert drive.received["fixed"] == drive.sent["mobile"]


def test_an_event_may_wait_for_a_retransmission() -> None:
    script = (ScriptEvent(kind="reset", at_s=1, after="retransmission", nth=2),)
    drive = Drive(script=script, packets={"mobile": 10, "fixed": 0}).run()
    assert drive.all_events(ResetStarted) == []
    for _ in range(2):
        drive.link.send("mobile", packet(3), now_ns=drive.link.slot * SLOT_NS)
    begin = drive.link.slot
    while not drive.all_events(ResetStarted):
        drive.slot()
    assert drive.all_events(ResetStarted)[0].tick - begin == pytest.approx(50, abs=1)


def test_a_fade_counts_from_the_first_packet() -> None:
    drive = Drive(script=(ScriptEvent(kind="fade", at_s=2, duration_s=0.5),)).run()
    lost = [frame for frame in drive.on_air if frame.lost]
    first_packet = next(e.tick for e in drive.events["mobile"] if type(e).__name__ == "PacketQueued")
    assert [frame.side for frame in lost] == ["mobile"] * 25
    assert lost[0].arrival_slot - first_packet == pytest.approx(100, abs=1)


# --- error control by protocol (reference 14 of paper 004) ---


def _datagram_delays_s(config: LinkConfig, *, seconds: int = 120) -> tuple[int, dict[int, float], Drive]:
    """Send a datagram each second against TCP's data; return how many, and the delay of those that arrived."""
    drive = Drive(config, packets={"mobile": 400, "fixed": 0})
    sent_ns: dict[int, int] = {}
    delay_s: dict[int, float] = {}
    for slot in range(seconds * 50):
        now_ns = (drive.link.slot + 1) * SLOT_NS
        if drive.link.is_up and slot % 50 == 0 and slot < (seconds - 20) * 50:
            number = len(sent_ns) + 1
            sent_ns[number] = now_ns
            octets = Datagram(bytes([10, 0, 0, 2]), 7000, bytes([10, 0, 0, 1]), 7000, b"v" * 100)
            drive.link.send("fixed", build_datagram(octets, identification=number), now_ns=now_ns)
        drive.slot()
        for data in drive.received["mobile"]:
            number = int.from_bytes(data[4:6], "big")
            delay_s.setdefault(number, (now_ns - sent_ns[number]) / NS_PER_S)
    return len(sent_ns), delay_s, drive


SHADOWS = ErrorConfig(kind="gilbert-elliott", good_s=10.0, bad_s=1.0)


def test_by_protocol_a_datagram_is_sent_once_and_never_late() -> None:
    config = replace(CONFIG, down=SHADOWS, n2=20)
    sent, repeated_s, _ = _datagram_delays_s(config)
    assert len(repeated_s) == sent
    assert max(repeated_s.values()) > 1
    sent, unrepeated_s, drive = _datagram_delays_s(replace(config, error_control="by-protocol"))
    assert 0.7 * sent < len(unrepeated_s) < sent
    assert max(unrepeated_s.values()) < 0.5
    assert drive.link.balance().is_even
    written = [event for event in drive.events["fixed"] if isinstance(event, PppSent) and event.offset_bytes is None]
    came = [each for each in drive.events["mobile"] if isinstance(each, PppReceived) and each.seq is None]
    assert [event.ip_id for event in written] == list(range(1, sent + 1))
    assert [event.ip_id for event in came] == list(unrepeated_s)
    assert {event.ip_bytes for event in came} == {128}


def test_by_protocol_tcp_is_repeated_as_before() -> None:
    both = replace(CONFIG, up=SHADOWS, down=SHADOWS, n2=20)
    drives = [_datagram_delays_s(replace(both, error_control=how))[2] for how in ("reliable", "by-protocol")]
    for drive in drives:
        arrived = drive.received["fixed"]
        assert len(arrived) > 100
        assert arrived == drive.sent["mobile"][: len(arrived)]
    polls = [sum(isinstance(event, T1Expired) for event in drive.events["mobile"]) for drive in drives]
    assert polls[1] < 2 * polls[0] + 5, "UI frames leave slots for acknowledgments"
