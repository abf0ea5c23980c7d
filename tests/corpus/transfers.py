"""Which transfers the corpus has: each is determined by its number alone."""

from __future__ import annotations

from dataclasses import replace
from random import Random
from typing import TYPE_CHECKING

from multitracer.lab.tcp.profile import BSD, MODERN
from multitracer.units import NS_PER_MS, NS_PER_S
from tests.corpus.link import Drive, Habits, Transfer

if TYPE_CHECKING:
    from multitracer.lab.tcp.profile import TcpProfile

SIZE = 240
"""Transfers in the corpus of hosts that heed SACKs, or do not offer them."""
FORGETFUL = range(SIZE, SIZE + 60)
"""Numbers of those whose sender forgets what SACKs said after a timeout, or never reads it; more is lost."""
RENEGING = range(SIZE + 60, SIZE + 120)
"""The same with receivers that renege."""
_LINKS = {
    "gprs": (60_000, 250 * NS_PER_MS, 40),
    "edge": (400_000, 100 * NS_PER_MS, 60),
    "umts": (2_000_000, 40 * NS_PER_MS, 100),
}
"""Rate in bit/s, one-way delay, queue in packets."""
_CONTROLS = ("newreno", "reno", "cubic", "tahoe", "vegas")


def transfer(number: int) -> Transfer:
    """Return the transfer with this number: options cycle, what the link does is random by the number."""
    luck = Random(f"corpus {number}")
    rate_bps, delay_ns, queue = _LINKS[("gprs", "edge", "umts")[number % 3]]
    size = rate_bps // 8 * 12
    path = Drive(
        rate_bps=rate_bps,
        delay_ns=delay_ns,
        queue_packets=queue,
        loss=luck.choice([0, 0.002, 0.01, 0.03] if number < SIZE else [0.01, 0.03, 0.08]),
        ack_loss=luck.choice([0, 0, 0.01, 0.2]),
        stalls=tuple(_stalls(luck)),
        handshake_ns=luck.choice([0, 0, 600 * NS_PER_MS, 1250 * NS_PER_MS]),
    )
    return Transfer(path, _profile(number, luck), min(size, 250_000), number, _habits(number))


def _habits(number: int) -> Habits:
    if number < SIZE:
        return Habits()
    return Habits("ignores" if number % 2 else "forgets", reneges=0.05 if number in RENEGING else 0)


def _stalls(luck: Random) -> list[tuple[int, int, str]]:
    begins = sorted(luck.uniform(1, 20) for _ in range(luck.choice([1, 2, 3])))
    return [
        (int(begin * NS_PER_S), int(luck.uniform(0.5, 6) * NS_PER_S), luck.choice(["data", "acks", "both"]))
        for begin in begins
    ]


def _profile(number: int, luck: Random) -> TcpProfile:
    base = BSD if number % 6 == 5 else MODERN
    return replace(
        base,
        congestion=_CONTROLS[number % len(_CONTROLS)],
        timestamps=number % 4 < 3 if number < SIZE else number % 3 > 0,
        sack=number % 2 == 0 or number >= SIZE,
        min_rto_ns=luck.choice([200, 1000]) * NS_PER_MS,
        initial_rto_ns=luck.choice([1, 3]) * NS_PER_S,
    )
