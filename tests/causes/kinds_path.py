"""Recordings whose cause is on the path: each function narrows what was drawn and builds one cause in."""

from __future__ import annotations

from tests.causes.scenario import MSS, PACKET, Draw, Kind, adding_to

KINDS: list[Kind] = []
_kind = adding_to(KINDS)
_NS = 1_000_000_000
_ACK = 80
"""Bytes of the largest ACK without SACK: over IPv6, with timestamps."""


# --- the link ---


@_kind("link", control=True)
def short_queue(d: Draw) -> None:
    d.queue_bdp = d.log(0.4, 1.5)
    d.bulk()


@_kind("link")
def deep_queue(d: Draw) -> None:
    d.congestion_control = d.random.choice(("reno", "cubic"))
    d.again(rate=(0.5e6, 30e6), rtt=(0.01, 0.2))
    d.queue_bdp = d.log(4, 12)
    d.finding = "bufferbloat"
    d.seconds += 3
    d.bulk()


@_kind("link", control=True)
def bbr(d: Draw) -> None:
    d.congestion_control = "bbr"
    d.queue_bdp = d.log(0.5, 5)
    d.bulk()


@_kind("link", control=True)
def wifi_jitter(d: Draw) -> None:
    d.again(rate=(5e6, 100e6), rtt=(0.005, 0.08))
    d.queue_bdp = d.log(2, 6)
    for way in (d.data, d.acks):
        way.append(["jitter", int(d.log(0.5e6, 4e6))])
    d.bulk()


@_kind("link")
def policer(d: Draw) -> None:
    d.again(rate=(10e6, 100e6), rtt=(0.008, 0.1))
    rate = d.rate_bps * d.log(0.05, 0.4)
    bucket = max(10 * PACKET, rate / 8 * d.log(0.03, 0.5))
    d.data.append(["policer", int(rate), int(bucket)])
    d.finding = "policer"
    d.bulk(d.size(rate / 8))


@_kind("link")
def ecn(d: Draw) -> None:
    d.again(rate=(1e6, 60e6), rtt=(0.008, 0.08))
    d.congestion_control = d.random.choice(("reno", "cubic"))
    d.queue_bdp = d.log(2, 8)
    d.sysctls["tcp_ecn"] = 1
    d.data.append(["mark", int(max(5e6, d.rtt_s * 1e9 * d.log(0.1, 0.5)))])
    d.finding = "ecn-marked"
    d.bulk()


@_kind("link")
def rate_step(d: Draw) -> None:
    d.again(rate=(1e6, 50e6), rtt=(0.01, 0.2))
    at = d.random.uniform(0.3, 0.6) * d.seconds
    factor = d.log(0.1, 0.5)
    rate = d.rate_bps * factor
    d.data.append(["step", int(at * _NS), int(rate), int(d.rtt_s * 5e8)])
    d.finding = "rate-change"
    d.bulk(d.size(d.rate_bps / 8 * (0.45 + 0.55 * factor)))


@_kind("link")
def rate_step_up(d: Draw) -> None:
    d.again(rate=(0.3e6, 20e6), rtt=(0.01, 0.2))
    at = d.random.uniform(0.3, 0.6) * d.seconds
    factor = d.log(2, 8)
    rate = min(d.rate_bps * factor, 100e6)
    d.data.append(["step", int(at * _NS), int(rate), int(d.rtt_s * 5e8)])
    d.finding = "rate-change"
    d.bulk(d.size(d.rate_bps / 8 * (0.45 + 0.4 * factor)))


@_kind("link")
def delay_step(d: Draw) -> None:
    d.again(rate=(1e6, 50e6), rtt=(0.02, 0.2))
    at = d.random.uniform(0.3, 0.6) * d.seconds
    delay = d.rtt_s * 5e8 + d.log(0.02, 0.3) * _NS
    d.data.append(["step", int(at * _NS), int(d.rate_bps), int(delay)])
    d.finding = "path-change"
    if d.random.random() < 0.4:
        d.bulk()  # its own queue may hide the step
    else:
        _little(d)


def _little(d: Draw) -> None:
    """Let the sender write less than the link carries, often in a round trip."""
    every = d.rtt_s / d.random.uniform(10, 20)
    size = int(min(d.log(100, 1400), 0.4 * d.rate_bps / 8 * every))
    d.sender["nodelay"] = True
    one = [["send", max(size, 20)], ["wait", every, "pace"]]
    d.programs([["repeat", int(d.seconds / every), one], ["close"]], [["drain"], ["close"]])


@_kind("link", control=True)
def thin_acks(d: Draw) -> None:
    """The way back is so thin that ACKs queue: a longer round trip, and no queue of the data."""
    d.again(rate=(4e6, 100e6), rtt=(0.01, 0.2))
    d.queue_bdp = d.log(0.4, 1.5)
    d.back_bps = d.rate_bps / d.log(40, 300)
    d.back_queue = int(max(6 * _ACK, d.back_bps / 8 * d.log(0.02, 0.4)))
    d.bulk()


