"""Makes captures that nobody would write: by grammar, and by mutating real ones; and says what must hold.

Everything follows from the seed, so a failure is repeated by its seed alone.
"""

from __future__ import annotations

import io
import struct
from typing import TYPE_CHECKING

import numpy as np

from multitracer.errors import FormatError
from parsers import erf, pcap, pcapng, snoop
from tests.parsers import frames as build
from tests.parsers.test_erf import record
from tests.parsers.test_link_types import FRAMES, TUNNELS
from tests.parsers.test_snoop import snoop_file
from tests.parsers.test_udp_tunnels import TUNNELS as UDP_TUNNELS
from tests.parsers.test_udp_tunnels import gtpu, udp
from tests.parsers.test_wrong_links import misplaced, qmap, sll, sll2

if TYPE_CHECKING:
    import random
    from collections.abc import Callable

    from multitracer.capture import CaptureTables

_NUMBERS = (0, 1, 2, 3, 4, 7, 8, 11, 12, 16, 28, 32, 127, 128, 255, 256, 1500, 65_535, 65_536, 262_144,
            262_145, 1 << 24, (1 << 31) - 1, 1 << 31, (1 << 32) - 4, (1 << 32) - 1)  # fmt: skip
LINKS = sorted({link_type for link_type, _ in FRAMES.values()})


def options(rng: random.Random) -> bytes:
    """Return TCP or IP options, mostly sane."""
    sack = b"\x05" + bytes([2 + 8 * rng.randint(0, 4)]) + rng.randbytes(8 * rng.randint(0, 4))
    mptcp = b"\x1e" + bytes([rng.randint(0, 20)]) + rng.randbytes(6)
    timestamps = b"\x08\x0a" + rng.randbytes(8)
    kinds = [b"\x01", b"\x00", timestamps, b"\x02\x04\x05\xb4", b"\x03\x03\x07", b"\x04\x02", sack, mptcp]
    kinds += [b"\x22\x02", rng.randbytes(3)]
    return b"".join(rng.choice(kinds) for _ in range(rng.randint(0, 6)))[:40]


def segment(rng: random.Random) -> bytes:
    """Return a TCP segment of a few connections."""
    made = build.tcp(
        sport=rng.choice((1000, 1001, 80)),
        dport=rng.choice((80, 443)),
        seq=rng.choice((0, 1, 1000, 2**32 - 10, rng.getrandbits(32))),
        ack=rng.getrandbits(32),
        flags=rng.getrandbits(9),
        window=rng.choice(_NUMBERS) & 0xFFFF,
        options=options(rng),
        payload=rng.randbytes(rng.choice((0, 0, 1, 10, 1400))),
    )
    return broken(rng, made) if rng.random() < 0.1 else made


def in_udp(rng: random.Random, inside: bytes) -> bytes:
    """Return a datagram of UDP with an IP packet in one of the tunnels in UDP."""
    vni = rng.choice(_NUMBERS) & 0xFFFFFF00
    extensions = ((0x85, b"\x10\x09"), (0xC0, bytes(6)))[: rng.randint(0, 2)]
    made = (
        gtpu(inside, extensions=extensions, sequence=rng.choice((None, 7)), message=rng.choice((255, 255, 1, 254))),
        struct.pack(">II", 0x08 << 24, vni) + build.ethernet(inside),
        struct.pack(">BHBI", 0x0C, 0, rng.randint(0, 6), vni) + inside,
        struct.pack(">BBHII", 1, 0, 0x0800, vni, rng.choice((0x01020100, 0x01020101))) + inside,
        struct.pack(">HHH", 2, 4, 5) + b"\xff\x03\0\x21" + inside,
        struct.pack(">HHI", 3, 0, 99) + bytes(rng.choice((0, 4, 8))) + build.ethernet(inside),
        rng.choice((b"", b"\0\0" + bytes(6))) + inside,
    )
    number = rng.randrange(len(made))
    port = (2152, rng.choice((4789, 8472)), 4790, 6081, 1701, 1701, 3544)[number]
    return udp(made[number], port, sport=rng.choice((40_000, 2152)), length=rng.choice((None, None, None, 0, 40)))


