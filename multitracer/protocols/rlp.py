"""Frames of the GSM radio link protocol (3GPP TS 24.022), versions 0 and 1: reading and writing.

`decode` returns the `RlpFrame` in octets. `read_header` and `position_tables` are for fast reading of the
many frames of a log. Frames have 240 or 576 bits (TS 24.022, 5.1); three more sizes, for studies, are not standard.

The protocol's entities, which exchange frames over slots, belong to the lab: `multitracer.lab.rlp`.

What must hold: octets from outside raise only `FrameError`.
"""

from __future__ import annotations

from enum import IntEnum
from functools import cache, lru_cache
from typing import NamedTuple

from multitracer.errors import LocalProtocolError, RemoteProtocolError

# The 24-bit frame check sequence of RLP (3GPP TS 24.022, clause 4.4).
#
# Polynomial 0xBBA1B5 in MSB-first notation, here reflected (0xAD85DD) because the least significant bit of
# each octet is sent first; register preset to ones, result complemented, least significant octet first.


_REFLECTED = 0xAD85DD  # TS 24.022, 4.4: the generator polynomial of degree 24, bits reversed
_ONES = 0xFFFFFF  # 24 bits: the register's start
RESIDUE = 0xF36E49
"""Result of `fcs24` over a complete intact frame with its FCS."""


def _byte_remainder(octet: int) -> int:
    for _ in range(8):
        octet = (octet >> 1) ^ _REFLECTED if octet & 1 else octet >> 1
    return octet


_STEP = tuple(_byte_remainder(octet) for octet in range(256))  # CRC by octets


@cache
def position_tables(length: int) -> tuple[int, tuple[tuple[int, ...], ...]]:
    """Return the FCS of `length` zero octets and, for each position, the contribution of each octet value.

    The code is linear, so the contribution of an octet depends only on its value and its distance from the
    end. One look-up and one exclusive-or per octet takes half the time of a shift register in Python.
    """
    tables = [_STEP]
    for _ in range(length - 1):
        tables.append(tuple((share >> 8) ^ _STEP[share & 0xFF] for share in tables[-1]))
    register = _ONES
    for _ in range(length):
        register = (register >> 8) ^ _STEP[register & 0xFF]
    return register ^ _ONES, tuple(reversed(tables))


_LENGTHS = frozenset((27, 69, 39, 141, 285))
"""Frame lengths without the FCS, in octets: 240 and 576 bits, and the three sizes for studies."""


@lru_cache(maxsize=256)  # of frames on the air: each is sealed, and checked when it arrives
def fcs24(data: bytes) -> int:
    """Return the FCS of `data` (header and information), 24 bits.

    Examples
    --------
    >>> hex(fcs24(bytes.fromhex("f91f") + bytes(25)))  # SABM
    '0xf3b263'
    """
    if len(data) in _LENGTHS:
        fcs, tables = position_tables(len(data))
        for table, octet in zip(tables, data, strict=True):
            fcs ^= table[octet]
        return fcs
    register = _ONES
    for octet in data:
        register = (register >> 8) ^ _STEP[(register ^ octet) & 0xFF]
    return register ^ _ONES


# RLP frames as bytes: 240 bits (30 octets) or 576 bits (72 octets), versions 0 and 1.
#
# Source: 3GPP TS 24.022, clauses 4 and 5.2. A frame is a 16-bit header, the information and a 24-bit FCS.
# Bits go out least significant first, so the header is read as one little-endian number:
#
#     bit 0 C/R · bits 1-2 S · bits 3-8 N(S) · bit 9 P/F · bits 10-15 N(R), in U frames bits 10-14 M
#
# N(S) = 63 marks a U frame and N(S) = 62 an S frame; hence numbers run modulo 62, not 64.


