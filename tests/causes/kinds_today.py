"""Recordings of what networks and programs do today, and of captures as they are handed in.

Queues that are fair to each flow, fast links, TLS, several requests at once on one connection, devices that say
little, files from a disk; and captures that lost packets, were cut short, or end in the middle.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tests.causes import kinds_hosts, kinds_path, kinds_varying
from tests.causes.scenario import PACKET, Draw, Kind, Operation, adding_to

if TYPE_CHECKING:
    from collections.abc import Callable

KINDS: list[Kind] = []
_kind = adding_to(KINDS)
_NS = 1_000_000_000
_ECN = 1
"""Of `tcp_ecn`: ask for it, and answer who asks."""
_FRAME_BYTES = 16_384
"""Of HTTP/2, the largest that any peer takes (RFC 9113, section 4.2)."""


def _ample(d: Draw) -> None:
    d.seconds = d.random.uniform(4, 8)
    d.again(rate=(3e6, 60e6), rtt=(0.01, 0.15))


# --- fair queues ---


def _fair(d: Draw) -> None:
    """Put FQ-CoDel at the link, with the numbers that RFC 8290 recommends."""
    d.seconds = d.random.uniform(4, 8)
    d.again(rate=(2e6, 50e6), rtt=(0.01, 0.1))
    d.queue_bdp = 10
    marks = d.random.random() < 0.4
    d.sysctls["tcp_ecn"] = _ECN if marks else 0
    d.data.append(["fair", 5_000_000, 100_000_000, int(marks)])


def _others(d: Draw, share: float) -> None:
    """Let one to three flows of others have that share of the link together, if all get what they want."""
    count = d.random.choice((1, 2, 3))
    begin_s, end_s = d.random.uniform(0, 0.2) * d.seconds, 3 * d.seconds
    for _ in range(count):
        d.data.append(["cross", int(begin_s * _NS), int(end_s * _NS), int(d.rate_bps * share / count), PACKET, 0, 0])


@_kind("link", control=True)
def fq_codel(d: Draw) -> None:
    """A transfer that takes turns with others: packets that nobody sees, or transfers of the same hosts."""
    _fair(d)
    if d.random.random() < 0.5:
        _others(d, d.random.uniform(0.4, 2))
        d.finding = "competing-traffic"
        d.bulk(d.size(d.rate_bps / 8 * 0.4))
        return
    count = d.random.choice((1, 2, 3))
    d.bulk(d.size(d.rate_bps / 8 / (count + 1)))
    other = d.pair([["send", d.size(d.rate_bps / 8 / (count + 1) * 0.7)], ["close"]], [["drain"], ["close"]])
    d.plan["connections"] += [other | {"after_s": 0.3 + 0.1 * number, "beside": True} for number in range(count)]
    d.plan["lanes"] = 1 + count


@_kind("application", control=True)
def fq_codel_writes(d: Draw) -> None:
    """Others fill the link, and small writes pass them."""
    _fair(d)
    _others(d, d.random.uniform(1, 2))
    every_s = d.log(0.01, 0.06)
    size = int(max(60, min(1300, 0.1 * d.rate_bps / 8 * every_s)))
    d.sender["nodelay"] = True
    d.finding = "application-limited"
    one = [["send", size], ["wait", every_s, "pace"]]
    d.programs([["repeat", int(d.seconds / every_s), one], ["close"]], [["drain"], ["close"]])


# --- fast links ---


def _fast(d: Draw) -> None:
    d.seconds = d.random.uniform(1.2, 2)
    d.again(rate=(200e6, 300e6), rtt=(0.005, 0.04))
    d.queue_bdp = d.log(0.5, 2)


@_kind("link", control=True)
def fast_bulk(d: Draw) -> None:
    _fast(d)
    d.bulk(int(d.rate_bps / 8 * d.seconds))


@_kind("receiver-window")
def fast_rcvbuf(d: Draw) -> None:
    _fast(d)
    d.again(rtt=(0.015, 0.06))
    window = d.receiver["rcvbuf"] = int(min(200_000, d.bdp_bytes * d.log(0.1, 0.4)))
    d.finding = "receiver-limited"
    d.bulk(d.size(window / d.rtt_s))


@_kind("application", control=True)
def fast_bursts(d: Draw) -> None:
    _fast(d)
    d.seconds = d.random.uniform(3, 5)
    every_s = d.log(0.15, 0.6)
    size = int(d.rate_bps / 8 * every_s * d.log(0.02, 0.15))
    d.finding = "application-limited"
    one = [["send", size], ["wait", every_s, "pace"]]
    d.programs([["repeat", int(d.seconds / every_s), one], ["close"]], [["drain"], ["close"]])


# --- TLS ---


@_kind("link")
def tls_bulk(d: Draw) -> None:
    _ample(d)
    d.queue_bdp = d.log(0.7, 3)
    d.plan["tls"] = True
    d.bulk()


@_kind("application")
def tls_requests(d: Draw) -> None:
    """A server that thinks, behind one handshake."""
    kinds_hosts.server_think(d)
    d.plan["tls"] = True


@_kind("slow-start")
def tls_page(d: Draw) -> None:
    """Each fetch has a handshake of TCP and one of TLS."""
    _ample(d)
    d.upload = False
    d.plan["tls"] = True
    d.plan["lanes"] = lanes = d.random.choice((1, 4, 6))
    count = max(2, int(lanes * 0.4 * d.seconds / (5 * d.rtt_s + 0.05)))
    d.plan["connections"] = [_fetches(d, [int(d.log(2000, 100_000))]) for _ in range(min(40, count))]


# --- several requests on a connection ---


def _fetches(d: Draw, sizes: list[int], think_s: float = 0.0) -> dict[str, Any]:
    """Return a connection on which one answer after the other is fetched."""
    client: list[Operation] = []
    server: list[Operation] = []
    for size in sizes:
        think: list[Operation] = [["wait", think_s * d.random.uniform(0.3, 1.7), "think"]] if think_s else []
        client += [["send", 300], ["recv", size]]
        server += [["recv", 300], *think, ["send", size]]
    return {"client": [*client, ["close"]], "server": [*server, ["drain"], ["close"]]}


@_kind("application")
def keep_alive_page(d: Draw) -> None:
    """HTTP/1.1: a few connections, on each of which one object after the other is fetched."""
    _ample(d)
    d.upload = False
    d.plan["lanes"] = lanes = d.random.choice((1, 2, 6))
    think_s = d.log(0.01, 0.15)
    count = max(2, min(15, int(0.6 * d.seconds / (think_s + 2 * d.rtt_s))))
    d.plan["connections"] = [
        _fetches(d, [int(d.log(1000, 120_000)) for _ in range(count)], think_s) for _ in range(lanes)
    ]


@_kind("application")
def multiplexed(d: Draw) -> None:
    """HTTP/2: several requests at once on one connection, whose answers take turns; one of them takes long."""
    _ample(d)
    d.upload, d.whole = False, True
    count, slow_s, idle_s = d.random.randint(3, 8), d.log(0.4, 2), d.log(0.02, 0.3)
    sizes = [int(d.log(2000, 80_000)) for _ in range(count)]
    thinks_s = [slow_s, *(d.log(0.001, 0.03) for _ in sizes[1:])]
    d.finding = "server-think-time"
    answers = [
        [["wait", think_s, "think", 0.3], ["send", size, _FRAME_BYTES]]
        for think_s, size in zip(thinks_s, sizes, strict=True)
    ]
    ask = [["send", 90 * count], ["recv", sum(sizes)], ["wait", idle_s, "think"]]
    rounds = max(2, int(d.seconds / (slow_s + idle_s)))
    client: list[Operation] = [["repeat", rounds, ask], ["close"]]
    server: list[Operation] = [["repeat", rounds, [["recv", 90 * count], ["at_once", answers]]], ["drain"], ["close"]]
    d.plan["connections"] = [{"client": client, "server": server}]
    d.plan["tls"] = d.random.random() < 0.5


# --- devices ---


def _thin(d: Draw) -> None:
    """Draw a path as of a radio for devices."""
    d.again(rate=(0.2e6, 2e6), rtt=(0.06, 0.5))


@_kind("application", control=True)
def iot_posts(d: Draw) -> None:
    """A device says little every few seconds, over a connection that it keeps."""
    _thin(d)
    d.upload, d.whole = True, True
    every_s, message, reply = d.log(1.2, 4), int(d.log(60, 600)), int(d.log(20, 200))
    count = max(3, int(d.random.uniform(9, 15) / every_s))
    client: list[Operation] = [
        ["repeat", count, [["send", message], ["recv", reply], ["wait", every_s, "pace", 0.3]]],
        ["close"],
    ]
    server: list[Operation] = [["repeat", count, [["recv", message], ["send", reply]]], ["drain"], ["close"]]
    d.plan["connections"] = [{"client": client, "server": server}]
    d.plan["tls"] = d.random.random() < 0.5


@_kind("handshake")
def iot_wakes(d: Draw) -> None:
    """A device wakes up, connects, says little, and sleeps again."""
    _thin(d)
    d.upload, d.whole = True, True
    every_s, message, reply = d.log(0.8, 1.8), int(d.log(60, 600)), int(d.log(20, 200))
    client: list[Operation] = [["send", message], ["recv", reply], ["close"]]
    server: list[Operation] = [["recv", message], ["send", reply], ["drain"], ["close"]]
    one = {"client": client, "server": server}
    d.plan["connections"] = [one | {"after_s": number * every_s} for number in range(int(9 / every_s))]


# --- disks ---


@_kind("application", control=True)
def disk_sender(d: Draw) -> None:
    """The sender reads a block, which its disk gives slowly, sends it, and reads the next."""
    _ample(d)
    rate = d.rate_bps / 8 * d.log(0.05, 0.5)
    block = int(d.log(16_000, 500_000))
    d.finding = "application-limited"
    d.programs([["file", max(3 * block, d.size(0.7 * rate)), block, rate, 0.4], ["close"]], [["drain"], ["close"]])


# --- captures that are damaged ---


def _gaps(d: Draw) -> dict[str, float]:
    return {"lost": d.log(0.005, 0.1), "run": d.log(1, 40)}


def _snapped(d: Draw) -> dict[str, float]:
    """Keep none of TCP's options; or those of data, and a SYN's without the scale of its window, Linux' last one."""
    return {"options": d.random.choice((0, 12, 16))}


