"""Measures what a run of the testbed at the link's own speed takes: processor time of it and all children."""

from __future__ import annotations

import os
import time
from pathlib import Path

from tests.lab.testbed.running import processes, short_scenario, started, until

_TICKS_PER_S = os.sysconf("SC_CLK_TCK")


def share_of_a_core(folder: Path, *, window_s: float) -> float:
    """Return processor time per time while a run in `folder`, which is made, is at work.

    At the link's own speed link seconds are seconds. Starting and ending is not counted.
    """
    folder.mkdir(parents=True, exist_ok=True)
    run = folder / "call"
    with started(short_scenario(folder, size=100_000), run, speed=1) as child:
        for side in ("mobile", "fixed"):  # both collectors of TCP's variables and the capture are at work
            until(lambda at=run / side: _has_begun(at), child)  # type: ignore[misc]
        began_s, before = time.monotonic(), _used_s(child.pid)
        time.sleep(window_s)
        after, took_s = _used_s(child.pid), time.monotonic() - began_s
        assert child.poll() is None, "the run ended before its time"
    assert after.keys() == before.keys()
    assert len(before) >= 8, "the run, its applications and its collectors"
    return (sum(after.values()) - sum(before.values())) / took_s


def _has_begun(host: Path) -> bool:
    """Return whether a capture has packets, and the sender's variables are written."""
    logs = [*host.glob("tcp-0.pcap"), *host.glob("tcp_state.jsonl")]
    return len(logs) == 2 and all(log.stat().st_size > 1_000 for log in logs)


def _used_s(maker: int) -> dict[int, float]:
    """Return the processor time of each process of a run, its own included."""
    found = {}
    for pid in {maker, *processes(maker)}:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        found[pid] = (int(fields[11]) + int(fields[12])) / _TICKS_PER_S  # utime, stime
    return found
