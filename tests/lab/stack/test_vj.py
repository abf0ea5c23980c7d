"""Header compression by the vectors that agree with pppd byte for byte, and by its two ways to fail.

The packets come from 10.0.0.1:1025 to 10.0.0.2:80.
"""

from __future__ import annotations

import struct
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from multitracer.errors import LocalProtocolError
from multitracer.lab.vj import VjCompressor, VjDecompressor, VjError
from multitracer.protocols.l2r import PppProtocol
from tests.narrowed import known

IP, UNC, CMP = PppProtocol.IP, PppProtocol.VJ_UNCOMPRESSED, PppProtocol.VJ_COMPRESSED

_CONVERSATION = """
4500003200014000400626c30a0000010a00000204010050000003e8000013885010200019c10000 41x10 | UNC
4500003200024000400626c20a0000010a00000204010050000003f2000013885010200014b20000 42x10 | 0f14b2
4500003200034000400626c10a0000010a00000204010050000003fc00001388501820000f9b0000 43x10 | 1f0f9b
4500002800044000400626ca0a0000010a0000020401005000000406000013ec501020005f8f0000 | 0c5f8f640a
4500002900064000400626c70a0000010a00000204010050000004060000151850101fa41abe0000 44x1 | 261abe00ffa400012c02
4500002900074000400626c60a0000010a00000204010050000004070000151950101fa419bc0000 45x1 | 0b19bc
4500002b00084000400626c30a0000010a00000204010050000004070000151950101fa4d2730000 46x3 | UNC
4500015400094000400625990a0000010a000002040100500000040a0000151c50101fa499c70000 47x300 | 0b99c7
4500003c000a4000400626b00a0000010a00000204010050000005360000151c50101fa48aa40000 48x20 | 0f8aa4
45000029000b4000400626c20a0000010a000002040100500000054a0000151c50111fa414750000 49x1 | IP
"""


def _vector(line: str) -> tuple[bytes, tuple[int, bytes]]:
    left, _, want = line.partition(" | ")
    header, _, repeated = left.partition(" ")
    octet, _, times = repeated.partition("x")
    data = bytes.fromhex(octet or "00") * int(times or 0)
    packet = bytes.fromhex(header) + data
    if want == "IP":
        return packet, (IP, packet)
    if want == "UNC":
        return packet, (UNC, packet[:9] + b"\0" + packet[10:])
    return packet, (CMP, bytes.fromhex(want) + data)


VECTORS = [_vector(line) for line in _CONVERSATION.strip().splitlines()]


def test_the_conversation_compresses_as_pppd_does() -> None:
    compressor = VjCompressor()
    for packet, wire in VECTORS:
        assert compressor.compress(packet) == wire


def test_the_conversation_decompresses() -> None:
    decompressor = VjDecompressor()
    for packet, wire in VECTORS:
        assert decompressor.decompress(*wire) == packet


def test_with_slot_ids_always_sent_each_compressed_packet_names_its_slot() -> None:
    compressor, decompressor = VjCompressor(compress_slot_id=False), VjDecompressor()
    for packet, (protocol, wire) in VECTORS:
        got = compressor.compress(packet)
        if protocol == CMP:
            assert got == (CMP, bytes((wire[0] | 0x40, 0)) + wire[1:])
        assert decompressor.decompress(*got) == packet


# -- packets made here ---------------------------------------------------------------------------------


def _packet(**fields: Any) -> bytes:
    """Return a TCP packet with good checksums."""
    known: dict[str, Any] = {"id": 1, "seq": 1000, "ack": 5000, "flags": 0x10, "window": 8192, "urgent": 0, "data": b""}
    known |= {"tos": 0, "ttl": 64, "sport": 1025, "options": b"", "ip_options": b""} | fields
    ip_words, tcp_words = 5 + len(known["ip_options"]) // 4, 5 + len(known["options"]) // 4
    tcp = struct.pack(
        "!HHIIBBHHH",
        known["sport"],
        80,
        known["seq"] & 0xFFFFFFFF,
        known["ack"] & 0xFFFFFFFF,
        tcp_words << 4,
        known["flags"],
        known["window"],
        0,
        known["urgent"],
    )
    tcp += known["options"] + known["data"]
    addresses = bytes((10, 0, 0, 1, 10, 0, 0, 2))
    pseudo = addresses + struct.pack("!HH", 6, len(tcp))
    tcp = tcp[:16] + _checksum(pseudo + tcp) + tcp[18:]
    total = ip_words * 4 + len(tcp)
    head = 0x40 | ip_words, known["tos"], total, known["id"] & 0xFFFF, 0x4000, known["ttl"], 6, 0
    ip = struct.pack("!BBHHHBBH", *head) + addresses + known["ip_options"]
    return ip[:10] + _checksum(ip) + ip[12:] + tcp