def in_cooked(rng: random.Random, inside: bytes) -> tuple[int, bytes]:
    """Return link type and frame of a cooked capture, with QMAP or with a misplaced tag; or of QMAP alone."""
    many = b"".join(qmap(inside, mux=rng.randint(1, 3), five=rng.random() < 0.5) for _ in range(rng.randint(1, 3)))
    made = ((113, sll(many)), (276, sll2(many)), (101, many), (12, many))
    if inside and rng.random() < 0.5:
        return misplaced(inside, vlan=rng.choice((1, 249, 2048, 4094)), version=rng.choice((1, 2)), with_type=True)
    return rng.choice(made)


def packet(rng: random.Random, depth: int = 0) -> bytes:
    """Return an IP packet, perhaps with another one inside."""
    inside = segment(rng) if depth > 2 or rng.random() < 0.8 else packet(rng, depth + 1)
    protocol = rng.choice((6, 6, 6, 6, 4, 41, 47, 17, 0, 44, 51, 60, 97, 115, 137))
    if depth < 3 and rng.random() < 0.15:
        inside, protocol = in_udp(rng, packet(rng, depth + 1)), 17
    if rng.random() < 0.3:
        return build.ipv6(
            inside, next_header=protocol, length=rng.choice((None, None, 0, rng.choice(_NUMBERS) & 0xFFFF))
        )
    fragment = rng.choice((0, 0, 0, 0x2000, 0x2001, 185, 0x20B9, rng.getrandbits(16)))
    total = rng.choice((None, None, None, 0, rng.choice(_NUMBERS) & 0xFFFF))
    return build.ipv4(inside, protocol=protocol, fragment=fragment, total=total, options=options(rng),
                      identification=rng.randint(0, 3))  # fmt: skip


def broken(rng: random.Random, data: bytes) -> bytes:
    """Return data with some bytes changed, inserted, removed or cut off."""
    changed = bytearray(data)
    for _ in range(rng.randint(1, 4)):
        at = rng.randrange(len(changed) + 1)
        match rng.randrange(6):
            case 0 if changed:
                changed[at % len(changed)] ^= 1 << rng.randrange(8)
            case 1:
                number = rng.choice(_NUMBERS)
                changed[at : at + 4] = struct.pack(rng.choice("<>") + "I", number)
            case 2:
                del changed[at : at + rng.choice((1, 2, 4, 16, 100))]
            case 3:
                changed[at:at] = rng.randbytes(rng.choice((1, 2, 4, 16)))
            case 4:
                del changed[at:]
            case _:
                changed[at:at] = changed[at : at + rng.choice((4, 16, 60, 200))]
    return bytes(changed)


def overwritten(rng: random.Random, data: bytes) -> bytes:
    """Return data with some bytes changed where they are, behind the header of a pcap file."""
    changed = bytearray(data)
    for _ in range(rng.randint(1, 4)):
        at = rng.randrange(min(24, len(changed)), len(changed) + 1)
        number = struct.pack("<I", rng.choice((rng.getrandbits(32), *_NUMBERS)))
        size = min(rng.choice((1, 2, 4)), len(changed) - at)
        changed[at : at + size] = number[:size]
    return bytes(changed)


def link_frame(rng: random.Random, link_type: int) -> bytes:
    """Return a frame of a link type: its usual headers, then any packet."""
    known = [data for number, data in FRAMES.values() if number == link_type]
    if not known or rng.random() < 0.1:
        return rng.randbytes(rng.choice((0, 1, 20, 60, 200)))
    frame = rng.choice(known)
    if rng.random() < 0.7:
        tunnels = (rng.choice(list(TUNNELS.values())), rng.choice(list(UDP_TUNNELS.values()))[14:])
        frame = frame[: max(len(frame) - 47, 0)] + rng.choice((packet(rng), *tunnels))
    if link_type in (12, 101, 113, 276) and rng.random() < 0.5:
        chosen, cooked = in_cooked(rng, packet(rng))
        frame = cooked if chosen == link_type else frame
    return broken(rng, frame) if rng.random() < 0.3 else frame


