"""Keys and tokens of Multipath TCP in the options of a segment."""

from __future__ import annotations

import random

import pytest

from multitracer.protocols.mptcp import MultipathCapable, MultipathJoin, option_of, token_of
from tests.recording.subflows import capable, join, tcp_header


def test_tokens_are_those_that_tshark_computes() -> None:
    assert token_of(0x1111111111111111, 1) == 3874785792
    assert token_of(72623859790382856, 1) == 1719930330


def test_the_token_of_version_0_is_of_sha_1() -> None:
    """`printf '\\x00\\x00\\x00\\x00\\x00\\x00\\x00\\x01' | sha1sum`"""
    assert token_of(1, 0) == 0xCB473678


@pytest.mark.parametrize("seed", range(5))
def test_options_behind_others(seed: int) -> None:
    chance = random.Random(seed)
    keys = tuple(chance.randrange(1 << 64) for _ in range(chance.randrange(3)))
    version = chance.randrange(2)
    before = b"\x02\x04\x05\xb4" + b"\x01" * (4 * chance.randrange(2))
    assert option_of(tcp_header(before + capable(version, *keys))) == MultipathCapable(version, keys)
    token = chance.randrange(1 << 32)
    assert option_of(tcp_header(before + join(token))) == MultipathJoin(token)


@pytest.mark.parametrize("seed", range(50))
def test_any_bytes_are_read_without_an_error(seed: int) -> None:
    chance = random.Random(seed)
    data = bytearray(tcp_header(capable(1, 7, 9) + join(5)))
    for _ in range(6):
        data[chance.randrange(12, len(data))] = chance.randrange(256)
    option_of(bytes(data[: chance.randrange(len(data) + 1)]))
