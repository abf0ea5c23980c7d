"""Recordings whose bottleneck is another than one queue of the data on the path.

The sender's own interface, a policer alone or before a slow link, the way of the ACKs that an upload fills,
two bottlenecks one after the other, queues that are managed.
"""

from __future__ import annotations

from tests.causes.kinds_varying import capacity
from tests.causes.scenario import PACKET, Draw, Kind, adding_to

KINDS: list[Kind] = []
_kind = adding_to(KINDS)
_MOST_BPS = 100e6
_ECN = 1
"""Of `tcp_ecn`: ask for it, and answer who asks."""


# --- the sender's own interface ---


def _own(d: Draw) -> float:
    """Put a shaper on the sender's interface, several times slower than the path; return its rate in bytes/s."""
    d.seconds = d.random.uniform(4, 8)
    d.again(rtt=(0.01, 0.12))
    rate = d.log(0.5e6, 20e6)
    d.rate_bps = min(_MOST_BPS, rate * d.log(3, 20))
    queue = max(20 * PACKET, rate / 8 * d.log(0.05, 0.4))
    d.own = {"rate_bps": int(rate / 8) * 8, "burst_bytes": int(d.log(1600, 20_000)), "queue_bytes": int(queue)}
    return rate / 8


@_kind("link")
def own_bulk(d: Draw) -> None:
    d.bulk(d.size(_own(d)))