def pcap_by_grammar(rng: random.Random) -> bytes:
    """Return a pcap file of any dialect."""
    link_type = rng.choice((1, 1, 1, *LINKS))
    packets = []
    for _ in range(rng.choice((0, 1, 5, 40, 3000 if rng.random() < 0.05 else 10))):
        data = link_frame(rng, link_type)
        kept = data[: rng.choice((None, None, 96, 54, rng.randint(0, 80)))]
        packets.append(build.Packet(kept, rng.choice((None, rng.getrandbits(50))), len(data)))
    magic = rng.choice((0xA1B2C3D4, 0xA1B23C4D, 0xA1B2CD34, 0x1C0001AB))
    return build.pcap_file(
        packets,
        link_type=link_type,
        order=rng.choice("<>"),
        magic=magic,
        version=rng.choice(((2, 4), (2, 4), (2, 3), (2, 2), (543, 0))),
        extra=bytes(4) if magic == 0x1C0001AB else b"",
        record_extra=bytes(8) if magic == 0xA1B2CD34 else b"",
        swapped=rng.random() < 0.1,
    )


def pcapng_by_grammar(rng: random.Random) -> bytes:
    """Return a pcapng file with blocks in any order."""
    order = rng.choice("<>")
    out = [build.section(order)]
    if rng.random() < 0.9:
        out += [build.interface(link_type, order=order) for link_type in (1, 101)]
    for _ in range(rng.choice((1, 10, 50))):
        if rng.random() < 0.02:
            order = rng.choice("<>")
            out += [build.section(order), build.interface(order=order), build.interface(101, order=order)]
        out.append(any_block(rng, order) if rng.random() < 0.3 else _good_packet(rng, order))
    if rng.random() < 0.5:
        at = rng.randrange(len(out))
        out[at] = broken(rng, out[at])
    return b"".join(out)


def _good_packet(rng: random.Random, order: str) -> bytes:
    number = rng.randint(0, 1)
    data = link_frame(rng, (1, 101)[number])
    comment = rng.choice((b"", build.option(rng.randint(0, 4), rng.randbytes(rng.randint(0, 9)), order)))
    return build.enhanced(data, number=number, options=comment, order=order)


def any_block(rng: random.Random, order: str) -> bytes:
    data = link_frame(rng, 1)
    words = build.option(rng.randint(0, 12), rng.randbytes(rng.randint(0, 9)), order)
    match rng.randrange(6):
        case 0:
            resolution = build.option(9, bytes([rng.choice((6, 9, 0, 3, 12, 0x8A, 0xBF, 0xFF, 127))]), order)
            offset = build.option(14, struct.pack(order + "q", rng.choice((0, 5, -(2**62)))), order)
            described = rng.choice((b"", resolution, resolution + offset, words))
            return build.interface(rng.choice(LINKS), rng.choice((0, 96, 2**32 - 1)), described, order)
        case 1:
            return build.simple(data, order=order)
        case 2:
            return build.obsolete(data, rng.getrandbits(64), number=rng.randint(0, 1), order=order)
        case 3:
            return build.section(order, words) + build.interface(order=order)
        case 4:
            return build.enhanced(data, rng.getrandbits(64), number=rng.randint(0, 5), order=order)
        case _:
            kind = rng.choice((4, 5, 7, 9, 10, 0x0BAD, 0x40000BAD, 77))
            return build.block(kind, rng.randbytes(40), order)


