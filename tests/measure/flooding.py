"""A measurement server, and a flood of first datagrams at it from a process of its own, on the loopback device."""

from __future__ import annotations

import contextlib
import ctypes
import itertools
import multiprocessing
import random
import socket
import subprocess
import time
from typing import TYPE_CHECKING, Any

from multitracer.protocols.centaurus.messages import NO_TOKEN, Message, Obj, Offer, encode
from multitracer.protocols.centaurus.packet import CentaurusPacket, seal
from multitracer.protocols.wtcp.packet import NO_IDENTITY, Hello, WtcpOpening, WtcpPacketType
from multitracer.protocols.wtcp.packet import encode as encode_wtcp
from tests.cli.program import COMMAND, ENVIRONMENT

if TYPE_CHECKING:
    from collections.abc import Iterator

REQUEST_CLASS = 1
RATE = 60_000
"""Datagrams a second; a busy machine sends fewer, and what it sent is in the message of a failure."""
BATCH = 20
TICK_S = 0.005


def centaurus_packet(session: int, message: Message) -> bytes:
    return seal(CentaurusPacket(session, time.time_ns(), True, encode(message)))


@contextlib.contextmanager
def served(protocol: str = "centauruscomm") -> Iterator[tuple[str, subprocess.Popen[str]]]:
    argv = [*COMMAND, "measure", "serve", "--protocol", protocol, "--listen", "127.0.0.1:0"]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, text=True, env=ENVIRONMENT) as server:
        try:
            assert server.stdout is not None
            yield server.stdout.readline().split(" at ")[1].strip(), server
        finally:
            server.kill()


def networks(number: int) -> list[str]:
    """Return addresses in networks (/24) of their own."""
    return [f"127.{16 + each // 250}.{each % 250}.9" for each in range(number)]


class _Vector(ctypes.Structure):
    _fields_ = (("base", ctypes.c_char_p), ("size", ctypes.c_size_t))


class _Message(ctypes.Structure):
    """`struct mmsghdr` of Linux, 64 bits."""

    _fields_ = (
        ("name", ctypes.c_void_p), ("name_size", ctypes.c_uint32), ("vectors", ctypes.POINTER(_Vector)),
        ("vector_count", ctypes.c_size_t), ("control", ctypes.c_void_p), ("control_size", ctypes.c_size_t),
        ("flags", ctypes.c_int), ("sent_size", ctypes.c_uint),
    )  # fmt: skip


def _first_datagrams(protocol: str) -> list[bytes]:
    chance = random.Random(3)
    if protocol == "wtcp":
        return [
            encode_wtcp(NO_IDENTITY, WtcpOpening(WtcpPacketType.SYN, Hello(chance.randbytes(8), 1000)))
            for _ in range(BATCH * 50)
        ]
    offers = [Obj(REQUEST_CLASS, number, 64, 60_000, 512, NO_TOKEN, Offer(0, 512), 0) for number in range(BATCH * 50)]
    return [centaurus_packet(chance.randrange(2**32), offer) for offer in offers]


def _batches(octets: list[bytes]) -> list[ctypes.Array[_Message]]:
    batches = []
    for begin in range(0, len(octets), BATCH):
        batch = (_Message * BATCH)()
        for message, each in zip(batch, octets[begin : begin + BATCH], strict=True):
            message.vectors = ctypes.pointer(_Vector(each, len(each)))
            message.vector_count = 1
        batches.append(batch)
    return batches


def _send_at_rate(protocol: str, server: tuple[str, int], sources: list[str], sent: Any, seconds: float) -> None:
    """Send first datagrams from all sources in turn, `RATE` a second as far as the machine can; count them."""
    libc = ctypes.CDLL(None, use_errno=True)
    batches = _batches(_first_datagrams(protocol))
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket(socket.AF_INET, socket.SOCK_DGRAM)) for _ in sources]
        for each, source in zip(sockets, sources, strict=True):
            each.bind((source, 0))
            each.connect(server)
        turns = zip(itertools.cycle([each.fileno() for each in sockets]), itertools.cycle(batches), strict=False)
        began_s = time.monotonic()
        while (passed_s := time.monotonic() - began_s) < seconds:
            while sent.value < passed_s * RATE:
                sent.value += max(0, libc.sendmmsg(*next(turns), BATCH, 0))
            time.sleep(TICK_S)


@contextlib.contextmanager
def flooded(protocol: str, server: tuple[str, int], sources: list[str], *, seconds: float) -> Iterator[Any]:
    """Flood a server; yield the number of datagrams that were sent so far."""
    context = multiprocessing.get_context("spawn")
    sent = context.Value("q", 0, lock=False)
    process = context.Process(target=_send_at_rate, args=(protocol, server, sources, sent, seconds))
    process.start()
    try:
        while not sent.value:
            time.sleep(0.01)
        yield sent
    finally:
        process.kill()
        process.join()
