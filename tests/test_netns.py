"""Namespaces go away: with their maker, with an error, and after a maker that was killed."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.netns import namespaces, remove_stale, routed_path

pytestmark = pytest.mark.root
ROOT = Path(__file__).parents[1]
MAKE_AND_WAIT = """
from tests.netns import namespaces
with namespaces("a") as hosts:
    print(hosts["a"], flush=True)
    input()
"""


def _exists(name: str) -> bool:
    return Path("/run/netns", name).exists()


def test_they_and_their_processes_go_away_after_an_error() -> None:
    made: list[Any] = []

    def fail_inside() -> None:
        with namespaces("a") as hosts:
            made.extend((hosts["a"], hosts.start("a", "sleep", "600")))
            assert _exists(hosts["a"])
            raise ValueError("on purpose")

    with pytest.raises(ValueError, match="on purpose"):
        fail_inside()
    name, child = made
    assert not _exists(name)
    assert child.poll() is not None


def test_leftovers_of_a_killed_run_are_removed_and_those_of_a_live_one_are_not() -> None:
    with _maker() as dead, _maker() as alive:
        dead_name, alive_name = _first_line(dead), _first_line(alive)
        dead.send_signal(signal.SIGKILL)
        dead.wait()
        assert _exists(dead_name)
        remove_stale()
        assert not _exists(dead_name)
        assert _exists(alive_name)
        alive.communicate("\n", timeout=20)
        assert not _exists(alive_name)


def _maker() -> subprocess.Popen[str]:
    pipe = subprocess.PIPE
    return subprocess.Popen([sys.executable, "-c", MAKE_AND_WAIT], cwd=ROOT, stdin=pipe, stdout=pipe, text=True)


def _first_line(child: subprocess.Popen[str]) -> str:
    assert child.stdout is not None
    return child.stdout.readline().strip()


CONNECT = """
import socket
try:
    socket.create_connection(("10.0.2.2", 9), timeout=1.5)
except OSError as error:
    print(type(error).__name__)
"""


@pytest.mark.parametrize(("one_in", "outcome"), [(0, "ConnectionRefusedError"), (1, "TimeoutError")])
def test_routed_path_forwards_and_loses(one_in: int, outcome: str) -> None:
    with routed_path(rate="100mbit", latency="50ms", one_in=one_in) as hosts:
        assert hosts.run("a", sys.executable, "-c", CONNECT).stdout.strip() == outcome