def _checksum(data: bytes) -> bytes:
    total = sum(struct.unpack(f"!{len(data) // 2}H", data[: len(data) // 2 * 2]))
    total += data[-1] << 8 if len(data) % 2 else 0
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return (total ^ 0xFFFF).to_bytes(2)


def _has_good_tcp_checksum(packet: bytes) -> bool:
    ip = (packet[0] & 0x0F) * 4
    segment = packet[ip:]
    return _checksum(packet[12:20] + struct.pack("!HH", 6, len(segment)) + segment) == b"\0\0"


def _stream(count: int, size: int = 10) -> list[bytes]:
    return [_packet(id=i, seq=1000 + i * size, data=bytes((65 + i % 26,)) * size) for i in range(count)]


@pytest.mark.parametrize(
    "change",
    [
        {"tos": 8},
        {"ttl": 63},
        {"options": b"\1\1\1\1"},
        {"ip_options": b"\1\1\1\1"},
        {"seq": 999},
        {"ack": 4999},
        {"seq": 1000 + 0x10000},
        {"flags": 0x50},
        {"flags": 0x90},
        {"urgent": 7},
        {"seq": 1010, "ack": 5001, "window": 8193, "urgent": 1, "flags": 0x30},
        {"seq": 1010, "window": 8193, "urgent": 1, "flags": 0x30},
        {},
    ],
    ids=str,
)
def test_what_the_mask_cannot_say_goes_uncompressed(change: dict[str, Any]) -> None:
    compressor, decompressor = VjCompressor(), VjDecompressor()
    first, second = _packet(data=b"0123456789"), _packet(**{"id": 2, "data": b"0123456789"} | change)
    assert compressor.compress(first)[0] == UNC
    decompressor.decompress(*compressor.compress(_packet(data=b"0123456789", id=1)))
    protocol, wire = compressor.compress(second)
    assert protocol == UNC
    assert decompressor.decompress(protocol, wire) == second


@pytest.mark.parametrize("flags", [0x12, 0x11, 0x14, 0x00, 0x08])
def test_what_opens_or_ends_a_connection_goes_as_it_is(flags: int) -> None:
    packet = _packet(flags=flags)
    assert VjCompressor().compress(packet) == (IP, packet)


@pytest.mark.parametrize(
    "packet",
    [
        b"",
        b"\x45",
        bytes(60),
        _packet()[:39],
        _packet() + b"trailer",
        _packet()[:6] + b"\x20\x00" + _packet()[8:],
        _packet()[:6] + b"\x00\x01" + _packet()[8:],
        _packet()[:9] + b"\x11" + _packet()[10:],
        b"\x60" + bytes(59),
        b"\x44" + _packet()[1:],
    ],
)
def test_what_is_no_whole_tcp_packet_goes_as_it_is(packet: bytes) -> None:
    assert VjCompressor().compress(packet) == (IP, packet)


def test_the_slot_unused_for_longest_gives_way() -> None:
    compressor, decompressor = VjCompressor(slots=2), VjDecompressor(slots=2)
    slots = []
    for port in (1, 2, 1, 3, 2):
        protocol, wire = compressor.compress(_packet(sport=port, data=b"x"))
        assert protocol == UNC
        slots.append(wire[9])
        assert decompressor.decompress(protocol, wire) == _packet(sport=port, data=b"x")
    assert slots == [0, 1, 0, 1, 0]


def test_256_slots_are_the_most() -> None:
    compressor = VjCompressor(slots=256)
    used = {compressor.compress(_packet(sport=port))[1][9] for port in range(256)}
    assert used == set(range(256))
    for kind in (VjCompressor, VjDecompressor):
        with pytest.raises(LocalProtocolError, match="1 to 256"):
            kind(slots=257)


# -- loss ----------------------------------------------------------------------------------------------


def test_the_example_of_the_rfc_desynchronises_as_told() -> None:
    """RFC 1144, section 4: 1:A 2:BC 4:DE (lost) 6:F 7:GH arrive as 1:A 2:BC 4:F 5:GH."""
    compressor, decompressor = VjCompressor(), VjDecompressor()
    arrived = []
    for i, (seq, data) in enumerate([(1, b"A"), (2, b"BC"), (4, b"DE"), (6, b"F"), (7, b"GH")]):
        wire = compressor.compress(_packet(id=i, seq=seq, data=data))
        if data != b"DE":
            packet = known(decompressor.decompress(*wire))
            arrived.append((int.from_bytes(packet[24:28]), packet[40:], _has_good_tcp_checksum(packet)))
    assert arrived == [(1, b"A", True), (2, b"BC", True), (4, b"F", False), (5, b"GH", False)]


def _after_a_loss(*, compress_slot_id: bool) -> list[bytes | None]:
    """Lose the sixth of twenty packets, noticed by the framer; send the lost one again at the end."""
    compressor, decompressor = VjCompressor(compress_slot_id=compress_slot_id), VjDecompressor()
    packets = _stream(20)
    got: list[bytes | None] = []
    for i, packet in enumerate([*packets, packets[5]]):
        wire = compressor.compress(packet)
        if i == 5:
            decompressor.line_error()
        else:
            got.append(decompressor.decompress(*wire))
    return got


def test_with_implied_slot_ids_the_loss_is_seen_at_ppp() -> None:
    got = _after_a_loss(compress_slot_id=True)
    assert got[:5] == _stream(5)
    assert got[5:19] == [None] * 14
    assert got[19] == _stream(6)[5], "a retransmission goes uncompressed and ends it"


def test_with_named_slots_the_loss_is_seen_at_the_tcp_checksum() -> None:
    got = _after_a_loss(compress_slot_id=False)
    assert got[:5] == _stream(5)
    damaged = [packet for packet in got[5:19] if packet is not None]
    assert len(damaged) == 14
    assert not any(map(_has_good_tcp_checksum, damaged))
    offsets = {int.from_bytes(packet[24:28]) - (1000 + (i + 6) * 10) for i, packet in enumerate(damaged)}
    assert offsets == {-10}, "each is one segment too low"
    assert got[19] == _stream(6)[5]


def test_tossed_packets_are_counted() -> None:
    compressor, decompressor = VjCompressor(), VjDecompressor()
    wires = [compressor.compress(packet) for packet in _stream(4)]
    assert decompressor.tossing
    assert [decompressor.decompress(*wire) is None for wire in wires[1:]] == [True] * 3
    assert decompressor.tossed == 3
    assert decompressor.decompress(*wires[0]) == _stream(1)[0]
    assert not decompressor.tossing


@pytest.mark.parametrize(
    ("protocol", "octets"),
    [
        (CMP, ""),
        (CMP, "40"),
        (CMP, "4010" + "0000"),
        (CMP, "4000" + "aa"),
        (CMP, "4001" + "aabb"),
        (CMP, "4400aabb00"),
        (UNC, "4500"),
        (UNC, "45000028000140004000" + "00" * 30),
        (0xC021, "01"),
    ],
)
def test_what_no_compressor_writes_is_an_error_and_tosses(protocol: int, octets: str) -> None:
    decompressor = VjDecompressor()
    decompressor.decompress(*VjCompressor().compress(_packet()))
    with pytest.raises(VjError):
        decompressor.decompress(protocol, bytes.fromhex(octets))
    assert decompressor.tossing


# -- properties ----------------------------------------------------------------------------------------

steps = st.fixed_dictionaries(
    {
        "sport": st.sampled_from([1, 2, 3]),
        "id": st.sampled_from([0, 1, 1, 1, 2, 300]),
        "seq": st.sampled_from([0, 0, 1, 10, 256, 70_000, -5]),
        "ack": st.sampled_from([0, 0, 1, 10, 70_000, -5]),
        "window": st.sampled_from([8192, 8192, 8100, 9000, 0]),
        "flags": st.sampled_from([0x10, 0x10, 0x18, 0x30, 0x38, 0x11, 0x50]),
        "urgent": st.sampled_from([0, 0, 0, 5, 300]),
        "data": st.binary(max_size=12),
        "tos": st.sampled_from([0, 0, 0, 3]),
        "options": st.sampled_from([b"", b"", b"", b"\1\1\1\1"]),
    }
)


@given(st.lists(steps, max_size=40), st.booleans(), st.sampled_from([1, 2, 16]))
def test_any_conversation_survives_the_round_trip(
    changes: list[dict[str, Any]], compress_slot_id: bool, slots: int
) -> None:
    compressor = VjCompressor(slots=slots, compress_slot_id=compress_slot_id)
    decompressor = VjDecompressor(slots=slots)
    state = {port: {"id": 7, "seq": 2**32 - 20, "ack": 0} for port in (1, 2, 3)}
    for change in changes:
        at = state[change["sport"]]
        for name, value in at.items():
            at[name] = value + change[name]
        packet = _packet(**change | at)
        protocol, wire = compressor.compress(packet)
        assert decompressor.decompress(protocol, wire) == packet
        assert len(wire) <= len(packet)


@given(
    st.lists(
        st.tuples(st.sampled_from([IP, CMP, CMP, UNC, 0xC021]), st.binary(max_size=60)) | st.integers(0, 9), max_size=20
    )
)
def test_random_octets_raise_only_the_documented_error_and_a_full_header_repairs(
    received: list[tuple[int, bytes] | int],
) -> None:
    decompressor = VjDecompressor()
    for item in received:
        try:
            decompressor.decompress(*(VECTORS[item][1] if isinstance(item, int) else item))
        except VjError:
            assert decompressor.tossing
    packet = _packet(data=b"again")
    assert decompressor.decompress(*VjCompressor().compress(packet)) == packet
