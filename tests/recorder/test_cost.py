"""What a capture costs: each collector, supervisor and tcpdump, while packets, radio and position come."""

from __future__ import annotations

import subprocess
import sys
import time
from typing import TYPE_CHECKING

import pytest

from tests.netns import namespaces, stop
from tests.recorder.capturing import PATIENCE_S, command, log_began, manifest, until
from tests.soak.watch import Watch

if TYPE_CHECKING:
    from pathlib import Path

MIN_S = 8.0
"""Processor time comes in hundredths of a second; in this time a tenth of a core is eighty of them."""
MOST = 0.3
"""Share of a core. A collector that waits in a loop has 0.5 to 1 alone; all together have 0.05 to 0.12 on machines that
others use, too. `make soak` measures it (docs/lab-notes/capture.md)."""


@pytest.mark.root
@pytest.mark.realtime  # processor time grows with the neighbours: twice as much beside three suites
def test_no_collector_waits_in_a_loop(tmp_path: Path) -> None:
    folder = tmp_path / "drive"
    with namespaces("mobile") as hosts:
        child = hosts.start(
            "mobile", *command(folder, "--rehearse", "-i", "lo"), stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )  # fmt: skip
        until(lambda: child.poll() is not None or all(log_began(folder)))
        watch, began = Watch(folder), time.monotonic()
        while (at_s := time.monotonic() - began) < MIN_S:
            watch.look(at_s)
            time.sleep(0.5)
        assert stop(child, patience_s=PATIENCE_S) == 0
    assert {run["name"] for run in manifest(folder)["collectors"]} == {
        "gps", "host_clock", "modem", "rlp", "tcp_info", "tcp_probe", "tcpdump", "tcpdump-udp"
    }  # fmt: skip
    shares = {each.name: each.share_of_core for each in watch.processes.values()}
    assert {"supervisor", "tcpdump", "collectors.modem"} <= shares.keys()
    assert 0 < sum(each.share_of_core for each in watch.processes.values()) < MOST, shares


@pytest.mark.root
@pytest.mark.slow
def test_the_soak_goes_fast_forward() -> None:
    argv = [sys.executable, "-m", "tests.soak", "--minutes", "0", "--hours", "0.02"]
    done = subprocess.run(argv, capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "memory is flat, nothing leaks" in done.stdout
