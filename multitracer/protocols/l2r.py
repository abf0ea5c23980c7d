"""The layer 2 relay for characters (L2RCOP): the content of the information field of an RLP frame.

Source: 3GPP TS 27.002 (GSM 07.02). The field begins with a status octet: three status bits, then the
number of characters that follow, after which there may be another status octet. 24 characters fill the
25 octets of a 240-bit frame. The X bit stops the far end: out-of-band flow control. The relay itself is
`multitracer.lab.rlp.l2r`.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Literal, NamedTuple

from multitracer.errors import LocalProtocolError, RemoteProtocolError

SA, SB, X = 0x80, 0x40, 0x20
"""Status bits: SA for circuits 107/108, SB for 105/109, X for flow control active."""
_STATUS = SA | SB | X
_LONGEST_COUNT = 23
"""Maximum number of characters that one address of a 240-bit frame counts; for 24 it is "full"."""
_LONGEST_TWO_OCTET_COUNT = 63  # six bits hold the count


class Address(IntEnum):
    """The low five bits of a status octet; below `TWO_OCTETS` they count characters (3GPP TS 27.002)."""

    TWO_OCTETS = 27
    """The number of characters is in the next octet."""
    BREAK_ACK = 28
    BREAK = 29
    FULL = 30
    """Characters fill the field to its end."""
    EMPTY = 31
    """No characters: the last status octet."""


class L2rError(RemoteProtocolError):
    """An information field that a correct relay never sends."""


class L2rCharacters(NamedTuple):
    """A status octet and the characters after it."""

    status: int
    """Status bits SA | SB | X."""
    data: bytes = b""
    """The characters after the status octet."""
    signal: Literal["", "break", "break-ack"] = ""
    """A destructive break, or the answer to one."""


_SIGNALS: dict[int, Literal["", "break", "break-ack"]] = {
    Address.EMPTY: "",
    Address.BREAK: "break",
    Address.BREAK_ACK: "break-ack",
}
"""Signal of a last status octet, by its address."""


def unpack(info: bytes) -> list[L2rCharacters]:
    """Return the status octets of an information field, each with its characters, in order.

    Raises
    ------
    L2rError
        If the field is empty, an address is 0, or it announces more characters than it contains.

    Examples
    --------
    >>> unpack(bytes.fromhex("01661f") + bytes(22))
    [L2rCharacters(status=0, data=b'f', signal=''), L2rCharacters(status=0, data=b'', signal='')]
    """
    chunks, at, more = [], 0, True
    while more:
        if at >= len(info):
            raise L2rError(
                f"L2R: the {len(info)} octets of this frame end without a status octet; drop the rest of the frame"
            )
        chunk, at, more = _chunk(info, at)
        chunks.append(chunk)
    return chunks


def _chunk(info: bytes, at: int) -> tuple[L2rCharacters, int, bool]:
    """Return a status octet with its characters, the next position, and whether a status octet follows."""
    status, address = info[at] & _STATUS, info[at] & ~_STATUS
    if address == Address.FULL:
        return L2rCharacters(status, info[at + 1 :]), len(info), False
    if address in _SIGNALS:
        return L2rCharacters(status, signal=_SIGNALS[address]), len(info), False
    begin, count = at + 1, address
    if address == Address.TWO_OCTETS:
        begin, count = at + 2, info[at + 1] & 0x3F if at + 1 < len(info) else 0
    end = begin + count
    if count == 0 or end > len(info):
        raise L2rError(
            f"L2R: the status octet at position {at} points outside the frame of {len(info)} octets "
            f"(address {address}); drop the rest of the frame"
        )
    return L2rCharacters(status, info[begin:end]), end, end < len(info)


def pack(data: bytes, *, status: int = 0, octets: int = 25) -> bytes:
    """Return an information field that carries `data` and one value of the status bits.

    Parameters
    ----------
    data : bytes
        At most `capacity(octets)` characters.
    status : int
        SA | SB | X.
    octets : int
        Size of the field, 25 or 67.

    Raises
    ------
    LocalProtocolError
        If `data` does not fit.
    """
    count = len(data)
    if count != usable(count, octets=octets):
        raise LocalProtocolError(
            f"L2R: {count} characters do not fit into one frame; pass at most {usable(count, octets=octets)}"
        )
    if count == octets - 1:
        return bytes((status | Address.FULL,)) + data
    if count == 0:
        return bytes((status | Address.EMPTY,)).ljust(octets, b"\0")
    head = bytes((status | count,)) if count <= _LONGEST_COUNT else bytes((status | Address.TWO_OCTETS, count))
    return (head + data + bytes((status | Address.EMPTY,))).ljust(octets, b"\0")


def usable(waiting: int, *, octets: int = 25) -> int:
    """Return how many of `waiting` characters fit into one field of `octets` octets."""
    if waiting >= octets - 1:
        return octets - 1
    with_two_octets = min(octets - 3, _LONGEST_TWO_OCTET_COUNT)  # a last status octet follows
    return min(waiting, max(_LONGEST_COUNT, with_two_octets))


def user_octets(info: bytes) -> int:
    """Return the number of characters in an information field; 0 if it cannot be decoded."""
    if info[:1] and info[0] & ~_STATUS == Address.FULL:
        return len(info) - 1
    try:
        return sum(len(chunk.data) for chunk in unpack(info))
    except L2rError:
        return 0


# Protocol numbers of the point-to-point protocol (RFC 1661).


class PppProtocol(IntEnum):
    """Protocol numbers of PPP frames (IANA, Point-to-Point Protocol Field Assignments)."""

    IP = 0x0021
    VJ_COMPRESSED = 0x002D
    VJ_UNCOMPRESSED = 0x002F
    IPV6 = 0x0057
    LCP = 0xC021