MODULUS = 62  # TS 24.022, 5.2: N(S) and N(R) run from 0 to 61
FRAME_OCTETS = (30, 72, 42, 144, 288)
"""Frame lengths in octets: 240 bits every 20 ms (TCH/F9.6), 576 bits every 40 ms (TCH/F14.4), then sizes for studies.

The sizes for studies are not of RLP: 336 (a PDU of UMTS), 1152 and 2304 bits."""
COMMAND = 1  # TS 24.022, 5.2: the C/R bit
POLL_FINAL = 1 << 9  # TS 24.022, 5.2: the P/F bit
S_FRAME = 62 << 3  # TS 24.022, 5.2: N(S) of a supervisory frame
U_FRAME = 63 << 3
"""Header bits for building frames: C/R, P/F, and the two reserved values of N(S)."""
HEADER_OCTETS = 2  # TS 24.022, 4: 16 bits (24 from version 2 in 576-bit frames)
FCS_OCTETS = 3  # TS 24.022, 4: 24 bits
_SUPERVISORY = 62  # TS 24.022, 5.2: N(S) 111110
_UNNUMBERED = 63  # TS 24.022, 5.2: N(S) 111111


class FrameError(RemoteProtocolError):
    """Octets that are not a valid RLP frame: wrong length, wrong FCS, or unassigned code point."""


class FcsError(FrameError):
    """Octets with a wrong FCS: the slot could not be decoded."""


class FrameKind(IntEnum):
    """The three kinds of frame (clause 5.2)."""

    U = 0
    """Unnumbered: set-up, release, negotiation."""
    S = 1
    """Supervisory: only acknowledgment or rejection."""
    IS = 2
    """Information with supervisory fields, which TS 24.022 calls I+S."""


class Supervisory(IntEnum):
    """Supervisory function of an S or I+S frame, about data in the opposite direction (clause 5.2.3)."""

    RR = 0
    RNR = 1
    REJ = 2
    SREJ = 3


class Unnumbered(IntEnum):
    """The U frames (clause 5.2.2), by their M bits."""

    UI = 0x00
    DM = 0x03
    SABM = 0x07
    DISC = 0x08
    UA = 0x0C
    NULL = 0x0F
    REMAP = 0x11
    XID = 0x17
    TEST = 0x1C


class RlpFrame(NamedTuple):
    """One decoded frame.

    `n_s` is set only in I+S frames; `n_r` is None in U frames. `function` is a `Supervisory` in S and I+S
    frames and an `Unnumbered` in U frames.
    """

    kind: FrameKind
    function: Supervisory | Unnumbered
    command: bool
    """C/R: True for a command, False for a response."""
    poll_final: bool
    """Poll bit of a command, final bit of a response."""
    n_s: int | None = None
    n_r: int | None = None
    info: bytes = b""
    """Information field, 25 or 67 octets (in studies 37, 139, 283); empty means all zero when encoding."""

    def encode(self, *, octets: int = 30) -> bytes:
        """Return the frame as octets for the channel.

        Parameters
        ----------
        octets : int
            Frame size, one of `FRAME_OCTETS`; the information is padded with zeros.

        Raises
        ------
        LocalProtocolError
            If a number is out of range or the information is too long.
        """
        return seal(_header(self), self.info, octets=octets)


def _header(frame: RlpFrame) -> int:
    n_s, n_r = frame.n_s, frame.n_r
    if frame.kind is FrameKind.U:
        bits = U_FRAME | frame.function << 10
    elif n_r is None or not 0 <= n_r < MODULUS:
        raise LocalProtocolError(f"RLP frame: N(R) must be 0 to 61, but is {n_r}")
    elif frame.kind is FrameKind.S:
        bits = frame.function << 1 | S_FRAME | n_r << 10
    elif n_s is None or not 0 <= n_s < MODULUS:
        raise LocalProtocolError(f"RLP frame: N(S) must be 0 to 61, but is {n_s}")
    else:
        bits = frame.function << 1 | n_s << 3 | n_r << 10
    return bits | frame.command | frame.poll_final << 9


def seal(header: int, info: bytes, *, octets: int) -> bytes:
    """Return a frame of `octets` octets: the 16-bit header, `info` padded with zeros, and the FCS."""
    room = octets - HEADER_OCTETS - FCS_OCTETS
    if octets not in FRAME_OCTETS or len(info) > room:
        raise LocalProtocolError(
            f"RLP frame: {len(info)} octets of information do not fit into a frame of {octets} octets"
        )
    body = header.to_bytes(2, "little") + info.ljust(room, b"\0")
    return body + fcs24(body).to_bytes(3, "little")


@cache
def sealed_without_info(header: int, octets: int) -> bytes:
    """Return the octets of a frame without information; see `seal`.

    Results are cached, because there are few of them and most slots carry one.
    """
    return seal(header, b"", octets=octets)


