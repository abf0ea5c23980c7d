"""What a server still does for an honest client while others attack it: `python -m tests.benchmarks.held_load`.

It starts `measure serve` for each protocol, measures transactions with it over the loopback device, alone and beside an
attack, and prints the table of docs/measuring.md: the first datagrams a second that the server got, the transactions a
second that the client did, and the longest. It exits with 1 if a transaction failed. `--seconds N` is how long each row
takes (5 by default), `--runs N` how often each is measured; of several the smallest and the largest value are printed.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import socket
import sys
import time
from typing import TYPE_CHECKING, NamedTuple

from multitracer.measure.exchange import REQUEST, Words, filled
from multitracer.measure.plan import Experiment, MeasurementPlan
from multitracer.measure.transports import TransportOptions, client, host_port
from tests.measure.flooding import flooded, networks, served

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from contextlib import AbstractContextManager

    from multitracer.measure.plan import ProtocolName

    Attack = Callable[[ProtocolName, tuple[str, int], float], AbstractContextManager[Callable[[], int]]]

REPLY_BYTES = 1024
_NEVER_READ, _LARGE_BYTES = 255, 256 << 10
_TIMEOUT_S = 60.0
_SETTLES_S = 0.5


class HeldLoad(NamedTuple):
    """What one run measured."""

    attack_per_s: float
    """First datagrams that were sent in a second."""
    done_per_s: float
    longest_s: float
    failed: int


@contextlib.contextmanager
def no_attack(_protocol: ProtocolName, _server: tuple[str, int], _seconds: float) -> Iterator[Callable[[], int]]:
    """Nobody else is there."""
    yield lambda: 0


@contextlib.contextmanager
def never_reading(_protocol: ProtocolName, server: tuple[str, int], _seconds: float) -> Iterator[Callable[[], int]]:
    """Connections from several hosts, each of which asks for a large reply and never reads it."""
    question = filled(Words(REQUEST, 1, 1, _LARGE_BYTES, 1000, b""), 64)
    with contextlib.ExitStack() as stack:
        for number in range(_NEVER_READ):
            each = stack.enter_context(socket.socket())
            each.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2048)
            each.bind((f"127.0.1.{number % 4 + 1}", 0))
            each.connect(server)
            each.sendall(question)
        yield lambda: 0


def flood_from(sources: list[str]) -> Attack:
    """Return an attack: first datagrams from these addresses, 60,000 a second as far as the machine can send them."""

    @contextlib.contextmanager
    def flood(protocol: ProtocolName, server: tuple[str, int], seconds: float) -> Iterator[Callable[[], int]]:
        with flooded(protocol, server, sources, seconds=seconds + _TIMEOUT_S) as sent:
            yield lambda: int(sent.value)

    return flood


_OWN, _NETWORKS = flood_from(["127.0.0.1"]), flood_from(networks(1000))
ROWS: tuple[tuple[str, ProtocolName, Attack], ...] = (
    ("TCP", "tcp", no_attack),
    ("TCP, beside 255 clients that never read", "tcp", never_reading),
    ("CentaurusComm", "centauruscomm", no_attack),
    ("CentaurusComm, flood from the client's own address", "centauruscomm", _OWN),
    ("CentaurusComm, flood from 1,000 networks", "centauruscomm", _NETWORKS),
    ("WTCP", "wtcp", no_attack),
    ("WTCP, flood from the client's own address", "wtcp", _OWN),
    ("WTCP, flood from 1,000 networks", "wtcp", _NETWORKS),
)


def measured(protocol: ProtocolName, attack: Attack, seconds: float) -> HeldLoad:
    """Return what a client did with a server of its own in so many seconds of the attack."""
    plan = MeasurementPlan(protocol, "x", (Experiment("reply", (REPLY_BYTES,), 100_000),))
    took_s: list[float] = []
    failed = 0
    with served(protocol) as (where, _), attack(protocol, host_port(where), seconds) as sent:
        time.sleep(_SETTLES_S)
        made = client(protocol, where, run=1, timeout_s=_TIMEOUT_S, options=TransportOptions())
        with contextlib.closing(made):
            began_s, before = time.monotonic(), sent()
            made.reach()
            transactions = iter(plan.transactions())
            while time.monotonic() - began_s < seconds:
                at_s = time.monotonic()
                failed += made.transact(next(transactions)).outcome != "ok"
                took_s.append(time.monotonic() - at_s)
            passed_s = time.monotonic() - began_s
            rate = (sent() - before) / passed_s
    return HeldLoad(rate, (len(took_s) - failed) / passed_s, max(took_s), failed)


def row(name: str, runs: list[HeldLoad], *, is_alone: bool) -> str:
    """Return a line of the table."""
    attack = "no attack" if is_alone else _range([each.attack_per_s for each in runs], 1000) if runs[0][0] else ""
    done, longest_s = _range([each.done_per_s for each in runs], 1), max(each.longest_s for each in runs)
    return f"| {name} | {attack} | {done} | {1e3 * longest_s:.0f} ms |"


def _range(values: list[float], unit: int) -> str:
    low, high = (f"{round(value / unit) * unit:,}" for value in (min(values), max(values)))
    return low if low == high else f"{low} to {high}"


def main() -> int:
    """Measure all rows; 1 if a transaction failed."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--seconds", type=float, default=5.0)
    parser.add_argument("--runs", type=int, default=3)
    chosen = parser.parse_args()
    print(f"{os.cpu_count()} cores, load {os.getloadavg()[0]:.0f} at the begin\n")
    print("| | first datagrams a second | transactions a second | longest |\n|---|---|---|---|")
    failed = 0
    for name, protocol, attack in ROWS:
        runs = [measured(protocol, attack, chosen.seconds) for _ in range(chosen.runs)]
        failed += sum(each.failed for each in runs)
        print(row(name, runs, is_alone=attack is no_attack), flush=True)
    print(f"\nload {os.getloadavg()[0]:.0f} at the end; {failed} transactions failed")
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main())
