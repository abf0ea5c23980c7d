"""The names of the results: limits, subtypes, confidence, viewpoints, causes; and the share of each limit."""

from __future__ import annotations

from enum import IntEnum
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Sequence

    from multitracer.tables import Document


class _Named(IntEnum):
    """An enumeration whose members have a word for documents and pages."""

    @property
    def label(self) -> str:
        """The word, for example `receiver-window`."""
        return self.name.lower().replace("_", "-")


class Limit(_Named):
    """What limited a transfer at an instant; the rules are tried in this order.

    Examples
    --------
    >>> limits = session.limits()
    >>> bool((limits["limit"] == mt.Limit.LINK.label).any())
    True
    """

    HANDSHAKE = 0
    """No data may be sent yet."""
    OUTAGE = 1
    """Nothing arrives, and a retransmission was lost too."""
    LINK = 2
    """The bottleneck has data of the transfer queued or in service."""
    RECOVERY = 3
    """The oldest data are lost, and later data wait for their retransmission."""
    RECEIVER_WINDOW = 4
    """The outstanding data fill the window that the receiver advertised."""
    SENDER_BUFFER = 5
    """The application has more data, but the send buffer is full; no window is full."""
    APPLICATION = 6
    """The sending TCP has nothing to send."""
    SLOW_START = 7
    """The congestion window limits; it is growing, and has not filled the path yet."""
    CONGESTION_WINDOW = 8
    """The congestion window (or the pacer) limits, though the path has room."""
    UNKNOWN = 9
    """The limit is unknown."""


class LimitSubtype(_Named):
    """The subtype of a limit; NONE if there is none."""

    NONE = 0
    BOTH = 1
    """Outage: nothing arrives in either direction."""
    DATA = 2
    ACKS = 3
    """Outage: no ACK arrives. Link limit: ACKs waited in a queue."""
    XOFF = 4
    """Link limit: the far end had stopped it."""
    ACCESS = 5
    ARQ = 6
    TIMER = 7
    """Recovery: the retransmission timer had to expire."""
    FAST = 8
    ZERO = 9
    """Receiver window: the advertised window is zero, or smaller than a segment."""
    WRITES = 10
    """Application limit: the program writes at its own pace."""
    THINK = 11
    """Application limit: the program owes the peer an answer, and has not begun it."""
    PEER = 12
    """Application limit: the program waits for the peer's next request, which was not sent yet."""
    NAGLE = 13
    """Application limit: a small segment waits for the ACK of a small segment (Nagle's algorithm)."""
    PACING = 14
    LATENCY = 15
    """Application limit: data and the peer's next request are in transit, one round trip per request."""
    REPAIR = 16
    """Application limit: a request, or the data before it, was lost and had to be sent again."""
    HOST = 17
    """Link limit: data waited in a queue of the sender's own host: a shaper, or a modem behind it."""
    POLICER = 18
    """Link limit: a policer passed nearly all that its contract allows."""


class Confidence(_Named):
    """The confidence of a limit: how often its rule was right with this kind of capture."""

    MEASURED = 0
    INFERRED = 1
    WEAK = 2


class Viewpoint(_Named):
    """Which logs show the transfer: of the link, the sender, the receiver, or none."""

    LINK_LOG = 0
    """The log of the link at the data's sender."""
    BOTH_ENDS = 1
    SENDER_STATE = 2
    """The sender's packets and its TCP variables."""
    SENDER = 3
    RECEIVER = 4
    NOWHERE = 5
    """No usable log: one direction only, packets without time stamps, or no data."""


ONE_END = (Viewpoint.SENDER, Viewpoint.RECEIVER)
"""Packets of one end alone: they do not tell an idle program from a full send buffer."""
FORWARD, REVERSE = "forward", "reverse"
"""Whose data: the initiator's, or the responder's."""


def direction_of(*, reverse: bool) -> str:
    """Return the word for a direction, as the option `--direction` has it."""
    return REVERSE if reverse else FORWARD


JOINED = (Limit.APPLICATION, Limit.OUTAGE, Limit.RECOVERY)
"""Limits that are one thing in both directions: the programs wait for each other, and one path lost the packets."""


class LimitShare(NamedTuple):
    """The time of one limit with one subtype, of the data of one direction."""

    limit: Limit
    part: LimitSubtype
    seconds: float
    share: float
    """Share of T, 0 to 1."""
    share_low: float
    """The share without weak intervals."""
    share_high: float
    """The share with the weak intervals of other limits that may have been this one."""
    confidence: Confidence
    """Confidence of most of its time."""
    reverse: bool = False
    """Whose data it held back: False the initiator's, True the responder's."""