def snoop_by_grammar(rng: random.Random) -> bytes:
    """Return a snoop file, now and then of another link type, or with a stamp that cannot be."""
    packets = []
    for _ in range(rng.choice((0, 1, 5, 40))):
        data = link_frame(rng, 1)
        kept = data[: rng.choice((None, None, 96, 54, rng.randint(0, 80)))]
        packets.append((kept, len(data), rng.getrandbits(32), rng.choice((0, 5, 999_999, 1 << 31))))
    return snoop_file(packets, link=rng.choice((4, 4, 4, 0, 2, 8, 9)))


def erf_by_grammar(rng: random.Random) -> bytes:
    """Return an ERF file of Ethernet, raw IP and whatever else."""
    headers, out = rng.choice((0, 0, 1, 3)), []
    for number in range(rng.choice((5, 8, 40))):
        data = link_frame(rng, 1)
        kind = 2 if rng.random() < 0.9 else rng.choice((1, 3, 10, 21, 22, 24, 27, 48))
        time_ns = build.EPOCH_S * 10**9 + number * rng.choice((1000, 10**9))
        out.append(record(data[:1500], len(data), time_ns, kind=kind, headers=headers))
    return b"".join(out)


GRAMMARS: tuple[Callable[[random.Random], bytes], ...] = (
    pcap_by_grammar,
    pcapng_by_grammar,
    snoop_by_grammar,
    erf_by_grammar,
)


def any_capture(rng: random.Random, samples: list[bytes]) -> bytes:
    """Return a capture by grammar, a damaged one, or a damaged sample."""
    if samples and rng.random() < 0.4:
        return broken(rng, rng.choice(samples))
    made = rng.choice(GRAMMARS)(rng)
    return broken(rng, made) if rng.random() < 0.4 else made


def read_or_refuse(data: bytes) -> CaptureTables | None:
    """Return what the bytes hold, or None if they were refused as they may be."""
    refused = None
    try:
        return parser_of(data)(io.BytesIO(data), path="fuzz")
    except FormatError as error:
        refused = error
    assert (refused.path, refused.offset is None, bool(refused.reason)) == ("fuzz", False, True)
    return None


def parser_of(data: bytes) -> Callable[..., CaptureTables]:
    """Return what reads the bytes; pcap's, which refuses it, of what nobody knows."""
    if data[:4] == b"\n\r\r\n":
        return pcapng.parse
    if data[:8] == b"snoop\0\0\0":
        return snoop.parse
    return erf.parse if erf.FORMAT.sniff(data[:4096]) == "yes" else pcap.parse


def check(capture: CaptureTables) -> None:
    """Check what holds of every capture, however damaged its file was."""
    (facts,) = capture.files
    table, flows = capture.segments, capture.flows
    assert sum(facts.protocols.values()) + sum(facts.not_decoded.values()) == facts.packets
    assert sum(facts.link_types.values()) == facts.packets
    copies = facts.duplicates.packets if facts.duplicates else 0
    assert facts.protocols.get("tcp", 0) == len(table) + copies
    assert all(count > 0 for count in (*facts.protocols.values(), *facts.not_decoded.values()))
    frames = table["frame"].astype(np.int64)
    assert (np.diff(frames) > 0).all()
    assert ((frames >= 1) & (frames <= facts.packets)).all()
    assert ((table["flow"] >= 0) & (table["flow"] < 2 * len(flows))).all()
    _, first = np.unique(table["flow"] >> 1, return_index=True)
    assert (np.diff(first) > 0).all(), "flows are not in order of first sight"
    assert (table["flow"][first] & 1 == 0).all(), "the first segment of a flow is not its endpoint a's"
    assert len(first) == len(flows)
    assert (table["payload_bytes"] >= 0).all()
    assert (np.diff(capture.sack_blocks["row"]) >= 0).all()
    counted = np.bincount(capture.sack_blocks["row"], minlength=len(table))
    assert (counted == table["sack_blocks"]).all()
    assert capture.syn_options["row"].tolist() == np.flatnonzero(table["flags"] & 2).tolist()
    if facts.first_ns is not None and facts.last_ns is not None:
        assert facts.first_ns <= facts.last_ns
