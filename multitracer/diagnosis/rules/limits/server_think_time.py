"""The server owed an answer and had not begun it: its program needed time."""

from __future__ import annotations

from typing import TYPE_CHECKING

from multitracer.diagnosis.held import held
from multitracer.diagnosis.limits.names import Limit, LimitSubtype
from multitracer.units import NS_PER_S
from multitracer.words import about, duration

if TYPE_CHECKING:
    from collections.abc import Iterator

    from multitracer.diagnosis.diagnosis import Diagnosis
    from multitracer.diagnosis.finding import Finding

KIND = "server-think-time"
HELP = "A program that begins its answers sooner, or requests that do not wait for each other."


def find(diagnosis: Diagnosis) -> Iterator[Finding]:
    """Yield at most one finding, if the server's program needed time before it began to answer.

    There is none unless the responder (server) sends the data.
    """
    limit = held(diagnosis.limited, Limit.APPLICATION, LimitSubtype.THINK) if diagnosis.transfer.reverse else None
    if limit is None:
        return
    numbers, many = limit.numbers, len(limit.lengths_s)
    typical, largest = about(numbers["median_s"]), about(numbers["largest_s"])
    took = f"took {typical}" if typical == largest else f"typically took {typical} (up to {largest})"
    sentence = (
        f"The server {took} to begin "
        f"each of {many:,} answers: {limit.seconds:.1f} s in all, {100 * limit.share:.0f} % of the time."
    )
    if many == 1:
        took = duration(limit.seconds * NS_PER_S)
        sentence = f"The server took {took} to begin its answer: {100 * limit.share:.0f} % of the time."
    yield limit.finding(KIND, sentence, numbers)
