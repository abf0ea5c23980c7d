"""The clock of a phone or a router, read between two readings of this host's: the bound on its offset is honest."""

from __future__ import annotations

import random
import sys
import time

import numpy as np
import pytest

from collectors._shell import Shell
from collectors._stop import Stop
from multitracer.clock.sources.paired_stamps import relations_of_remote_clocks
from multitracer.schemas.radio import REMOTE_CLOCK
from multitracer.tables import Table

S = 1_000_000_000
START_NS = 1_790_000_000 * S
MACHINE = """\
import random, re, sys, time
chance = random.Random(int(sys.argv[1]))
for line in sys.stdin:
    if "date +%s%N" in line:
        time.sleep(chance.expovariate(1 / 0.0002))
        now = time.time_ns() + int(sys.argv[2])
        time.sleep(chance.expovariate(1 / 0.0002))
    else:
        one, two = re.search(r"n' (\\w+) (\\w+) ", line).groups()
        print(f"{now}\\n\\n{one}{two} 0", flush=True)
"""


def delays(kind: str, chance: random.Random, scale_ns: float, number: int) -> tuple[int, int]:
    """Return how long question and answer of a reading take."""
    trip = scale_ns * (0.1 + chance.expovariate(1))
    if kind == "to and fro alike":
        return round(trip), round(trip)
    if kind == "at random":
        return round(trip), round(scale_ns * (0.1 + chance.expovariate(1)))
    if kind == "a queue that grows":
        return round(scale_ns * (1 + number) / 20), round(scale_ns / 20)
    return round(trip), round(scale_ns / 20)  # always the question


@pytest.mark.parametrize("kind", ["to and fro alike", "at random", "a queue that grows", "one direction"])
@pytest.mark.parametrize("drift_ppm", [0.0, 3.0])
def test_true_offset_is_inside_the_bound_in_100_of_100(kind: str, drift_ppm: float) -> None:
    """Each with a random offset, skew, number of readings and delays; `drift_ppm`: a clock that warms up."""
    inside = 0
    for seed in range(100):
        chance = random.Random(seed)
        offset_ns, skew = chance.randrange(-(10**12), 10**12), chance.uniform(-40, 40) * 1e-6
        scale_ns, count = 10 ** chance.uniform(5.5, 8.5), chance.choice((1, 2, 5, 60))
        rows = []
        for number in range(count):
            before_ns = START_NS + number * 5 * S + chance.randrange(S // 10)
            there, back = delays(kind, chance, scale_ns, number)
            passed_ns = before_ns + there - START_NS
            moved_ns = passed_ns * (skew + drift_ppm * 1e-6 * passed_ns / (300 * S))
            read_ns = before_ns + there
            rows.append((before_ns, before_ns + there + back, read_ns + offset_ns + round(moved_ns), read_ns))
        before, after, remote, true_ns = np.array(rows, np.int64).T
        more = {"host": np.full(count, "phone", "U64"), "line": np.ones(count, np.uint32)}
        columns = {"time_ns": before, "until_ns": after, "remote_ns": remote, **more}
        (relation,) = relations_of_remote_clocks("mobile", Table(REMOTE_CLOCK, columns))
        (estimate,) = relation.estimates
        off_ns = np.abs(estimate.at(remote) - true_ns)
        inside += bool((off_ns <= estimate.bound_ns(remote)).all())
        shortest_ns = int((after - before).min())
        assert drift_ppm or estimate.at_pivot_ns <= 0.6 * shortest_ns + 300_002, "no wider than the shortest reading"
    assert inside == 100


def test_readings_through_a_shell_hold_the_true_offset_in_100_of_100() -> None:
    """A machine that lets question and answer wait at random times; each reading is the best of three."""
    offset_ns = -7_250_000_000
    with Stop(outlive_parent=True) as stop, Shell([sys.executable, "-c", MACHINE, "1", str(offset_ns)], stop) as shell:
        ahead_ns = time.time_ns() - time.monotonic_ns()
        readings = [shell.clock(timeout_s=10) for _ in range(100)]
    drift_ns = abs(time.time_ns() - time.monotonic_ns() - ahead_ns) + 50_000  # this host's own two clocks
    for reading in readings:
        assert reading is not None
        true_ns = reading["remote_ns"] - offset_ns - ahead_ns
        assert reading["before_ns"] - drift_ns <= true_ns <= reading["after_ns"] + drift_ns