class RlpHeader(NamedTuple):
    """The fields of a frame's header; `RlpFrame` explains them."""

    kind: FrameKind
    function: Supervisory | Unnumbered
    command: bool
    poll_final: bool
    n_s: int | None
    n_r: int | None


@cache
def read_header(header: int) -> RlpHeader:
    """Return the fields of a frame's 16-bit header.

    Raises
    ------
    FrameError
        If N(R) is above 61 or the M bits of a U frame are not assigned.
    """
    command, poll_final = bool(header & 1), bool(header >> 9 & 1)
    n_s, n_r = header >> 3 & 0x3F, header >> 10
    if n_s == _UNNUMBERED:
        try:
            function = Unnumbered(n_r & 0x1F)
        except ValueError as error:
            raise FrameError(
                f"RLP frame: the U frame has the unassigned type M = {n_r & 0x1F:#04x}; ignore the frame"
            ) from error
        return RlpHeader(FrameKind.U, function, command, poll_final, None, None)
    if n_r >= MODULUS:
        raise FrameError(f"RLP frame: N(R) is {n_r}, but the maximum is 61; ignore the frame")
    kind = FrameKind.S if n_s == _SUPERVISORY else FrameKind.IS
    code = Supervisory(header >> 1 & 3)
    return RlpHeader(kind, code, command, poll_final, None if kind is FrameKind.S else n_s, n_r)


def is_information(octets: bytes) -> bool:
    """Return whether the header is that of an I+S frame; the rest of the frame is not checked."""
    return len(octets) >= HEADER_OCTETS and (octets[0] | octets[1] << 8) & U_FRAME < S_FRAME


def is_intact(octets: bytes) -> bool:
    """Return whether `octets` has the length of a frame and a correct FCS."""
    if len(octets) not in FRAME_OCTETS:
        return False
    return fcs24(octets[:-FCS_OCTETS]) == int.from_bytes(octets[-FCS_OCTETS:], "little")


def decode(octets: bytes, *, check_fcs: bool = True) -> RlpFrame:
    """Return the frame in `octets`.

    Parameters
    ----------
    octets : bytes
        One complete frame, of a length in `FRAME_OCTETS`.
    check_fcs : bool
        False for a frame that the radio has already checked.

    Raises
    ------
    FrameError
        If the length or a code point is wrong.
    FcsError
        If the FCS is wrong.

    Examples
    --------
    >>> decode(bytes.fromhex("f91f" + "00" * 25 + "63b2f3")).function
    <Unnumbered.SABM: 7>
    """
    if len(octets) not in FRAME_OCTETS:
        raise FrameError(
            f"RLP frame: the length is {len(octets)} octets, but must be 30 or 72 (in studies also 42, 144 or 288)"
        )
    if check_fcs and not is_intact(octets):
        raise FcsError("RLP frame: the FCS is wrong; treat the slot as not decodable")
    header = read_header(octets[0] | octets[1] << 8)
    return RlpFrame(*header, octets[HEADER_OCTETS:-FCS_OCTETS])


_decode_short = lru_cache(maxsize=1024)(decode)
"""Cached `decode` for S and U frames: a link uses some 200 different ones; the limit is for hostile input."""


def decode_slot(octets: bytes, *, length: int) -> RlpFrame:
    """Return the frame received in a slot for frames of `length` octets.

    Raises
    ------
    FcsError
        If the octets have another length or a wrong FCS.
    FrameError
        If a code point is wrong.
    """
    if len(octets) != length:
        raise FcsError(f"RLP frame: the frame has {len(octets)} octets, but must have {length} octets")
    return decode(octets) if is_information(octets) else _decode_short(octets)


class RlpFrameReader:
    """Divides a stream of octets into frames.

    RLP has no flags: frames are aligned to radio blocks. A medium that keeps the order
    but not the boundaries (a file, a serial line) stays aligned if the first frame is aligned.
    """

    def __init__(self, *, octets: int = 30) -> None:
        self._octets = octets
        self._pending = b""

    def feed(self, data: bytes) -> list[bytes]:
        """Return the frames that `data` completes; octets after the last one are stored for the next call."""
        self._pending += data
        complete = len(self._pending) // self._octets * self._octets
        frames = [self._pending[i : i + self._octets] for i in range(0, complete, self._octets)]
        self._pending = self._pending[complete:]
        return frames
