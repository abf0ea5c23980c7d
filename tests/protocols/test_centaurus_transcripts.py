"""Octets that must not change: every message, and whole sessions on both media (docs/centauruscomm.md)."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any

import pytest

from multitracer.protocols.centaurus.level1_serial import SerialMaster, SerialSlave
from multitracer.protocols.centaurus.level1_udp import UdpWorker
from multitracer.protocols.centaurus.messages import (
    CentaurusConfig,
    Message,
    Nope,
    Obj,
    ObjectAck,
    ObjectDone,
    Offer,
    Pk,
    Poll,
    Proceed,
    Rej,
    decode,
    encode,
)
from tests.protocols import centaurus_wire as wire

if TYPE_CHECKING:
    from collections.abc import Callable

    from multitracer.protocols.centaurus.worker import Worker

NOW_NS = 0x0102030405060708
OFFER = Offer(5, 1400)

MESSAGES: dict[str, tuple[Message, dict[str, Any]]] = {
    "504c050578": (Poll(OFFER), {"message": "POLL", "extensions": 5, "longest": 1400}),
    "4f42001101020304050607080000044c0000ea600200a0b0c0d00505780000": (
        Obj(17, NOW_NS, 1100, 60_000, 512, 0xA0B0C0D0, OFFER, 2),
        {"message": "OBJ", "class": 17, "stamp": NOW_NS, "size": 1100, "lifetime_ms": 60_000, "segment": 512,
         "token": 0xA0B0C0D0, "extensions": 5, "longest": 1400, "zeros": bytes(2)},
    ),
    "524a0011010203040506070802": (
        Rej(17, NOW_NS, 2), {"message": "REJ", "class": 17, "stamp": NOW_NS, "reason": 2},
    ),
    "505200110102030405060708a0b0c0d00105057805": (
        Proceed(17, NOW_NS, 0xA0B0C0D0, 1, OFFER, b"\x05"),
        {"message": "PROCEED", "class": 17, "stamp": NOW_NS, "nonce": 0xA0B0C0D0, "round": 1, "extensions": 5,
         "longest": 1400, "bitmap": b"\x05"},
    ),
    "504b0002a0b0c0d068656c6c6f": (
        Pk(2, 0xA0B0C0D0, b"hello"), {"message": "PK", "slot": 2, "nonce": 0xA0B0C0D0, "data": b"hello"},
    ),
    "444ea0b0c0d003": (ObjectDone(0xA0B0C0D0, 3), {"message": "DONE", "nonce": 0xA0B0C0D0, "round": 3}),
    "414b00110102030405060708": (ObjectAck(17, NOW_NS), {"message": "ACK", "class": 17, "stamp": NOW_NS}),
    "4e4f01050578": (Nope(1, OFFER), {"message": "NOPE", "turn": 1, "extensions": 5, "longest": 1400}),
}  # fmt: skip


@pytest.mark.parametrize("octets", MESSAGES)
def test_message_octets(octets: str) -> None:
    message, fields = MESSAGES[octets]
    assert encode(message).hex() == octets
    assert decode(bytes.fromhex(octets)) == message
    assert wire.read_message(bytes.fromhex(octets)) == fields


@pytest.mark.parametrize("octets", MESSAGES)
def test_message_cut_short_is_no_message(octets: str) -> None:
    complete = bytes.fromhex(octets)
    fixed = {b"OB": 29, b"PR": 20, b"PK": 9}.get(complete[:2], len(complete))
    for length in range(fixed):
        assert decode(complete[:length]) is None
    assert (decode(complete + b"\1") is None) is (complete[:2] not in (b"PR", b"PK"))


def _talk(
    left: Worker, right: Worker, give_left: Callable[[bytes, int], object], give_right: Callable[[bytes, int], object]
) -> list[str]:
    """Let two ends talk until both are silent; return every packet as `who hex`."""
    said = []
    now_ns = NOW_NS
    for _ in range(30):
        for name, end, give in (("<", right, give_left), (">", left, give_right)):
            if packet := end.outgoing(now_ns):
                end.sent(packet, now_ns)
                said.append(f"{name} {packet.octets.hex()}")
                give(packet.octets, now_ns)
            end.take_events()
            now_ns += 1_000_000
    return said


def _entropy(seed: int) -> Callable[[int], bytes]:
    return random.Random(seed).randbytes


def _described(octets: bytes, **options: bytes) -> str:
    seen = wire.read_packet(octets, **options)
    direction = ">" if seen["initiator"] else "<"
    return f"{direction} {seen['message']} session {seen['session']:08x}"


def _udp_session(key: bytes | None = None) -> list[str]:
    config = CentaurusConfig(key=key)
    client, server = (UdpWorker(config, random_bytes=_entropy(seed)) for seed in (1, 2))
    client.send("server", 17, b"a" * 512 + b"bc", NOW_NS)
    server.send("client", 18, b"d", NOW_NS)
    server._waiting.clear()  # the client is quicker
    return _talk(
        client,
        server,
        lambda octets, now_ns: client.receive(octets, "server", now_ns),
        lambda octets, now_ns: server.receive(octets, "client", now_ns),
    )


def _serial_session() -> list[str]:
    master = SerialMaster([(0, 0x7E)], random_bytes=_entropy(3))
    slave = SerialSlave(0x7E, random_bytes=_entropy(4))
    slave.send(slave.master, 17, b"~}", NOW_NS)
    master.send((0, 0x7E), 18, b"d", NOW_NS)
    said = _talk(
        master,
        slave,
        lambda octets, now_ns: master.receive(octets, 0, now_ns),
        lambda octets, now_ns: slave.receive(octets, 0, now_ns),
    )
    return said[:11]


UDP_SESSION = """
> 11f5b165220102030405154948c5641faf4f420011010203040506070800000202000927bf020000000000000200
< 10f5b165220102030405248b884219ba99505200110102030405060708122d56880000020000
> 11f5b16522010203040533cdc85b7b1d15504b0000122d5688(a512)
> 11f5b1652201020304055252485fa72023504b0001122d56886263
> 11f5b16522010203040570d6c88a3562cf444e122d568800
< 10f5b165220102030405801908cb9ff25c414b00110102030405060708
< 10f5b1652201020304059e9d8893b3ff534f420012010203040506070800000001000927b6020000000000000200
> 11f5b165220102030405addfc8f012057c5052001201020304050607084a58b7910000020000
< 10f5b165220102030405bd2208a5ee47cd504b00004a58b79164
< 10f5b165220102030405dba68800766ebc444e4a58b79100
> 11f5b165220102030405eae8c89b5c6f0f414b00120102030405060708
"""

SEALED_SESSION = """
> 13f5b165220102030405154948d119add24f420011010203040506070800000202000927bf020000000000000200b72ba1f6\
a411edc1e776c49d33b2fa4e
< 12f5b165220102030405248b8859441f34505200110102030405060708122d5688000002000082ed270349268cb44ebea3e2\
1c5323e8
> 13f5b16522010203040533cdc802d4b237504b0000122d5688(a512)81e114334d12773e3f2792fb1da12f1e
> 13f5b165220102030405525248836b4551504b0001122d568862631f566c130fa93585a9e3b63bbb85a2bb
> 13f5b16522010203040570d6c8174aa1cb444e122d568800f0aeb09d7549a47a647a665a49d957dc
< 12f5b16522010203040580190864af886c414b001101020304050607088d8f44fd38762c3b557797a529dbd5ed
< 12f5b1652201020304059e9d880eebc8304f420012010203040506070800000001000927b602000000000000020009039e20\
9f256b55e7bd9a24f4284604
> 13f5b165220102030405addfc80301cd9b5052001201020304050607084a58b7910000020000d988e0d7575513f0ffd412ce\
c25690af
< 12f5b165220102030405bd220858ec98a5504b00004a58b79164e2fb23efede8fd89b7f0d102933e50c4
< 12f5b165220102030405dba6882042d2cb444e4a58b791008cef9a6f900445c0eeac775775c82930
> 13f5b165220102030405eae8c82bf9a70c414b00120102030405060708a563fe9bd59e79eca2b40b736b9d92b9
"""

SERIAL_SESSION = """
> 7e7d5e11fd3feb3c01020304051549482147df5f504c0002007e
< 7e7d5e10fd3feb3c0102030405248b88420774254f420011010203040506070800000002000927be0200000000000002007e
> 7e7d5e11fd3feb3c010203040533cdc8d48eb1735052001101020304050607089250b79700000200007e
< 7e7d5e10fd3feb3c0102030405431008c22876a8504b00009250b7977d5e7d5d7e
< 7e7d5e10fd3feb3c010203040561948885371c5c444e9250b797007e
> 7e7d5e11fd3feb3c010203040570d6c84a6180d7414b001101020304050607087e
> 7e7d5e11fd3feb3c01020304058f5b48bd7b5bde4f420012010203040506070800000001000927b70200000000000002007e
< 7e7d5e10fd3feb3c01020304059e9d8802dbac0a505200120102030405060708d7a56d3c00000200007e
> 7e7d5e11fd3feb3c0102030405addfc81da500d4504b0000d7a56d3c647e
> 7e7d5e11fd3feb3c0102030405cc6448bce0c6be444ed7a56d3c007e
< 7e7d5e10fd3feb3c0102030405dba68899336629414b001201020304050607087e
"""


def test_udp_session_octets() -> None:
    assert _short(_udp_session()) == UDP_SESSION.strip().splitlines()


def test_sealed_session_octets() -> None:
    assert _short(_udp_session(b"sixteen or more bytes")) == SEALED_SESSION.strip().splitlines()


def test_serial_session_octets() -> None:
    assert _short(_serial_session()) == SERIAL_SESSION.strip().splitlines()


def _short(said: list[str]) -> list[str]:
    """Write the 512 times "a" of the first segment as (a512), so that the lines can be read."""
    return [line.replace("61" * 512, "(a512)") for line in said]


def _octets(line: str) -> bytes:
    return bytes.fromhex(line[2:].replace("(a512)", "61" * 512))


def test_second_decoder_reads_the_transcripts() -> None:
    udp = [_described(_octets(line)) for line in UDP_SESSION.strip().splitlines()]
    sealed = [_described(_octets(line), key=b"sixteen or more bytes") for line in SEALED_SESSION.strip().splitlines()]
    assert udp == sealed
    assert [line.split()[1] for line in udp] == [
        "OBJ", "PROCEED", "PK", "PK", "DONE", "ACK", "OBJ", "PROCEED", "PK", "DONE", "ACK",
    ]  # fmt: skip
    serial = [
        _described(packet, station=bytes((station,)))
        for line in SERIAL_SESSION.strip().splitlines()
        for station, packet in wire.read_frames(_octets(line))
    ]
    assert [line.split()[1] for line in serial] == [
        "POLL", "OBJ", "PROCEED", "PK", "DONE", "ACK", "OBJ", "PROCEED", "PK", "DONE", "ACK",
    ]  # fmt: skip
    for session in (udp, serial):
        assert len({line.split()[3] for line in session}) == 1
