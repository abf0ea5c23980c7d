"""The send buffer was full, but no window was: the program could not write more data."""

from __future__ import annotations

from typing import TYPE_CHECKING

from multitracer.diagnosis.held import held
from multitracer.diagnosis.limits.names import Limit, Viewpoint

if TYPE_CHECKING:
    from collections.abc import Iterator

    from multitracer.diagnosis.diagnosis import Diagnosis
    from multitracer.diagnosis.finding import Finding

KIND = "send-buffer-limited"
HELP = "A larger send buffer (SO_SNDBUF, tcp_wmem), or none set, so that the kernel tunes it."
_HELP_IF = "A larger send buffer (SO_SNDBUF, tcp_wmem), if the sender's TCP state (ss) shows that it was full."
_MIN = 0.2
"""Minimum share of the time. On recordings of known cause, the rule also claimed up to 15 % of the time,
which slow start had taken."""
_MIN_AT_RECEIVER = 0.5
"""Minimum share of the time in a receiver's capture, which shows only a constant flight. A constant
congestion window looks the same, and up to half of the time was wrong."""


def find(diagnosis: Diagnosis) -> Iterator[Finding]:
    """Yield at most one finding, if a full send buffer was the limit.

    Packets alone cannot distinguish this from a constant congestion window; the sentence then says so.
    """
    minimum = _MIN_AT_RECEIVER if diagnosis.limited.view is Viewpoint.RECEIVER else _MIN
    limit = held(diagnosis.limited, Limit.SENDER_BUFFER, minimum=minimum)
    if limit is None:
        return
    seen = diagnosis.limited.seen
    is_alone = seen is not None and seen.state is None
    instead = ", or the congestion window stood still" if is_alone else ""
    if diagnosis.limited.view is Viewpoint.RECEIVER:
        instead = ", the program wrote at this pace, or the congestion window stood still"
    was, released = ("seemed to be", "seemed to release") if instead else ("was", "released")
    sentence = (
        f"The send buffer {was} full for {limit.seconds:.1f} s, {100 * limit.share:.0f} % of the time{instead}: "
        f"only ACKs {released} new data, and never more than they covered."
    )
    finding = limit.finding(KIND, sentence)
    yield finding._replace(help=_HELP_IF) if is_alone else finding
