"""The link type of a capture whose frames are of another one than the file names: raw IP, or Ethernet.

Programs for phones write raw IP under the number of Ethernet, and the reverse. The first frames of a file decide:
most of them must begin with an IP header (behind Ethernet's: with its EtherType before it) whose length is exactly
that of the frame, which frames of another kind are by chance only.
"""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from multitracer.captured import SourceFile

    Frame = tuple[bytes, int]

ETHERNET, RAW_IP = 1, 101
_RAW_TYPES = (12, 14, 101, 228, 229)
"""Link types of raw IP; 228 and 229 are of one version each."""
_USER_TYPES = range(147, 163)
"""Link types for private use (DLT_USER0 to 15), which may be anything."""
_NAMES = {ETHERNET: "Ethernet", RAW_IP: "raw IP"}
_MOST_FRAMES = 100
"""Frames that are looked at: chance agrees with one in 10^5, and a mixture shows in the first ones. Not measured."""
_FEWEST_WITHOUT_CHECKSUM = 3
"""Frames below which the checksum of IPv4 must be right, too. Not measured."""
HEAD_BYTES = 60
"""Bytes of a frame that are looked at: Ethernet's header, IP's and its options up to the addresses of IPv6."""


def likely_link_type(stated: int, frames: Iterable[Frame]) -> int:
    """Return the link type by the first frames of a file; the stated one, unless most frames contradict it.

    Parameters
    ----------
    stated : int
    frames : iterable of (bytes, int)
        First bytes of each frame, and its length on the wire.
    """
    candidates = {RAW_IP: 0} if stated not in _RAW_TYPES else {ETHERNET: 14}
    if stated in _USER_TYPES:
        candidates[ETHERNET] = 14
    known = list(islice(frames, _MOST_FRAMES))
    for candidate, offset in candidates.items():
        fitting = [frame for frame, length in known if _fits(frame, length, offset)]
        are_proved = len(known) >= _FEWEST_WITHOUT_CHECKSUM or all(_sums_up(frame[offset:]) for frame in fitting)
        if 2 * len(fitting) > len(known) and are_proved:
            return candidate
    return stated


def note_link_type(source: SourceFile, stated: int, used: int) -> None:
    """Note in the facts of a file that its frames are read as another link type than it names."""
    name = f" ({_NAMES[stated]})" if stated in _NAMES else ""
    source.guessed_link = f"the frames are read as {_NAMES[used]}, although the file names link type {stated}{name}"


def _fits(frame: bytes, length: int, offset: int) -> bool:
    """Return whether IP at `offset` of a frame ends exactly where the frame of `length` bytes ends."""
    version = frame[offset] >> 4 if len(frame) >= offset + 20 else 0
    if offset and frame[12:14] != {4: b"\x08\0", 6: b"\x86\xdd"}.get(version):
        return False
    if version == 4:
        stated = int.from_bytes(frame[offset + 2 : offset + 4], "big")
        is_valid = frame[offset] & 0x0F >= 5
    else:
        stated = int.from_bytes(frame[offset + 4 : offset + 6], "big") + 40
        is_valid = version == 6
    is_padded = bool(offset) and length <= 60 and offset + stated < length
    return is_valid and (offset + stated == length or is_padded)


def _sums_up(header: bytes) -> bool:
    """Return whether the checksum of an IPv4 header is right (RFC 1071); False for IPv6, which has none."""
    size = (header[0] & 0x0F) << 2
    if header[0] >> 4 != 4 or len(header) < size:
        return False
    total = sum(int.from_bytes(header[at : at + 2], "big") for at in range(0, size, 2))
    return (total & 0xFFFF) + (total >> 16) == 0xFFFF
