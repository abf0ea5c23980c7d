"""Bounds of capture files: maximum packet size, and maximum distance of times. Loads no NumPy."""

from __future__ import annotations

WINDOW_BYTES = 4 * 1024 * 1024
"""Size of a window of a file."""
LARGEST_PACKET = 256 * 1024
_LARGEST_OF_LINK = dict.fromkeys((189, 220, 231, 249), 128 * 1024 * 1024)
"""USB and D-Bus records may be larger than any packet of a network."""
YEAR_NS = 365 * 86_400 * 1_000_000_000
ERA_YEARS = 20
"""Maximum time span of a capture, years.

Merged files of other projects span up to 17 years; a clock that was never set is wrong by 50 years, a flipped
bit in the seconds by up to 68. Smaller backward steps count in the verdict on the capture."""


def largest_packet(link_type: int) -> int:
    """Return the maximum captured length of packets of a link type in bytes; larger lengths are damage."""
    return _LARGEST_OF_LINK.get(link_type, LARGEST_PACKET)


def cut_off(what: str, offset: int, left: int) -> str:
    """Return the message that the file ends within a record or block.

    `what` is its kind, `offset` its position in the file, `left` how many bytes of it are present.
    """
    left_of_it = "only 1 byte of it is" if left == 1 else f"only {left} bytes of it are"
    return f"the {what} at byte {offset} is truncated: {left_of_it} left"
