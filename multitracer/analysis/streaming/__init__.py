"""Analysis of a capture that is never completely in memory.

The input is blocks of a capture, in its order; the output is connections as they close, with the same numbers as from
`analyse`. Read `open_connections.py` first: it stores the segments of open connections and releases closed ones. A
connection with many segments is *folded*: its counts are stored (`aggregated.py`), and its old segments are replaced by
a few that represent them (`open_connections.py`), followed by the segments that later ones still need.

Two rules: the result for each connection is that of `analyse`, except for the differences in
docs/large_captures.md; memory is in proportion to the number of open connections.
"""

from __future__ import annotations

from dataclasses import dataclass

from multitracer.units import NS_PER_S


@dataclass(frozen=True, slots=True)
class StreamLimits:
    """Limits for time and number of stored segments."""

    closed_ns: int = 240 * NS_PER_S
    """Time without segments after which a closing or not yet established connection is removed: 4 minutes by RFC 5382,
    REQ-5, twice the maximum segment lifetime (RFC 9293, 3.4.2)."""
    idle_ns: int = 124 * 60 * NS_PER_S
    """Time without segments after which an established connection is removed: 2 hours 4 minutes by RFC 5382, REQ-5,
    which is longer than a keep-alive interval."""
    rows: int = 1 << 16
    """Maximum number of stored segments, and of segments in a block: 3 MB each. With four times as many, a pipe of 1 GB
    took 151 MB instead of 78, and 12 % less processor time."""
    own_rows: int = 256
    closed_rows: int = 24
    """Minimum number of segments of a closed connection that is folded: a history has about 10, and the latest segments
    stay. Not measured."""
    context_rows: int = 64
    """Number of the latest segments of a connection that stay unchanged, for example to recognise a duplicate ACK."""
    most_context_rows: int = 8192
    """Maximum number of outstanding segments that stay unchanged: 11 MB of typical segments. Not measured."""
