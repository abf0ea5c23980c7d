"""The receiver offered no room at all: nobody read what had arrived."""

from __future__ import annotations

from typing import TYPE_CHECKING

from multitracer.diagnosis.limits.held import held
from multitracer.diagnosis.limits.names import Limit, Part
from multitracer.words import count

if TYPE_CHECKING:
    from collections.abc import Iterator

    from multitracer.diagnosis.case import Case, Finding


KIND = "zero-window"
HELP = "A program that reads what has arrived; look at what it waited for."


def find(case: Case) -> Iterator[Finding]:
    """Yield at most one finding, however small its share: a closed window is never in order."""
    found = held(case.limited, Limit.RECEIVER_WINDOW, Part.ZERO, least=0.0)
    if found is None:
        return
    numbers = found.numbers
    sentence = (
        f"The receiver had no room at all for {found.seconds:.1f} s, {count(len(found.lengths_s), 'time')} "
        f"(up to {numbers['largest_s']:.2g} s): its program did not read what had arrived."
    )
    yield found.finding(KIND, sentence, numbers)
