"""Talks of TCP that the verdicts judge, and what they say of them."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from multitracer.analysis import analyse
from multitracer.analysis.verdicts import Necessity, OtherLogs, RetransmissionCause, VerdictEvidence, judge
from tests.analysis.traffic import Segment, capture

if TYPE_CHECKING:
    from collections.abc import Sequence

NEAR_SENDER = 1


def verdicts(segments: Sequence[Segment], *, vantage: int = NEAR_SENDER, **beside: Any) -> list[dict[str, Any]]:
    analysis = analyse(capture(list(segments)))
    table = judge(
        analysis.tcp_segments(1), analysis.sack_blocks(1), reverse=False, vantage=vantage, logs=OtherLogs(**beside)
    )
    return list(table.rows())


def said(segments: Sequence[Segment], **how: Any) -> list[tuple[RetransmissionCause, Necessity]]:
    return [(RetransmissionCause(row["cause"]), Necessity(row["necessity"])) for row in verdicts(segments, **how)]


def proof(segments: Sequence[Segment], **how: Any) -> VerdictEvidence:
    return VerdictEvidence(verdicts(segments, **how)[-1]["evidence"])


def without_stamps(segments: Sequence[Segment]) -> list[Segment]:
    return [replace(segment, stamp=None) for segment in segments]


def without_sack(segments: Sequence[Segment]) -> list[Segment]:
    return [replace(segment, sack=()) for segment in segments]
