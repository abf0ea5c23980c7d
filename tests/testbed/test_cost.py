"""What a run at the link's own speed takes of a core: processor time of the run and all its children."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from tests.testbed.running import processes, short_scenario, started, until

pytestmark = pytest.mark.root

WINDOW_S = 30.0
"""Link seconds in which it is measured: at 1x they are seconds. Starting and ending is not counted."""
MOST = 0.05
_TICKS_PER_S = os.sysconf("SC_CLK_TCK")


def test_a_run_at_1x_takes_less_than_a_twentieth_of_a_core(tmp_path: Path) -> None:
    folder = tmp_path / "call"
    with started(short_scenario(tmp_path, size=100_000), folder, speed=1) as child:
        for side in ("mobile", "fixed"):  # both collectors of TCP's variables and the capture are at work
            until(lambda at=folder / side: has_begun(at), child)  # type: ignore[misc]
        began_s, before = time.monotonic(), used_s(child.pid)
        time.sleep(WINDOW_S)
        after, took_s = used_s(child.pid), time.monotonic() - began_s
        assert child.poll() is None
    assert after.keys() == before.keys()
    assert len(before) >= 8, "the run, its applications and its collectors"
    assert sum(after.values()) - sum(before.values()) < MOST * took_s


def has_begun(host: Path) -> bool:
    """Return whether a capture has packets, and the sender's variables are written."""
    logs = [*host.glob("tcp-0.pcap"), *host.glob("tcp_state.jsonl")]
    return len(logs) == 2 and all(log.stat().st_size > 1_000 for log in logs)


def used_s(maker: int) -> dict[int, float]:
    """Return the processor time of each process of a run, its own included."""
    found = {}
    for pid in {maker, *processes(maker)}:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        found[pid] = (int(fields[11]) + int(fields[12])) / _TICKS_PER_S  # utime, stime
    return found