@_kind("link")
def own_writer(d: Draw) -> None:
    """A program with a rhythm of its own has more than the interface takes."""
    rate = _own(d)
    every_s = d.log(0.003, 0.05)
    size = int(max(100, rate * d.random.uniform(1.3, 3) * every_s))
    one = [["send", size], ["wait", every_s, "pace"]]
    d.programs([["repeat", max(2, d.size(rate) // size), one], ["close"]], [["drain"], ["close"]])


@_kind("application", control=True)
def own_program(d: Draw) -> None:
    """The shaper is there, and the program does not fill it."""
    every_s = d.log(0.003, 0.05)
    size = int(max(50, _own(d) * d.log(0.05, 0.5) * every_s))
    d.sender["nodelay"] = d.random.random() < 0.7
    d.finding = "application-limited"
    one = [["send", size], ["wait", every_s, "pace", d.random.choice((0.0, 0.5))]]
    d.programs([["repeat", int(d.seconds / every_s), one], ["close"]], [["drain"], ["close"]])


@_kind("application")
def own_bursts(d: Draw) -> None:
    """Bursts wait at the shaper for a moment each."""
    rate = _own(d)
    every_s = max(d.log(0.15, 1.0), 3 * d.rtt_s)
    size = int(max(2000, rate * d.log(0.05, 0.3) * every_s))
    d.finding = "application-limited"
    one = [["send", size], ["wait", every_s, "pace"]]
    d.programs([["repeat", max(3, int(d.seconds / every_s)), one], ["close"]], [["drain"], ["close"]])


@_kind("link")
def own_several(d: Draw) -> None:
    """Several transfers share the shaper."""
    rate = _own(d)
    count = d.random.choice((2, 3, 4))
    size = d.size(rate / count)
    one = d.pair([["send", size], ["close"]], [["drain"], ["close"]])
    d.plan["connections"] = [one | {"after_s": 0.05 * number} for number in range(count)]
    d.plan["lanes"] = count


# --- policers ---


def _police(d: Draw) -> float:
    """Draw a contract, in bit/s."""
    d.seconds = d.random.uniform(5, 9)
    d.again(rtt=(0.01, 0.1))
    rate = d.log(0.8e6, 8e6)
    d.data.append(["policer", int(rate), int(max(8 * PACKET, rate / 8 * d.log(0.02, 0.4)))])
    d.finding = "policer"
    return rate


@_kind("link")
def policer_alone(d: Draw) -> None:
    rate = _police(d)
    d.rate_bps = min(_MOST_BPS, rate * d.log(5, 30))
    d.bulk(d.size(rate / 8))


@_kind("link")
def policer_then_link(d: Draw) -> None:
    """The link behind the policer is little faster than the contract: its queue hides when tokens ran out."""
    rate = _police(d)
    d.rate_bps = rate * d.log(1.3, 4)
    d.queue_bdp = d.log(0.5, 2)
    d.bulk(d.size(rate / 8))


# --- both ways ---


@_kind("link")
def acks_behind_upload(d: Draw) -> None:
    """A download whose ACKs stand in the queue that an upload of the same user fills."""
    d.seconds = d.random.uniform(5, 8)
    d.upload = False
    d.again(rate=(8e6, 50e6), rtt=(0.015, 0.08))
    d.back_bps = d.log(0.5e6, 4e6)
    d.back_queue = int(d.back_bps / 8 * d.log(0.15, 1.2))
    if d.random.random() < 0.5:
        d.acks.append(["grant", int(d.log(2e6, 12e6))])
    d.finding = "bufferbloat"
    upload = {"client": [["send", d.size(d.back_bps / 8 * 1.2)], ["close"]], "server": [["drain"], ["close"]]}
    download = d.pair([["send", d.size(d.rate_bps / 8 * 0.3)], ["close"]], [["drain"], ["close"]])
    d.plan["connections"] = [upload | {"beside": True}, download | {"after_s": 0.6}]
    d.plan["lanes"] = 2


@_kind("link")
def both_at_once(d: Draw) -> None:
    """A download and an upload, each of which fills its own way."""
    d.seconds = d.random.uniform(4, 7)
    d.upload = False
    d.again(rate=(2e6, 40e6), rtt=(0.01, 0.1))
    d.back_bps = d.rate_bps * d.log(0.3, 1.0)
    d.back_queue = int(max(20 * PACKET, d.back_bps / 8 * d.log(0.05, 0.3)))
    upload = {"client": [["send", d.size(d.back_bps / 8 * 0.8)], ["close"]], "server": [["drain"], ["close"]]}
    download = d.pair([["send", d.size(d.rate_bps / 8 * 0.9)], ["close"]], [["drain"], ["close"]])
    d.plan["connections"] = [download, upload | {"after_s": max(0.3, 4 * d.rtt_s)}]
    d.plan["lanes"] = 2


# --- two bottlenecks, managed queues ---


@_kind("link")
def two_bottlenecks(d: Draw) -> None:
    """A cell whose rate varies, and behind it a link as fast as the cell mostly is."""
    d.seconds = d.random.uniform(4, 8)
    d.again(rate=(2e6, 40e6), rtt=(0.02, 0.12))
    d.queue_bdp = d.log(1, 5)
    d.data += capacity(d, stalls_per_s=0.1)
    rate = d.rate_bps * d.log(0.6, 1.5)
    d.data.append(["second", int(rate), int(max(20 * PACKET, rate / 8 * d.rtt_s * d.log(0.5, 2)))])
    d.bulk(d.size(min(rate, d.rate_bps) / 8 * 0.8))


def _managed(d: Draw, name: str, numbers: list[int]) -> None:
    d.seconds = d.random.uniform(4, 8)
    d.again(rate=(2e6, 50e6), rtt=(0.01, 0.1))
    d.queue_bdp = 10
    marks = d.random.random() < 0.4
    d.sysctls["tcp_ecn"] = _ECN if marks else 0
    d.data.append([name, *numbers, int(marks)])
    if marks and d.congestion_control != "bbr":
        d.finding = "ecn-marked"
    d.bulk()


@_kind("link", control=True)
def codel(d: Draw) -> None:
    """5 ms are what RFC 8289 recommends, or a packet of a slow link."""
    d.queue_bdp = 10
    _managed(d, "codel", [int(d.random.choice((5e6, 10e6, 15e6))), 100_000_000])


@_kind("link", control=True)
def pie(d: Draw) -> None:
    _managed(d, "pie", [int(d.random.choice((15e6, 20e6)))])
