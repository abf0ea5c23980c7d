"""`python -m tests.corpus`: judge the whole corpus beside tshark and tcptrace; write the table into the docs.

Exits with 1 if a goal is missed.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from tests.corpus.judged import Corpus, away, by_tcptrace, by_tshark, ours
from tests.corpus.transfers import FORGETFUL, RENEGING, SIZE

if TYPE_CHECKING:
    from tests.corpus.judged import Score

PAGE = Path(__file__).parents[2] / "docs" / "verdicts.md"
BEGIN, END = "<!-- corpus -->\n", "<!-- end of corpus -->"
COLUMNS = (
    "judge", "retransmissions", "called out of order", "of these by a timeout", "truly spurious",
    "found spurious", "recall", "precision", "cause right",
)  # fmt: skip
_NOTHING = "–"


def row(judge: str, score: Score) -> str:
    """Return the line of a judge."""
    found = score.necessity["spurious", "spurious"]
    called = sum(n for (_, said), n in score.necessity.items() if said == "spurious")
    cells = (
        judge,
        f"{score.retransmissions:,}",
        str(score.out_of_order),
        str(score.out_of_order_timeouts),
        f"{score.truly_spurious:,}",
        f"{found:,}",
        f"{score.recall:.1%}",
        f"{score.precision:.1%}" if called else _NOTHING,
        f"{score.right_causes:.1%}",
    )
    return f"| {' | '.join(cells)} |\n"


def table(corpus: Corpus) -> str:
    """Return the table of all judges."""
    lines = f"| {' | '.join(COLUMNS)} |\n|{'---|' * len(COLUMNS)}\n"
    judges = {
        "MultiTracer": ours(corpus),
        "MultiTracer, `--receiver`": ours(corpus, with_receiver=True),
        "MultiTracer, half-way": away(corpus, "middle"),
        "MultiTracer, at the receiver": away(corpus, "fixed"),
        "tshark": by_tshark(corpus),
    }
    for stamped, what in ((True, "with timestamps"), (False, "without")):
        for judge, scores in judges.items():
            lines += row(f"{judge}, {what}", scores[stamped])
    resent, out_of_order = by_tcptrace(corpus)
    nothing = " | ".join([_NOTHING] * (len(COLUMNS) - 3))
    return f"{lines}| tcptrace, both | {resent:,} | {out_of_order} | {nothing} |\n"


def rows_without_memory(folder: Path) -> str:
    """Return the lines of senders that forget SACKs, and of receivers that renege."""
    lines = ""
    for kind, numbers in (("senders that forget SACKs", FORGETFUL), ("receivers that renege", RENEGING)):
        scores = ours(Corpus.of(numbers, folder))
        for stamped, what in ((True, "with timestamps"), (False, "without")):
            lines += row(f"MultiTracer, {kind}, {what}", scores[stamped])
    return lines


def main() -> int:
    """Run, print, write; return the exit status."""
    with tempfile.TemporaryDirectory() as folder:
        corpus = Corpus.of(range(SIZE), Path(folder))
        found = table(corpus)
        stamped = ours(corpus)[True]
        found += rows_without_memory(Path(folder))
    sys.stdout.write(found)
    text = PAGE.read_text("utf-8")
    before, _, rest = text.partition(BEGIN)
    PAGE.write_text(f"{before}{BEGIN}{found}{END}{rest.partition(END)[2]}", "utf-8")
    return int(stamped.recall < 0.95 or stamped.precision < 0.98 or stamped.out_of_order > 0)


if __name__ == "__main__":
    sys.exit(main())
