"""Recordings over paths whose delay varies without a queue, each with every sort of host that may be the limit.

A cell's rate changes from slot to slot, now and then it stands still, and its scheduler lets packets out at
multiples of a few milliseconds. Wi-Fi lets them out together, at random instants. A satellite's delay has
another value every few seconds. None of it is a queue: what the host limits is limited by the host there, too.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from tests.causes.scenario import MSS, Draw, Kind, Operation

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import TypeAlias

Narrows: TypeAlias = "Callable[[Draw], None]"
_NS = 1_000_000_000
_TRACE_S = 45.0
"""Longer than any recording; the last rate stays."""
_MOST_BYTES = 15_000_000
"""Of a bulk transfer: some seconds of the fastest of these links."""


# --- paths ---


def _cellular(d: Draw) -> None:
    d.again(rate=(1.5e6, 40e6), rtt=(0.03, 0.12))
    d.queue_bdp = d.log(2, 10)
    d.data += capacity(d, stalls_per_s=d.log(0.1, 1.0))
    for way in (d.data, d.acks):
        way.append(["grant", int(d.log(1e6, 12e6))])


def capacity(d: Draw, *, stalls_per_s: float) -> list[list[int | str]]:
    """Return a trace of rates around the link's: a logarithm that remembers, and times at which nothing moves."""
    slot_s, spread, memory = d.log(0.03, 0.12), d.random.uniform(0.25, 0.8), d.random.uniform(0.7, 0.97)
    settings: list[list[int | str]] = []
    at_s, level = 0.0, 0.0
    while at_s < _TRACE_S:
        if d.random.random() < stalls_per_s * slot_s:
            settings.append(["trace", int(at_s * _NS), 0])
            at_s += d.log(0.03, 0.3)
        noise = 2 * (d.random.random() + d.random.random() + d.random.random()) - 3
        level = memory * level + math.sqrt(1 - memory**2) * noise
        factor = math.exp(spread * level - spread**2 / 2)
        settings.append(["trace", int(at_s * _NS), int(d.rate_bps * min(max(factor, 0.05), 4.0))])
        at_s += slot_s
    return settings


def _wifi(d: Draw) -> None:
    """Let the queue hold what the path and its jitter hold, and more."""
    d.again(rate=(15e6, 80e6), rtt=(0.005, 0.05))
    jitters_s = [d.log(0.8e-3, 8e-3) for _ in range(2)]
    d.queue_bdp = d.log(2, 6) * (1 + 2 * sum(jitters_s) / d.rtt_s)
    for way, jitter_s in zip((d.data, d.acks), jitters_s, strict=True):
        way.append(["jitter", int(jitter_s * _NS)])


def _satellite(d: Draw) -> None:
    """Let each step of the delay be several times what the slots add."""
    d.again(rate=(4e6, 60e6), rtt=(0.03, 0.1))
    d.queue_bdp = d.log(1, 4)
    at_s, sign = d.random.uniform(1, 2), 1
    while at_s < _TRACE_S:
        delay_s = d.rtt_s / 2 + (d.log(0.008, 0.04) if sign > 0 else d.log(0.001, 0.003))
        for way in (d.data, d.acks):
            way.append(
                ["step", int(at_s * _NS), int(d.rate_bps if way is d.data else _back_bps(d)), int(delay_s * _NS)]
            )
        at_s += d.random.uniform(1.5, 4)
        sign = -sign
    d.data.append(["jitter", int(d.log(0.3e6, 2e6))])


def _back_bps(d: Draw) -> float:
    """Return the rate of the way back, chosen once."""
    d.back_bps = d.back_bps or max(1e6, d.rate_bps * d.log(0.2, 1))
    return d.back_bps


# --- hosts ---


def _bulk(d: Draw) -> None:
    d.bulk(min(d.size(), _MOST_BYTES))


def _writes(d: Draw, share: float, every_s: float, size: int, spread: float = 0.0) -> None:
    """Let the program write at a rate of its own, which is a small share of the link's."""
    d.sender["nodelay"] = d.random.random() < 0.7
    d.finding = "application-limited"
    wait: Operation = ["wait", every_s, "pace", spread]
    count = int(min(d.seconds / every_s, d.size(share * d.rate_bps / 8) / size))
    d.programs([["repeat", max(2, count), [["send", size], wait]], ["close"]], [["drain"], ["close"]])


def _steady(d: Draw) -> None:
    """Write often, a few segments at most."""
    share, every_s = d.log(0.03, 0.35), d.log(0.002, 0.04)
    _writes(d, share, every_s, int(max(100, share * d.rate_bps / 8 * every_s)))


def _bursty(d: Draw) -> None:
    """Write now and then, a good piece each time."""
    share, every_s = d.log(0.03, 0.25), max(d.log(0.1, 1.0), 2 * d.rtt_s)
    _writes(d, share, every_s, int(max(3000, share * d.rate_bps / 8 * every_s)))


def _busy(d: Draw) -> None:
    """Write a block as soon as it is computed, which takes now more and now less."""
    share, size = d.log(0.05, 0.35), int(d.log(4096, 32768))
    _writes(d, share, size / (share * d.rate_bps / 8), size, spread=0.6)


def _window(d: Draw) -> int:
    return int(min(200_000, max(5000, d.bdp_bytes * d.log(0.08, 0.4))))


def _sndbuf(d: Draw) -> None:
    window = d.sender["sndbuf"] = _window(d)
    d.finding = "send-buffer-limited"
    d.bulk(d.size(window / d.rtt_s))


def _rcvbuf(d: Draw) -> None:
    window = d.receiver["rcvbuf"] = _window(d)
    d.finding = "receiver-limited"
    d.bulk(d.size(0.6 * window / d.rtt_s))


def _loss(d: Draw) -> None:
    """Lose so much that Reno reaches a small share of the link (Mathis), and often in a transfer of seconds."""
    d.congestion_control = d.random.choice(("reno", "cubic"))
    share = d.rate_bps / 8 * d.random.uniform(0.1, 0.35)
    p = min(0.04, max(0.003, (1.2 * MSS / (share * d.rtt_s)) ** 2))
    d.data.append(["loss", p])
    d.finding = "random-loss"
    d.bulk(d.size(0.8 * 1.2 * MSS / (d.rtt_s * p**0.5)))


_PATHS: dict[str, Narrows] = {"cellular": _cellular, "wifi": _wifi, "satellite": _satellite}
_HOSTS: dict[str, tuple[str, bool, Narrows]] = {
    "bulk": ("link", False, _bulk),
    "steady": ("application", True, _steady),
    "bursty": ("application", True, _bursty),
    "busy": ("application", True, _busy),
    "sndbuf": ("sender-buffer", False, _sndbuf),
    "rcvbuf": ("receiver-window", False, _rcvbuf),
    "loss": ("congestion-window", False, _loss),
}
"""Host -> limit, whether nothing is wrong with it, what narrows the draw."""


def of(path: str, host: str) -> Narrows:
    """Return what draws a sort of host over a sort of path."""

    def draw(d: Draw) -> None:
        d.seconds = d.random.uniform(4, 8)
        _PATHS[path](d)
        _HOSTS[host][2](d)

    return draw


KINDS = [Kind(f"{path}-{host}", *_HOSTS[host][:2], of(path, host)) for path in _PATHS for host in _HOSTS]