def by_limit(rows: list[LimitShare]) -> dict[Limit, float]:
    """Return the share of each limit, the sum of its subtypes, largest first."""
    sums: dict[Limit, float] = {}
    for row in rows:
        sums[row.limit] = sums.get(row.limit, 0.0) + row.share
    return dict(sorted(sums.items(), key=lambda item: -item[1]))


# --- causes by the log of a radio ---


OF_THE_RADIO = (Limit.OUTAGE, Limit.LINK, Limit.RECOVERY)
"""Limits that the radio can cause."""
STOPS = (Limit.OUTAGE, Limit.RECOVERY)
"""Limits during which nothing new arrives."""


class RadioCause(IntEnum):
    """What the radio log shows as the cause of a limit.

    Examples
    --------
    >>> seconds = mt.open("sample_traces/rehearsed-drive").seconds()
    >>> int((seconds["cause"] == mt.RadioCause.COVERAGE.label).sum())
    25
    """

    UNKNOWN = 0
    """Without a log, or without sufficient evidence."""
    NORMAL = 1
    """The radio shows nothing unusual."""
    COVERAGE = 2
    INTERFERENCE = 3
    HANDOVER = 4
    TECHNOLOGY = 5
    LOAD = 6
    PROMOTION = 7
    """Data waited until the idle or inactive phone had a connection: RRC set-up, resume, service request."""
    REJECTED = 8
    """The network refused what the phone asked for while data waited."""
    RADIO_LINK_FAILURE = 9
    """The phone lost its cell, and asked another one to continue the connection (TS 36.331, 5.3.7)."""
    RELEASE = 10
    """The network released the connection while data waited."""
    SECONDARY_LEG = 11
    """The NR leg of a dual connection was added, changed or released, or failed."""

    @property
    def label(self) -> str | None:
        """The word for documents; None if the cause is unknown."""
        if self is RadioCause.UNKNOWN:
            return None
        return "radio-normal" if self is RadioCause.NORMAL else self.name.lower().replace("_", "-")

    @property
    def help(self) -> str:
        """What would help against this cause; empty if it is unknown."""
        return _HELP.get(self, "")


_HELP = {
    RadioCause.NORMAL: "look beyond the radio, which was good: at the path behind the cell, and at the other end",
    RadioCause.COVERAGE: "better coverage: another place, antenna or network",
    RadioCause.INTERFERENCE: "less interference: another cell or channel, or a directional antenna",
    RadioCause.HANDOVER: "other handover parameters of the two cells",
    RadioCause.TECHNOLOGY: "coverage by a newer technology",
    RadioCause.LOAD: "a less loaded cell, or another time of the day",
    RadioCause.PROMOTION: "keep-alives more often than the inactivity timer of the network, or requests in batches",
    RadioCause.REJECTED: "ask the operator about the cause of the reject",
    RadioCause.RADIO_LINK_FAILURE: "better coverage where the link failed, or other handover parameters there",
    RadioCause.RELEASE: "ask the operator why the cell releases a connection with waiting data: its load, or its timer",
    RadioCause.SECONDARY_LEG: "other thresholds of the operator for the NR leg, or LTE alone where it comes and goes",
}


OF_SIGNALLING = (
    RadioCause.REJECTED,
    RadioCause.RADIO_LINK_FAILURE,
    RadioCause.RELEASE,
    RadioCause.SECONDARY_LEG,
    RadioCause.PROMOTION,
)
"""Causes that messages between phone and network show, or states that a modem reports: the first that fits holds."""


Causes = dict[RadioCause, float]
"""Seconds of each cause, the largest first."""


def summed(several: Sequence[Causes]) -> Causes:
    """Return the seconds of each cause in several transfers, the largest first."""
    sums: Causes = {}
    for causes in several:
        for each, seconds in causes.items():
            sums[each] = sums.get(each, 0.0) + seconds
    return dict(sorted(sums.items(), key=lambda each: -each[1]))


def largest(causes: Causes) -> RadioCause:
    """Return the cause with most time; unknown if there is none."""
    return max(causes, key=lambda each: causes[each], default=RadioCause.UNKNOWN)


def causes_document(causes: Causes, *, digits: int) -> Document:
    """Return the keys `cause` (the largest) and `causes` (seconds of each known cause) of a JSON row."""
    seconds = {each.label: round(s, digits) for each, s in causes.items() if each.label is not None}
    return {"cause": largest(causes).label, "causes": seconds}


NAMES_OF_SIGNALLING = {
    RadioCause.PROMOTION: "the phone's promotion to a connection",
    RadioCause.REJECTED: "a reject of the network",
    RadioCause.RADIO_LINK_FAILURE: "a failure of the radio link",
    RadioCause.RELEASE: "a release by the network",
    RadioCause.SECONDARY_LEG: "a change of the NR leg",
}
"""Names of the causes that messages between phone and network show."""
