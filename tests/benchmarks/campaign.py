"""What questions and the report of a large campaign cost.

`python -m tests.benchmarks.campaign SECONDS [FOLDER]` makes a catalogue of so many seconds
(tests/campaign/synthetic.py) unless the folder holds one. Each question is put by a process of its own after
the files have left the page cache (cold), and again in that process (warm); the report is the program's.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from tests.benchmarks.measure import cost

QUESTIONS = {
    "count of seconds by limit": "SELECT limited_by, count(*) FROM seconds GROUP BY ALL ORDER BY ALL",
    "deciles of throughput and RTT": (
        "SELECT quantile_cont(throughput_bps, [0.1, 0.5, 0.9]), quantile_cont(rtt_ns, [0.1, 0.5, 0.9]) FROM seconds"
    ),
    "medians by operator": (
        "SELECT labels['operator'] AS operator, median(throughput_bps), median(rtt_ns) "
        "FROM seconds JOIN sessions USING (session) GROUP BY ALL"
    ),
    "medians by cell": (
        "SELECT plmn, cell_id, count(*) AS n, median(throughput_bps) FROM seconds GROUP BY ALL ORDER BY n DESC LIMIT 20"
    ),
    "findings by cost": (
        "SELECT kind, sum(cost_s) AS seconds, count(DISTINCT session) FROM findings GROUP BY ALL ORDER BY seconds DESC"
    ),
    "one session": "SELECT * FROM seconds WHERE session = '0000000000000007' ORDER BY time_ns",
}
_CHILD = """
import json, sys, time, resource
from multitracer.campaign.catalogue import Catalogue
from multitracer.campaign.query import query
took = []
for _ in range(3):
    begin, worked = time.perf_counter(), time.process_time()
    query(Catalogue(sys.argv[1]), sys.argv[2])
    took.append((time.perf_counter() - begin, time.process_time() - worked))
peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
print(json.dumps([took[0][0], *min(took[1:]), peak]))
"""


def main() -> None:
    """Make the catalogue, measure, and print a table."""
    seconds = int(sys.argv[1])
    with tempfile.TemporaryDirectory() as temporary:
        place = Path(sys.argv[2] if len(sys.argv) > 2 else temporary) / "campaign"
        if not place.exists():
            cost([sys.executable, "-c", _MAKE, str(place), str(seconds)])
        stored = sum(path.stat().st_size for path in place.rglob("*") if path.is_file())
        print(f"{seconds:,} seconds, {stored / 1e6:,.0f} MB\n")
        print("| question | cold | warm | processor, warm | memory |\n|---|---|---|---|---|")
        for name, sql in QUESTIONS.items():
            _forget_files(place)
            cold_s, warm_s, worked_s, peak = json.loads(_child(str(place), sql))
            row = (name, *(f"{each:.2f} s" for each in (cold_s, warm_s, worked_s)), f"{peak / 1e6:.0f} MB")
            print(f"| {' | '.join(row)} |", flush=True)
        _forget_files(place)
        page = Path(temporary) / "report"
        complete = cost([sys.executable, "-m", "multitracer", "campaign", "report", str(place), "-o", str(page)])
        size = (page / "index.html").stat().st_size
        print(
            f"\nreport: {complete.wall_s:.1f} s, {complete.cpu_s:.1f} s of processor, "
            f"{complete.peak_bytes / 1e6:.0f} MB of memory, {size / 1e6:.1f} MB of page"
        )


_MAKE = """
import sys
from pathlib import Path
from tests.campaign.synthetic import make_catalogue
make_catalogue(Path(sys.argv[1]), int(sys.argv[2]))
"""


def _child(*arguments: str) -> bytes:
    return subprocess.run([sys.executable, "-c", _CHILD, *arguments], check=True, capture_output=True).stdout


def _forget_files(place: Path) -> None:
    """Take the files of the catalogue out of the page cache; this needs no rights."""
    for path in place.rglob("*.parquet"):
        with path.open("rb") as stream:
            os.posix_fadvise(stream.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


if __name__ == "__main__":
    main()
