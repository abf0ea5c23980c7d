"""What holds for CentaurusComm whatever the network does to its packets."""

from __future__ import annotations

import random
from collections import Counter
from typing import TYPE_CHECKING

from hypothesis import example, given
from hypothesis import strategies as st

from multitracer.protocols.centaurus.events import ClockCompared, Received
from multitracer.protocols.centaurus.messages import Bitmap, CentaurusConfig, Extension, decode, encode
from multitracer.protocols.centaurus.packet import CentaurusFrameReader, CentaurusPacket, frame, unseal
from tests.examples import examples
from tests.protocols import centaurus_wire as wire
from tests.protocols.centaurus_net import MS, Copy, Network, S, Scripted, perfect

if TYPE_CHECKING:
    from collections.abc import Callable

    from multitracer.protocols.centaurus.level1_udp import UdpWorker

LIFETIME_NS = 400 * S
MESSAGES = st.lists(
    st.tuples(st.sampled_from("ab"), st.integers(0, 2), st.integers(0, 3000), st.integers(0, 20_000)),
    min_size=1,
    max_size=6,
)
"""Who sends, in which class, how many bytes, how many ms after the last one."""
FATES = st.lists(st.tuples(st.integers(0, 2), st.integers(0, 12_000), st.none() | st.integers(0, 600)), max_size=40)
EXTENSIONS = st.integers(0, 7).map(Extension)


def _exchange(net: Network, messages: list[tuple[str, int, int, int]]) -> list[tuple[str, int, bytes]]:
    """Send the messages, and run until each must have its fate; return (sender, handle, data)."""
    sent = []
    for i, (sender, kind, size, pause_ms) in enumerate(messages):
        net.run(pause_ms / 1000)
        data = random.Random(i).randbytes(size)
        target = "b" if sender == "a" else "a"
        handle = net.ends[sender].send(target, kind, data, net.now_ns, lifetime_ns=LIFETIME_NS)
        sent.append((sender, handle, data))
    net.run(LIFETIME_NS / S + 60)
    return sent


def _check(net: Network, sent: list[tuple[str, int, bytes]]) -> None:
    fates = {name: net.fates_of(name) for name in net.ends}
    for sender, handle, data in sent:
        told = fates[sender][handle]
        assert len(told) == 1, f"told {told} of one object"
        got = net.received("b" if sender == "a" else "a")
        assert told == ["Expired"] or data in got
    for name in net.ends:
        arrived = Counter(net.received(name))
        assert not arrived - Counter(data for sender, _, data in sent if sender != name), "twice, or damaged"
        for event in net.events[name]:  # all ends have one clock here
            if isinstance(event, ClockCompared):
                assert abs(event.offset_ns) <= event.uncertainty_ns
    assert net.sent_again == 0
    assert not any(end.sessions for end in net.ends.values())
    assert all(end._shared.outgoing_bytes == 0 for end in net.ends.values())
    assert all(end._shared.partial_bytes == _partial_bytes(end) for end in net.ends.values())


def _partial_bytes(end: UdpWorker) -> int:
    parts = (part for peer in end.peers.values() for part in peer.acceptance.partials.values())
    return sum(len(data) + 100 for part in parts for data in part.segments.values())


@examples(120)
@given(MESSAGES, FATES, EXTENSIONS)
def test_each_message_is_delivered_whole_and_once_or_reported_failed(
    messages: list[tuple[str, int, int, int]], fates: list[tuple[int, int, int | None]], extensions: Extension
) -> None:
    net = Network("a", "b", config=CentaurusConfig(extensions=extensions), fate=Scripted(fates))
    sent = _exchange(net, messages)
    _check(net, sent)
    assert all(told == ["ObjectDelivered"] for name in net.ends for told in net.fates_of(name).values())


def _harsh(seed: int, loss: float) -> Callable[[bytes], list[Copy]]:
    chance = random.Random(seed)

    def fate(octets: bytes) -> list[Copy]:
        if chance.random() < loss:
            return []
        if chance.random() < 0.1:
            at = chance.randrange(len(octets))
            octets = octets[:at] + bytes((octets[at] ^ chance.randrange(1, 256),)) + octets[at + 1 :]
        delays = [chance.expovariate(1 / 300) for _ in range(1 + (chance.random() < 0.2))]
        return [Copy(round(delay * MS), octets) for delay in delays]

    return fate


@examples(25)
@example([("b", 0, 1, 0)] * 2, 155, 0.0, Extension(3))  # a late PK of the last object in the same session
@example([("b", 0, 513, 0), ("b", 0, 0, 265), ("a", 0, 0, 17677), ("a", 0, 0, 0)], 337, 0.6875, Extension(0))
@example([("a", 0, 0, 0)] * 4 + [("b", 0, 1, 0)], 134986, 0.0, Extension(5))
@given(MESSAGES, st.integers(0, 2**32), st.floats(0, 0.7), EXTENSIONS)
def test_endless_loss_costs_no_message_silently(
    messages: list[tuple[str, int, int, int]], seed: int, loss: float, extensions: Extension
) -> None:
    config = CentaurusConfig(extensions=extensions, cap_ns=40 * S)
    net = Network("a", "b", config=config, fate=_harsh(seed, loss))
    _check(net, _exchange(net, messages))


