"""The limits that a page shows, and the texts that explain them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from multitracer.diagnosis.limits.names import Confidence, Limit, LimitShare, LimitSubtype, Viewpoint

if TYPE_CHECKING:
    from multitracer.diagnosis.diagnosis import Diagnosis

SEEN_FROM = {
    Viewpoint.LINK_LOG: "the link's log",
    Viewpoint.BOTH_ENDS: "both ends",
    Viewpoint.SENDER_STATE: "the sender, with its TCP's state",
    Viewpoint.SENDER: "the sender's packets",
    Viewpoint.RECEIVER: "the receiver's packets",
    Viewpoint.NOWHERE: "nowhere that tells",
}
RECEIVER_ONLY = (
    "It was captured at the receiver alone. What limited the sender itself (its congestion window, its "
    "buffer, its program) is inferred from when its data arrived, and round trips are shown only where "
    "they can be measured there."
)
COARSE = (
    "The sender's timestamps are missing, or tick too slowly to show when it sent, so all but the handshake is weak."
)
_LIMITS = {
    Limit.HANDSHAKE: "the connection was being opened",
    Limit.OUTAGE: "nothing arrived, and a retransmission failed too",
    Limit.LINK: "the bottleneck had its data queued or in service",
    Limit.RECOVERY: "new data waited for the repair of lost ones",
    Limit.RECEIVER_WINDOW: "data in flight filled the window that the receiver offered",
    Limit.SENDER_BUFFER: "the send buffer was full, and no window was",
    Limit.APPLICATION: "the sending TCP had nothing to send",
    Limit.SLOW_START: "the congestion window was still growing",
    Limit.CONGESTION_WINDOW: "the congestion window kept data back though the path had room",
    Limit.UNKNOWN: "nothing in the recording shows what it was",
}
_PARTS = {
    LimitSubtype.BOTH: "nothing arrived either way",
    LimitSubtype.DATA: "the data did not come through",
    LimitSubtype.ACKS: "the ACKs did not come through",
    LimitSubtype.XOFF: "the far end of the link stopped it",
    LimitSubtype.ACCESS: "the link waited for its turn on a shared channel",
    LimitSubtype.ARQ: "the link repeated frames or waited for itself",
    LimitSubtype.TIMER: "the retransmission timer had to expire first",
    LimitSubtype.FAST: "new data waited for a retransmission that ACKs had requested",
    LimitSubtype.ZERO: "the receiver offered a window of zero",
    LimitSubtype.WRITES: "the program wrote at its own pace",
    LimitSubtype.THINK: "the program had not begun its answer",
    LimitSubtype.PEER: "it waited for the peer, which had not sent its next request",
    LimitSubtype.NAGLE: "a small segment waited for the ACK of a small one",
    LimitSubtype.PACING: "the pacer kept data back though the path had room",
    LimitSubtype.LATENCY: "its data and the peer's next request were under way: a round trip for each",
    LimitSubtype.REPAIR: "a request, or what it answers, was lost and had to be sent again",
    LimitSubtype.HOST: "data waited in a queue of the sender's own host",
    LimitSubtype.POLICER: "a policer passed nearly all that its contract allows",
}
_ACKS_WAITED = "ACKs waited in a queue on their way back"

SHORT = {part: part.label for part in LimitSubtype} | {
    LimitSubtype.BOTH: "both ways",
    LimitSubtype.DATA: "of the data",
    LimitSubtype.ACKS: "of the ACKs",
    LimitSubtype.XOFF: "stopped by its far end (xoff)",
    LimitSubtype.ACCESS: "waiting for a turn (access)",
    LimitSubtype.ARQ: "repeating frames (arq)",
    LimitSubtype.ZERO: "closed",
    LimitSubtype.WRITES: "own pace",
    LimitSubtype.THINK: "thinking",
    LimitSubtype.PEER: "late requests",
    LimitSubtype.NAGLE: "small segments held (nagle)",
    LimitSubtype.LATENCY: "round trips",
    LimitSubtype.REPAIR: "lost requests",
    LimitSubtype.HOST: "its own interface",
}
"""Names of subtypes on the first screen: the label, or simpler words if the label is not clear enough."""


def shares_of(diagnosis: Diagnosis) -> list[LimitShare]:
    """Return the shares that the headline uses: of the group's elapsed time, or of a single transfer's."""
    group = diagnosis.group
    return diagnosis.limited.shares if len(group.members) == 1 else group.shares


def says(row: LimitShare) -> str:
    """Return a sentence that explains a limit or its subtype."""
    if row.limit is Limit.LINK and row.part is LimitSubtype.ACKS:
        return _ACKS_WAITED
    return _PARTS.get(row.part, _LIMITS[row.limit])


def bounds(row: LimitShare) -> str:
    """Return the bounds of a weak share ("at most 61 %"); "" if the share is a single number."""
    low, high = f"{100 * row.share_low:.0f} %", f"{100 * row.share_high:.0f} %"
    if row.confidence is not Confidence.WEAK or low == high:
        return ""
    return f"at most {high}" if low == "0 %" else f"{low} to {high}"


def surely(row: LimitShare) -> str:
    """Return a text about the confidence of a share; for a weak share, also its range."""
    within = bounds(row)
    return f"{row.confidence.label}: {within}" if within else row.confidence.label
