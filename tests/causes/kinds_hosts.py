"""Recordings whose cause is in a host: its program, its windows and buffers, how it begins and ends."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.causes.scenario import MIN_BYTES, NOBODY, Draw, Kind, adding_to

if TYPE_CHECKING:
    from tests.causes.scenario import Operation

KINDS: list[Kind] = []
_kind = adding_to(KINDS)
_NS = 1_000_000_000
_FOREVER_NS = 10**13


# --- the application ---


def _ample(d: Draw) -> None:
    d.again(rate=(2e6, 100e6), rtt=(0.005, 0.25))


@_kind("application")
def bursts(d: Draw) -> None:
    _ample(d)
    every = max(d.log(0.1, 2), 3 * d.rtt_s)
    size = int(max(2000, d.rate_bps / 8 * every * d.log(0.03, 0.3)))
    count = max(2, int(d.seconds / every))
    d.finding = "application-limited"
    d.programs([["repeat", count, [["send", size], ["wait", every, "pace"]]], ["close"]], [["drain"], ["close"]])


@_kind("application")
def steady_writes(d: Draw) -> None:
    _ample(d)
    every, size = d.log(0.004, 0.1), int(d.log(80, 1400))
    d.sender["nodelay"] = True
    d.finding = "application-limited"
    one = [["send", size], ["wait", every, "pace"]]
    d.programs([["repeat", int(d.seconds / every), one], ["close"]], [["drain"], ["close"]])


def _requests(d: Draw, *, think_s: float, client_think_s: float) -> None:
    """The client asks, the server answers: a download whatever was drawn."""
    _ample(d)
    d.upload = False
    size = int(d.log(2000, max(4000, d.rate_bps / 8 * 0.2)))
    one_s = think_s + client_think_s + 3 * d.rtt_s + 0.1
    count = max(3, int(d.seconds / one_s))
    ask = [["send", 250], ["recv", size], ["wait", client_think_s, "think"]]
    answer = [["recv", 250], ["wait", think_s, "think"], ["send", size]]
    client, server = [["repeat", count, ask], ["close"]], [["repeat", count, answer], ["drain"], ["close"]]
    d.plan["connections"] = [{"client": client, "server": server}]


@_kind("application")
def server_think(d: Draw) -> None:
    d.finding = "server-think-time"
    _requests(d, think_s=max(d.log(0.1, 1.5), 4 * d.rtt_s), client_think_s=0.0)


@_kind("application")
def client_think(d: Draw) -> None:
    d.finding = "client-think-time"
    _requests(d, think_s=0.0, client_think_s=max(d.log(0.1, 1.5), 4 * d.rtt_s))


@_kind("application")
def nagle(d: Draw) -> None:
    """Write, write, read: the second write waits for the ACK of the first, which the peer delays."""
    _ample(d)
    d.again(rtt=(0.005, 0.03))
    d.upload = True
    d.finding = "nagle-delayed-ack"
    head, body = int(d.log(20, 200)), int(d.log(100, 700))
    count = max(10, int(d.seconds / (0.045 + 2 * d.rtt_s)))
    ask = [["send", head], ["send", body], ["recv", 50]]
    client = [["repeat", count, ask], ["close"]]
    server = [["repeat", count, [["recv", head + body], ["send", 50]]], ["drain"], ["close"]]
    d.plan["connections"] = [{"client": client, "server": server}]


# --- windows and buffers ---


def _wide(d: Draw) -> None:
    """Draw a path on which a window of some segments is not enough."""
    d.again(rate=(5e6, 100e6), rtt=(0.03, 0.4))


@_kind("receiver-window")
def slow_reader(d: Draw) -> None:
    d.again(rate=(2e6, 100e6), rtt=(0.005, 0.2))
    rate = d.rate_bps / 8 * d.log(0.03, 0.4)
    chunk = int(max(1000, min(65_000, rate * d.log(0.005, 0.1))))
    d.receiver["rcvbuf"] = int(d.log(16_000, 200_000))
    d.finding = "receiver-limited"
    d.programs([["send", d.size(rate)], ["close"]], [["drain", chunk, chunk / rate], ["close"]])


@_kind("receiver-window")
def pausing_reader(d: Draw) -> None:
    d.again(rate=(2e6, 60e6), rtt=(0.005, 0.2))
    d.receiver["rcvbuf"] = buffer = int(d.log(16_000, 200_000))
    pause, part = d.log(0.4, 3), int(buffer * d.log(2, 10))
    count = max(2, int(d.seconds / (pause + part / (d.rate_bps / 8) + 8 * d.rtt_s)))
    d.finding = "zero-window"
    reader: list[Operation] = [["repeat", count, [["recv", part], ["wait", pause, "pace"]]], ["drain"], ["close"]]
    d.programs([["send", part * count + buffer], ["close"]], reader)


def _small_window(d: Draw) -> int:
    return int(max(5000, d.bdp_bytes * d.log(0.08, 0.4)))


@_kind("receiver-window")
def small_rcvbuf(d: Draw) -> None:
    _wide(d)
    window = d.receiver["rcvbuf"] = min(_small_window(d), 200_000)
    d.finding = "receiver-limited"
    d.bulk(d.size(window / d.rtt_s))


@_kind("sender-buffer")
def small_sndbuf(d: Draw) -> None:
    _wide(d)
    window = d.sender["sndbuf"] = min(_small_window(d), 200_000)
    d.finding = "send-buffer-limited"
    d.bulk(d.size(window / d.rtt_s))


@_kind("sender-buffer")
def small_sndbuf_far(d: Draw) -> None:
    d.again(rate=(20e6, 100e6), rtt=(0.1, 0.5))
    window = d.sender["sndbuf"] = int(d.log(16_000, 200_000))
    d.finding = "send-buffer-limited"
    d.bulk(d.size(window / d.rtt_s))


@_kind("sender-buffer")
def small_wmem(d: Draw) -> None:
    """Autotuning stops at a small maximum, as in a host that nobody tuned."""
    _wide(d)
    most = min(max(32_000, 2 * _small_window(d)), 400_000)
    d.sysctls["tcp_wmem"] = f"4096 16384 {most}"
    d.finding = "send-buffer-limited"
    d.bulk(d.size(most / 2 / d.rtt_s))


# --- the beginning and the end ---


@_kind("slow-start")
def short_transfer(d: Draw) -> None:
    d.again(rate=(5e6, 100e6), rtt=(0.05, 0.6))
    d.queue_bdp = d.log(0.5, 2)
    d.finding = "slow-start-limited"
    d.bulk(int(max(3 * MIN_BYTES, min(d.bdp_bytes, 3e6) * d.log(0.2, 1.0))))


@_kind("slow-start", control=True)
def page(d: Draw) -> None:
    """Many short connections, some at a time."""
    d.again(rate=(3e6, 60e6), rtt=(0.02, 0.2))
    d.upload = False
    d.plan["lanes"] = d.random.choice((1, 4, 6))
    count = int(d.random.uniform(8, 40))
    sizes = [int(d.log(2000, 150_000)) for _ in range(count)]
    client = [["send", 300], ["drain"], ["close"]]
    d.plan["connections"] = [{"client": client, "server": [["recv", 300], ["send", size], ["close"]]} for size in sizes]


@_kind("slow-start")
def small_answers(d: Draw) -> None:
    """One connection a fetch, one after the other, over a long path."""
    d.again(rate=(5e6, 100e6), rtt=(0.1, 0.6))
    d.upload = False
    sizes = [int(d.log(30_000, 300_000)) for _ in range(max(2, int(6 / (6 * d.rtt_s))))]
    client = [["send", 300], ["drain"], ["close"]]
    d.plan["connections"] = [{"client": client, "server": [["recv", 300], ["send", size], ["close"]]} for size in sizes]
    d.finding = "slow-start-limited"


@_kind("handshake")
def syn_lost(d: Draw) -> None:
    (d.data if d.random.random() < 0.5 else d.acks).append(["syn", d.random.choice((1, 1, 2, 3))])
    d.again(rate=(2e6, 50e6), rtt=(0.02, 0.3))
    d.finding = "syn-retransmitted"
    d.bulk(int(d.log(MIN_BYTES, 300_000)))


@_kind("handshake")
def unanswered(d: Draw) -> None:
    d.finding = "syn-unanswered"
    d.plan["patience_s"] = d.random.uniform(4, 16)
    if d.random.random() < 0.5:
        d.plan["address"] = NOBODY
    else:
        d.data.append(["outage", 0, _FOREVER_NS])
        d.acks.append(["outage", 0, _FOREVER_NS])
    d.bulk()


@_kind("handshake")
def refused(d: Draw) -> None:
    d.plan["listens"] = False
    d.finding = "connection-refused"
    d.bulk(MIN_BYTES)


@_kind("link")
def reset(d: Draw) -> None:
    d.again(rate=(0.5e6, 40e6), rtt=(0.01, 0.3))
    part = int(d.size() * d.random.uniform(0.3, 0.8))
    d.finding = "reset-by-peer"
    d.programs([["send", d.size()], ["close"]], [["recv", part], ["reset"]])


@_kind("application")
def idle_out(d: Draw) -> None:
    """A box on the path forgets the connection while it is idle, and drops what comes later."""
    _ample(d)
    idle = d.random.uniform(4, 8)
    d.finding = "idle-timeout"
    d.data.append(["idle", int(idle * 0.6 * _NS)])
    d.acks.append(["idle", int(idle * 0.6 * _NS)])
    size = int(d.log(MIN_BYTES, 200_000))
    d.plan["patience_s"] = idle + d.random.uniform(5, 10)
    sender: list[Operation] = [["send", size], ["wait", idle, "pace"], ["send", size], ["acked"], ["close"]]
    d.programs(sender, [["drain"], ["close"]])