@examples(60)
@example(  # a copy that comes 5 s late is no answer to the last question: clocks seemed 5 s apart
    [("a", 0, 0, 0), ("a", 0, 0, 0), ("b", 0, 1, 17347), ("b", 0, 0, 0), ("b", 0, 0, 0)],
    [(0, 0, None), (0, 0, None), (2, 2604, None), (0, 0, None), (1, 1305, None), (0, 0, None)],
    Extension(2),
)
@example(  # a late offer opens a session anew, and a late answer of the one before it comes in it: 53 ms apart
    [("b", 0, 0, 0)], [(2, 103, None), (1, 0, None), (2, 2, None)], Extension(0)
)
@given(MESSAGES, FATES, EXTENSIONS)
def test_request_and_reply_survive_in_both_turns(
    messages: list[tuple[str, int, int, int]], fates: list[tuple[int, int, int | None]], extensions: Extension
) -> None:
    net = Network("a", "b", config=CentaurusConfig(extensions=extensions), fate=Scripted(fates))
    replies = []

    def reply(name: str, event: object) -> None:
        if name == "b" and isinstance(event, Received):
            data = b"reply to " + event.data
            handle = net.ends["b"].send("a", 9, data, net.now_ns, lifetime_ns=LIFETIME_NS)
            replies.append(("b", handle, data))

    net.on_event = reply
    sent = _exchange(net, messages)
    net.run(100)
    _check(net, sent + replies)
    assert len(net.received("a")) >= len(net.received("b"))


@given(st.binary(max_size=100), st.sampled_from([b"", b"PL", b"OB", b"RJ", b"PR", b"PK", b"DN", b"AK", b"NO"]))
def test_both_decoders_agree_on_any_octets(octets: bytes, letters: bytes) -> None:
    octets = letters + octets
    ours = decode(octets)
    try:
        wire.read_message(octets)
    except ValueError:
        assert ours is None
    else:
        assert ours is not None
        assert encode(ours) == octets


@given(st.binary(max_size=60))
def test_any_octets_are_a_packet_or_refused(octets: bytes) -> None:
    ours = unseal(octets)
    checked = wire.crc32(octets[:13] + octets[17:]) == int.from_bytes(octets[13:17], "big")
    assert isinstance(ours, CentaurusPacket) is (len(octets) >= 17 and octets[0] in (0x10, 0x11) and checked)


@given(st.lists(st.tuples(st.integers(0, 255), st.binary(max_size=80)), max_size=8), st.data())
def test_frames_are_found_in_whatever_pieces_they_come(frames: list[tuple[int, bytes]], data: st.DataObject) -> None:
    octets = b"".join(frame(station, packet) for station, packet in frames)
    assert wire.read_frames(octets) == frames
    reader, found, at = CentaurusFrameReader(), [], 0
    while at < len(octets):
        step = data.draw(st.integers(1, 20))
        found += reader.feed(octets[at : at + step])
        at += step
    assert [(station, packet) for station, packet in found] == frames


@given(st.binary(max_size=5000))
def test_noise_on_a_line_is_bounded_and_costs_no_later_frame(noise: bytes) -> None:
    reader = CentaurusFrameReader()
    reader.feed(noise)
    assert len(reader._gathered) <= 2 * 1442
    assert reader.feed(b"\x7e" + frame(3, b"packet"))[-1] == (3, b"packet")


@given(st.integers(0, 200), st.sets(st.integers(0, 199)))
def test_bitmap_is_what_a_list_of_bits_is(slots: int, held: set[int]) -> None:
    held = {slot for slot in held if slot < slots}
    bitmap = Bitmap(slots)
    for slot in held:
        bitmap.set(slot)
    assert wire.bits(bytes(bitmap), slots) == [int(slot in held) for slot in range(slots)]
    for first in (0, slots // 2):
        expected = next((slot for slot in range(first, slots) if slot not in held), None)
        assert bitmap.missing(first) == expected
    assert bitmap.is_full is (len(held) == slots)
    again = Bitmap.parse(bytes(bitmap), slots)
    assert again is not None
    assert bytes(again) == bytes(bitmap)
    if slots % 8:
        assert Bitmap.parse(bytes([*bytes(bitmap)[:-1], 0xFF]), slots) is None or held >= set(
            range(slots // 8 * 8, slots)
        )


def test_perfect_network_needs_no_packet_twice() -> None:
    net = Network("a", "b", fate=perfect)
    net.ends["a"].send("b", 1, bytes(200_000), net.now_ns)
    net.run(10)
    assert net.messages().count("a: PK") == 391
    assert len(net.received("b")) == 1