def _cut(d: Draw) -> dict[str, float]:
    return {"cut": d.random.uniform(0.35, 0.85)}


def _damaged(
    name: str, limit: str, narrows: Callable[[Draw], None], how: str, damage: Callable[[Draw], dict[str, float]]
) -> None:
    """Add a kind of which one capture is damaged, that of the sender or that of the receiver."""

    def draw(d: Draw) -> None:
        narrows(d)
        d.finding = None
        d.damage = {"at_sender": d.random.random() < 0.5, **damage(d)}

    KINDS.append(Kind(f"{name}-{how}", limit, control=False, draw=draw))


for _name, _limit, _narrows, _how, _damage in (
    ("short-queue", "link", kinds_path.short_queue, "gaps", _gaps),
    ("small-rcvbuf", "receiver-window", kinds_hosts.small_rcvbuf, "gaps", _gaps),
    ("bursts", "application", kinds_hosts.bursts, "gaps", _gaps),
    ("small-rcvbuf", "receiver-window", kinds_hosts.small_rcvbuf, "snapped", _snapped),
    ("random-loss", "congestion-window", kinds_path.random_loss, "snapped", _snapped),
    ("cellular-bulk", "link", kinds_varying.of("cellular", "bulk"), "cut", _cut),
    ("server-think", "application", kinds_hosts.server_think, "cut", _cut),
):
    _damaged(_name, _limit, _narrows, _how, _damage)