@_kind("link")
def competing(d: Draw) -> None:
    d.again(rate=(1e6, 40e6), rtt=(0.01, 0.2))
    d.queue_bdp = d.log(1, 4)
    begin, length = d.random.uniform(0.1, 0.4) * d.seconds, d.random.uniform(0.3, 0.6) * d.seconds
    rate = d.rate_bps * d.random.uniform(0.3, 0.9)
    on, off = d.random.choice(((0.0, 0.0), (d.log(0.1, 1.0), d.log(0.1, 1.0))))
    times = [int(t * _NS) for t in (begin, begin + length)]
    d.data.append(["cross", *times, int(rate), PACKET, int(on * _NS), int(off * _NS)])
    d.finding = "competing-traffic"
    d.bulk(d.size(d.rate_bps / 8 * 0.8))


# --- losses, outages, order ---


@_kind("congestion-window")
def random_loss(d: Draw) -> None:
    d.congestion_control = d.random.choice(("reno", "cubic"))
    d.again(rate=(5e6, 100e6), rtt=(0.03, 0.3))
    p = d.log(0.001, 0.02)
    d.data.append(["loss", p])
    d.finding = "random-loss"
    d.bulk(d.size(_of_loss(d, p)))


@_kind("recovery")
def lossy_answers(d: Draw) -> None:
    """Short answers whose last segments get lost wait for a timer, which is long beside the round trip."""
    d.again(rate=(5e6, 100e6), rtt=(0.005, 0.02))
    d.upload = False
    d.data.append(["loss", d.log(0.05, 0.1)])
    d.finding = "random-loss"
    size = int(d.log(300, 5000))
    count = int(d.seconds / (0.05 + 2 * d.rtt_s))
    ask, answer = [["send", 250], ["recv", size]], [["recv", 250], ["send", size]]
    client = [["repeat", count, ask], ["close"]]
    server = [["repeat", count, answer], ["drain"], ["close"]]
    d.plan["connections"] = [{"client": client, "server": server}]


@_kind("recovery")
def bursty_loss(d: Draw) -> None:
    d.congestion_control = d.random.choice(("reno", "cubic"))
    d.again(rate=(5e6, 50e6), rtt=(0.02, 0.2))
    _no_sack(d)
    p, burst = d.log(0.001, 0.01), d.log(4, 40)
    d.data.append(["gilbert", p, int(burst * PACKET * 8e9 / d.rate_bps), d.random.uniform(0.5, 1)])
    d.finding = "random-loss"
    d.bulk(d.size(min(_of_loss(d, p * burst), d.rate_bps / 8)))


@_kind("recovery")
def heavy_loss(d: Draw) -> None:
    d.congestion_control = d.random.choice(("reno", "cubic"))
    d.again(rate=(5e6, 50e6), rtt=(0.005, 0.05))
    _no_sack(d)
    d.sysctls["tcp_early_retrans"] = d.random.choice((0, 3))
    p = d.log(0.05, 0.15)
    d.data.append(["loss", p])
    d.finding = "random-loss"
    d.bulk(d.size(_of_loss(d, p)))


def _no_sack(d: Draw) -> None:
    """Leave SACK out of most: then each hole of a window takes a round trip to repair."""
    d.sysctls["tcp_sack"] = int(d.random.random() < 0.4)


@_kind("congestion-window")
def loss_by_size(d: Draw) -> None:
    d.again(rate=(3e6, 50e6), rtt=(0.02, 0.2))
    p = d.log(0.003, 0.03)
    d.data.append(["size_loss", 1000, p])
    d.finding = "random-loss"
    d.bulk(d.size(_of_loss(d, p)))


def _of_loss(d: Draw, p: float) -> float:
    """Return bytes/s that Reno reaches with losses (Mathis), at most the link's rate."""
    return min(d.rate_bps / 8, 1.2 * MSS / (d.rtt_s * p**0.5))


def _outage(d: Draw, *ways: list[list[int | str]]) -> None:
    begin, length = d.random.uniform(0.15, 0.5) * d.seconds, d.log(0.4, 8)
    for way in ways:
        way.append(["outage", int(begin * _NS), int((begin + length) * _NS)])
    d.again(rate=(0.3e6, 40e6), rtt=(0.01, 0.4))
    d.bulk(d.size(d.rate_bps / 8 * 0.6))


@_kind("outage")
def outage_both(d: Draw) -> None:
    d.finding = "outage"
    _outage(d, d.data, d.acks)


@_kind("outage")
def outage_data(d: Draw) -> None:
    d.finding = "outage"
    _outage(d, d.data)


@_kind("outage")
def outage_acks(d: Draw) -> None:
    d.finding = "ack-loss"
    _outage(d, d.acks)


@_kind("outage")
def mtu_hole(d: Draw) -> None:
    at = d.random.choice((0.0, 0.4 * d.seconds))
    d.data.append(["mtu", d.random.choice((1400, 1300, 1430)), int(at * _NS)])
    d.sysctls["tcp_mtu_probing"] = d.random.choice((0, 1, 1))
    d.again(rate=(0.5e6, 40e6), rtt=(0.01, 0.2))
    d.finding = "path-mtu-black-hole"
    d.plan["patience_s"] = 20.0
    d.bulk()


@_kind("link")
def reorder(d: Draw) -> None:
    d.again(rate=(1e6, 40e6), rtt=(0.01, 0.2))
    d.data.append(["reorder", d.log(0.002, 0.05), int(d.rtt_s * d.log(0.05, 0.8) * _NS)])
    d.finding = "reordering"
    d.bulk()
