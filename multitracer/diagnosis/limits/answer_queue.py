"""A queue of answers on their own way: it makes round trips longer as a queue of data does.

A busy link of data delivers what it served meanwhile: an answer for twice as many bytes comes after twice the
time. A busy link of answers lets each through after the same time, whatever it covers.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from multitracer.diagnosis.limits.observed import Observed
    from multitracer.diagnosis.limits.spans import Spans
    from multitracer.tables import Array

_LARGER, _SMALLER = 1.4, 0.6
"""Answers that cover so many times the usual bytes are compared with the usual ones: with delayed ACKs 1, 2
and 3 segments part here."""
_FEWEST = 10  # of larger, or of smaller ones: fewer may be chance. Not measured
_PIECE = 64  # answers: enough for a median. Not measured
_SAME = 0.1
"""The times before them may differ from the usual by this part. In 250 recordings of known cause they differ
by less than 0.04 where answers queue, by 0.4 and more where data do."""


def answers_queue(seen: Observed, queued: Spans) -> bool:
    """Return whether the answers within `queued` stretches waited on their own way, by their rhythm.

    False where all cover the same number of bytes: then the rhythm tells nothing.
    """
    wait_ns, covered = _steps(seen, queued)
    if len(wait_ns) < 2 * _FEWEST:
        return False
    pieces = len(wait_ns) // _PIECE
    return all(_is_even(_of_usual(wait_ns, many), _of_usual(covered, many)) for many in {1, max(1, pieces)})


def _is_even(wait: Array, covered: Array) -> bool:
    """Return whether answers come after the usual time (1) whatever part of the usual bytes they cover."""
    odd = [each for each in (covered >= _LARGER, covered <= _SMALLER) if each.sum() >= _FEWEST]
    return bool(odd) and all(abs(float(np.median(wait[each])) - 1) <= _SAME for each in odd)


def _of_usual(values: Array, pieces: int) -> Array:
    """Return values as parts of the median of their piece: a link may become slower meanwhile."""
    return np.concatenate([piece / max(np.median(piece), 1) for piece in np.array_split(values, pieces)])


def _steps(seen: Observed, queued: Spans) -> tuple[Array, Array]:
    """Return the times between answers that deliver, and the bytes each delivers, both in one stretch."""
    done = seen.answers.delivered
    new = np.flatnonzero(np.diff(done, prepend=done[:1]) > 0)
    time_ns = seen.answers.time_ns[new]
    stretch = queued.which(time_ns)
    inside = (stretch[1:] >= 0) & (stretch[1:] == stretch[:-1])
    return np.diff(time_ns)[inside], np.diff(done[new])[inside]
