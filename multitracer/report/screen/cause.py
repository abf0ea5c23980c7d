"""Which incident tells why the largest limit held: it stands below the headline and first among the marks."""

from __future__ import annotations

from typing import TYPE_CHECKING

from multitracer.diagnosis.limits.names import Confidence, Limit, View
from multitracer.report.screen.lost_run import lost_run
from multitracer.words import count, share

if TYPE_CHECKING:
    from multitracer.diagnosis.diagnose import Diagnosis
    from multitracer.diagnosis.incidents import Incident

_LOSSES = (
    "policer", "path-mtu-black-hole", "local-buffer-overflow", "random-loss", "congestion-loss", "ecn-marked",
    "reordering", "spurious-timeout", "ack-loss",
)  # fmt: skip
_HOLES = (
    "dropped-call", "handover", "blackout", "link-reset", "path-mtu-black-hole", "idle-timeout", "outage",
    "header-decompressor-failure", "ack-loss", "exponential-back-off",
)  # fmt: skip
_EXPLAIN: dict[Limit, tuple[str, ...]] = {
    Limit.HANDSHAKE: ("syn-unanswered", "connection-refused", "syn-retransmitted", "reset-by-peer"),
    Limit.OUTAGE: _HOLES,
    Limit.LINK: (
        "policer", "bufferbloat", "overbuffered-link", "radio-limited", "link-flow-control",
        "competing-traffic", "rate-change", "rlp-retransmission-burst", "link-limited",
    ),
    Limit.RECOVERY: (*_LOSSES, *_HOLES, "competing-retransmission"),
    Limit.RECEIVER_WINDOW: ("zero-window", "receiver-limited"),
    Limit.SENDER_BUFFER: ("send-buffer-limited",),
    Limit.APPLICATION: ("server-think-time", "client-think-time", "nagle-delayed-ack", "application-limited"),
    Limit.SLOW_START: (*_LOSSES, "slow-start-limited"),
    Limit.CONGESTION_WINDOW: (*_LOSSES, "pacing", "outage"),
    Limit.UNKNOWN: (),
}  # fmt: skip
"""Kinds that explain a limit, those that say most first."""
_WORTH = 0.1
"""Share of the time from which on what cost most goes before what says most (limits.md: worth naming)."""


_REPEATS = {
    "link-limited", "receiver-limited", "zero-window", "send-buffer-limited", "server-think-time",
    "client-think-time", "application-limited", "slow-start-limited",
}  # fmt: skip
"""Kinds whose sentence says what the headline says."""
QUEUES = {"bufferbloat", "overbuffered-link"}
"""Kinds that cost delay, not time: others, and interactive use, feel them."""
_BEFALLS = {
    "link-flow-control": (
        "the far end stopped the link",
        "against the stops a network that drains it sooner",
    ),
    "rlp-retransmission-burst": (
        "the radio failed for a while",
        "against lost frames a better place, antenna or cell",
    ),
}
"""What may befall a radio link at once, and what would help; where both did, each names the other."""
_JUDGED = {"policer", "random-loss", "congestion-loss", "competing-traffic", "idle-timeout", "radio-limited"}
"""Kinds that are concluded from a pattern: inferred, whatever was captured."""
AFTER_LOSSES = (Limit.RECOVERY, Limit.CONGESTION_WINDOW)
"""What the loss of a packet brings about."""


def why(diagnosis: Diagnosis) -> tuple[str, str]:
    """Return the name of what made the limit hold, and its sentence; empty where the headline says it all."""
    first = cause(diagnosis)
    if first is not None:
        name = f"Side effect, {first.kind}" if first.kind in QUEUES and not first.cost_s else first.kind
        return ("", "") if first.kind in _REPEATS else (name, first.sentence + _further(diagnosis, first))
    lost, of = lost_segments(diagnosis)
    if not lost:
        return "", ""
    many = f"{lost:,} of {count(of, 'data segment')} ({share(lost, of)})"
    return "losses", f"{many} did not arrive; after a loss the sender slows down. Their cause is not shown."


def _further(diagnosis: Diagnosis, first: Incident) -> str:
    """Return that a cause cost no time, or what else befell a radio link; "" without either."""
    if first.kind in QUEUES and not first.cost_s:
        return " It cost this transfer no time."
    other = _other(diagnosis, first)
    return f" Beside it {_BEFALLS[other][0]} ({other})." if other else ""


def _other(diagnosis: Diagnosis, first: Incident) -> str:
    """Return the kind of the other thing that befell a radio link; "" without one."""
    kinds = [each.kind for each in diagnosis.incidents if first.kind in _BEFALLS and each.kind in _BEFALLS]
    return next((kind for kind in kinds if kind != first.kind), "")


def lost_segments(diagnosis: Diagnosis) -> tuple[int, int]:
    """Return the lost segments and all of them, where losses made the limit hold; else 0."""
    seen = diagnosis.limited.seen
    if seen is None or diagnosis.headline.limit not in AFTER_LOSSES:
        return 0, 0
    return int((seen.sends.lost == 1).sum()), len(seen.sends)


def help_of(diagnosis: Diagnosis) -> str:
    """Return what would help: against what made the limit hold, else against the limit itself."""
    first, of_limit = cause(diagnosis), diagnosis.headline.help.rstrip(".")
    known = "" if first is None or first.kind in _REPEATS else first.help.rstrip(".")
    helps = [known or of_limit]
    if first is not None and first.kind in QUEUES and diagnosis.headline.limit is Limit.LINK:
        queue = f"{known[:1].lower()}{known[1:]}"
        helps = [of_limit, f"against the delay, which others and interactive use feel: {queue}"]
    elif first is not None and (other := _other(diagnosis, first)):
        helps.append(_BEFALLS[other][1])
    if lost_run(diagnosis) is not None:
        helps.insert(0, "the part of the path that lost all data for a while")
    return "; ".join(helps)


def cause(diagnosis: Diagnosis) -> Incident | None:
    """Return the incident that explains the largest limit; None if none does."""
    kinds = _EXPLAIN[diagnosis.headline.limit]
    least_s = _WORTH * diagnosis.limited.total_s
    able = [each for each in diagnosis.incidents if each.kind in kinds]
    return min(
        able,
        key=lambda each: (-each.cost_s if each.cost_s >= least_s else 0.0, kinds.index(each.kind)),
        default=None,
    )


def in_order(diagnosis: Diagnosis) -> list[Incident]:
    """Return the incidents: what explains the headline, then the others, largest cost first."""
    first = cause(diagnosis)
    return [*([first] if first else []), *(each for each in diagnosis.incidents if each is not first)]


def confidence_of(first: Incident, view: View) -> Confidence:
    """Return how sure a cause is: what both ends or a log show is measured, a pattern is inferred."""
    if first.kind not in _JUDGED and view in (View.LINK_LOG, View.BOTH_ENDS):
        return Confidence.MEASURED
    return Confidence.INFERRED
