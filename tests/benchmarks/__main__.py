"""`make bench`: measure our speed beside the peers', print the table, say which goals are met.

--quick takes captures of a tenth the size and fewer runs; --keep writes docs/benchmarks.md; --only takes the
comparisons in whose module's or function's name a word is.
"""

from __future__ import annotations

import argparse
import os
import platform
import re
import subprocess
import sys
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path

from tests.benchmarks import goals, limits, measure, mutual_information, native, page, phone, record, virtual

_DOCUMENT = Path(__file__).parents[2] / "docs" / "benchmarks.md"
_INTRODUCTION = """\
# How fast it is

`make bench` records these captures with real kernel TCP (`tests/benchmarks/record.py`). It starts
each program as a process of its own, ours and the other tool's in turn, and takes medians. It ran
on

"""


def captures(*, quick: bool) -> goals.Captures:
    """Return the inputs; record what is missing."""
    recipes = (record.FULL, record.HEADERS, record.BULK, record.TRANSFER, record.MANY)
    full, headers, bulk, transfer, many = (record.recorded(_tenth(each) if quick else each) for each in recipes)
    prefix = "quick_" if quick else ""
    cuts = {n: record.first_packets(headers, c, prefix + n) for n, c in record.CUTS.items()}
    merged = record.merged([full, headers, bulk], f"{prefix}merged")
    return goals.Captures(full=full, headers=headers, bulk=bulk, merged=merged, transfer=transfer, many=many, **cuts)


def _tenth(recipe: record.Recipe) -> record.Recipe:
    return replace(recipe, name=f"quick_{recipe.name}", total_bytes=recipe.total_bytes // 10)


def measured(inputs: goals.Captures, *, runs: int, only: str) -> list[goals.Row]:
    """Run the comparisons whose name holds a word; say on stderr how far it is."""
    rows = []
    for goal in (*goals.ALL, *native.ALL, *limits.ALL, *mutual_information.ALL, *virtual.ALL, *page.ALL, *phone.ALL):
        if only not in f"{goal.__module__}.{goal.__name__}":
            continue
        print(f"{goal.__name__.replace('_', ' ')} ...", file=sys.stderr, flush=True)
        rows += rows_of(goal, inputs, runs=runs)
    return rows


def rows_of(goal: goals.Goal, inputs: goals.Captures, *, runs: int) -> list[goals.Row]:
    """Return the rows of a comparison; where a program fails, those before, and one with its last words."""
    rows: list[goals.Row] = []
    try:
        rows.extend(goal(inputs, runs=runs))  # extend keeps what came before an exception
    except measure.ProgramFailedError as error:
        print(error, file=sys.stderr)
        last = str(error).splitlines()[-1].replace("|", "/")
        name = goal.__name__.replace("_", " ")
        rows.append(goals.Row(name, "", "", "", f"failed: {last}", "a result", met=False))
    return rows


def table(rows: list[goals.Row]) -> str:
    """Return the rows as Markdown."""
    lines = ["| what | capture | ours | peer | result | goal | met |", "|---|---|---|---|---|---|---|"]
    for r in rows:
        cells = (r.what, r.on, r.ours, r.peer, r.result, r.goal or "–", _met(r))
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def _met(row: goals.Row) -> str:
    if not row.goal:
        return "–"
    return "yes" if row.met else "**no**"


def radio_context(inputs: goals.Captures) -> str:
    """Say on what machine, with what versions and inputs, at what commit."""
    cpu = re.search(r"model name\s*:\s*(.*)", Path("/proc/cpuinfo").read_text())
    memory_gib = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    sizes = (
        f"{c.stem} {goals.packets(c):,} packets, {c.stat().st_size / 1e6:.0f} MB"
        for c in (inputs.full, inputs.headers, inputs.bulk, inputs.merged, inputs.transfer, inputs.many)
    )
    machine = f"{os.cpu_count()} cores of {cpu[1] if cpu else platform.machine()}, {memory_gib:.0f} GiB"
    kernel = f"Linux {platform.release().partition('-')[0]}"
    load = f"load {os.getloadavg()[0]:.1f} at the start"
    ours = f"Python {platform.python_version()}, NumPy {version('numpy')}, scapy {version('scapy')}"
    peers = f"{_first_line('tshark', '--version')}, {_tcptrace_version()}"
    commit = f"commit {_first_line('git', 'rev-parse', '--short=12', 'HEAD')}"
    facts = (f"{machine}, {kernel}; {load}", f"{ours}, {peers}", commit, "; ".join(sizes))
    return "".join(f"- {fact}\n" for fact in facts)


def _first_line(*argv: str) -> str:
    done = subprocess.run(argv, check=True, capture_output=True, text=True)
    return done.stdout.splitlines()[0].rstrip(".")


def _tcptrace_version() -> str:
    done = subprocess.run(["tcptrace", "-v"], check=False, capture_output=True, text=True)
    found = re.search(r"version ([\d.]+)", done.stdout + done.stderr)
    return f"tcptrace {found[1]}" if found else "tcptrace"


def _compile_ours() -> None:
    """Have byte code for sources that were edited, as a user's installation has: `pip install` makes it."""
    packages = [str(_DOCUMENT.parents[1] / name) for name in ("multitracer", "parsers", "collectors")]
    subprocess.run([sys.executable, "-m", "compileall", "-q", *packages], check=True)


def main() -> int:
    """Measure, print, and return 1 if a goal is missed (never with --quick: small captures judge nothing)."""
    parser = argparse.ArgumentParser(prog="make bench", description=__doc__)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--keep", action="store_true")
    parser.add_argument("--only", default="", metavar="WORD", help="of the comparisons with this in the name")
    options = parser.parse_args()
    if options.keep and options.only:
        parser.error("--keep writes the whole page; leave --only out")
    _compile_ours()
    inputs = captures(quick=options.quick)
    where = radio_context(inputs)
    rows = measured(inputs, runs=2 if options.quick else 5, only=options.only)
    text = f"{where}\n{table(rows)}"
    print(text, end="")
    if options.keep:
        _DOCUMENT.write_text(_INTRODUCTION + text)
    judged = [row for row in rows if row.goal]
    missed = [row for row in judged if not row.met]
    met = f"{len(judged) - len(missed)} of {len(judged)} goals met"
    print(f"\n{met}" + (" (indicative)" if options.quick else ""))
    return 1 if missed and not options.quick else 0


if __name__ == "__main__":
    sys.exit(main())
