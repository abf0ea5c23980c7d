"""The table of scenarios in docs/simulator.md; `python -m tests.lab.simulator.reference` writes it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from multitracer.lab.scenario.library import bundled_names, load_scenario
from multitracer.lab.simulator.run import VirtualRun

if TYPE_CHECKING:
    from collections.abc import Callable

    from multitracer.lab.scenario.model import Scenario
    from multitracer.lab.scenario.summary import Summary

PAGE = Path(__file__).parents[3] / "docs" / "simulator.md"
BEGIN, END = "<!-- scenarios -->\n", "<!-- end of scenarios -->"
COLUMNS = (
    "scenario", "goodput, B/s", "longest RTT, s", "RLP resent", "resets", "TCP resent", "timeouts",
    "fast rexmt", "checksum errors", "hole, s", "gaps",
)  # fmt: skip
HEADER = f"| {' | '.join(COLUMNS)} |\n|{'---|' * len(COLUMNS)}\n"


def row(name: str, s: Summary) -> str:
    """Return the line of one scenario."""
    gaps = f"{len(s.xoff_gaps_s)} · {max(s.xoff_gaps_s):.2f} s" if s.xoff_gaps_s else "0"
    cells = (
        f"`{name}`",
        f"{s.goodput_bytes_per_s:.0f}",
        "-" if s.max_rtt_s is None else f"{s.max_rtt_s:.1f}",
        *(str(n) for n in (s.rlp_retransmissions, s.rlp_resets, s.tcp_retransmissions, s.tcp_timeouts)),
        *(str(n) for n in (s.tcp_fast_retransmits, s.checksum_errors)),
        f"{s.longest_receiver_hole_s:.1f}",
        gaps,
    )
    return f"| {' | '.join(cells)} |\n"


def table(summary_of: Callable[[Scenario], Summary]) -> str:
    """Return the table, given what gives the summary of a run."""
    return HEADER + "".join(row(name, summary_of(load_scenario(name))) for name in bundled_names())


def written() -> str:
    """Return the table that the page has."""
    return PAGE.read_text("utf-8").partition(BEGIN)[2].partition(END)[0]


def main() -> None:
    """Write the table into the page."""
    text = PAGE.read_text("utf-8")
    before, _, rest = text.partition(BEGIN)
    PAGE.write_text(
        f"{before}{BEGIN}{table(lambda scenario: VirtualRun(scenario).run())}{END}{rest.partition(END)[2]}", "utf-8"
    )


if __name__ == "__main__":
    main()
