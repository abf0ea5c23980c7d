"""Recordings of several connections: beside the one that is judged, or with it as one piece of work."""

from __future__ import annotations

from typing import Any

from tests.causes.scenario import Draw, Kind, Operation, adding_to

KINDS: list[Kind] = []
_kind = adding_to(KINDS)
_BETWEEN_PAGES_S = 2.5
"""More than the 2 s without an unfinished transfer that end a group."""


@_kind("link")
def competing_tcp(d: Draw) -> None:
    """A second TCP flow of the same hosts takes its share of the bottleneck for a part of the time."""
    d.again(rate=(1e6, 40e6), rtt=(0.01, 0.2))
    d.queue_bdp = d.log(1, 4)
    begin_s = max(d.random.uniform(0.15, 0.4) * d.seconds, 4 * d.rtt_s)
    length_s = d.random.uniform(0.2, 0.4) * d.seconds
    d.finding = "competing-traffic"
    d.bulk(d.size(d.rate_bps / 8 * 0.75))
    other = d.pair([["send", int(d.rate_bps / 16 * length_s)], ["close"]], [["drain"], ["close"]])
    d.plan["connections"].append(other | {"after_s": begin_s, "beside": True})
    d.plan["lanes"] = 2


def _bulk(d: Draw) -> tuple[list[Operation], list[Operation]]:
    size = d.size(d.rate_bps / 8 * d.random.uniform(0.3, 0.7))
    return [["send", size], ["close"]], [["drain"], ["close"]]


def _writes(d: Draw) -> tuple[list[Operation], list[Operation]]:
    every = max(d.log(0.1, 1), 3 * d.rtt_s)
    size = int(max(1000, d.rate_bps / 8 * every * d.log(0.02, 0.2)))
    one = [["send", size], ["wait", every, "pace"]]
    return [["repeat", max(2, int(d.seconds / every)), one], ["close"]], [["drain"], ["close"]]


def _reader(d: Draw) -> tuple[list[Operation], list[Operation]]:
    rate = d.rate_bps / 8 * d.log(0.02, 0.15)
    chunk = int(max(1000, min(65_000, rate * d.log(0.01, 0.1))))
    return [["send", d.size(rate)], ["close"]], [["drain", chunk, chunk / rate], ["close"]]


@_kind("application")
def two_at_once(d: Draw) -> None:
    """Two transfers of different nature that overlap: only their group is an answer."""
    d.again(rate=(2e6, 50e6), rtt=(0.01, 0.2))
    d.receiver["rcvbuf"] = int(d.log(30_000, 200_000))
    first, second = d.random.sample((_bulk, _writes, _reader), 2)
    later = d.pair(*second(d)) | {"after_s": max(4 * d.rtt_s, d.random.uniform(0.05, 0.25) * d.seconds)}
    d.plan["connections"] = [d.pair(*first(d)), later]
    d.plan["lanes"] = 2


@_kind("application")
def pages(d: Draw) -> None:
    """One or two pages of many fetches, one connection each, from a server that thinks."""
    d.again(rate=(3e6, 60e6), rtt=(0.01, 0.15))
    d.upload = False
    d.plan["lanes"] = lanes = d.random.choice((2, 4, 6))
    think_s = d.log(0.05, 0.6)
    rounds = max(2, int(0.4 * d.seconds / (think_s + 4 * d.rtt_s)))
    d.plan["connections"] = [_fetch(d, think_s, 0.0) for _ in range(min(60, rounds * lanes))]
    if d.random.random() < 0.5:
        return
    sent = sum(each["server"][2][1] for each in d.plan["connections"])
    after_s = rounds * (1.5 * think_s + 6 * d.rtt_s) + sent * 8 / d.rate_bps + _BETWEEN_PAGES_S
    count = lanes * int(d.random.uniform(1, 6))
    d.plan["connections"] += [_fetch(d, think_s, after_s) for _ in range(count)]


def _fetch(d: Draw, think_s: float, after_s: float) -> dict[str, Any]:
    think = ["wait", think_s * d.random.uniform(0.5, 1.5), "think"]
    answer = [["recv", 300], think, ["send", int(d.log(2000, 100_000))], ["close"]]
    return {"client": [["send", 300], ["drain"], ["close"]], "server": answer, "after_s": after_s}
