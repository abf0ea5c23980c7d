"""More sorts of traffic, hosts without an option, and captures of two clocks."""

from __future__ import annotations

from tests.causes import kinds_hosts, kinds_path, kinds_varying, kinds_ways
from tests.causes.scenario import ORIGIN, Draw, Kind, adding_to

KINDS: list[Kind] = []
_kind = adding_to(KINDS)
_NS = 1_000_000_000


def _ample(d: Draw) -> None:
    d.seconds = d.random.uniform(4, 8)
    d.again(rate=(3e6, 60e6), rtt=(0.01, 0.15))


# --- traffic ---


@_kind("application", control=True)
def video(d: Draw) -> None:
    """The client asks for a piece of some seconds as soon as it has played one."""
    _ample(d)
    d.upload = False
    every_s = d.log(0.8, 2.5)
    d.seconds += 3 * every_s
    d.finding = "client-think-time"
    size = int(d.rate_bps / 8 * every_s * d.log(0.08, 0.35))
    count = max(2, int(d.seconds / every_s))
    client = [["repeat", count, [["send", 400], ["recv", size], ["wait", every_s, "think", 0.2]]], ["close"]]
    server = [["repeat", count, [["recv", 400], ["send", size]]], ["drain"], ["close"]]
    d.plan["connections"] = [{"client": client, "server": server}]


@_kind("link")
def eight_at_once(d: Draw) -> None:
    """Parts of one file over several connections."""
    _ample(d)
    d.queue_bdp = d.log(0.7, 4)
    count = d.random.choice((4, 6, 8))
    one = d.pair([["send", d.size(d.rate_bps / 8 / count)], ["close"]], [["drain"], ["close"]])
    d.plan["connections"] = [one | {"after_s": 0.02 * number} for number in range(count)]
    d.plan["lanes"] = count


@_kind("link")
def bbr_beside(d: Draw) -> None:
    """A transfer under CUBIC or Reno, and one under BBR that comes later and goes earlier."""
    _ample(d)
    d.again(rate=(2e6, 30e6))
    d.queue_bdp = d.log(1, 4)
    d.congestion_control = d.random.choice(("reno", "cubic"))
    d.finding = "competing-traffic"
    d.bulk(d.size(d.rate_bps / 8 * 0.75))
    other = d.pair([["send", int(d.rate_bps / 16 * 0.4 * d.seconds)], ["close"]], [["drain"], ["close"]])
    more = {"after_s": max(0.25 * d.seconds, 6 * d.rtt_s), "beside": True, "congestion_control": "bbr"}
    d.plan["connections"].append(other | more)
    d.plan["lanes"] = 2


# --- options ---


@_kind("receiver-window")
def no_window_scale(d: Draw) -> None:
    """A host, or a box between, without RFC 7323: at most 64 kB are outstanding."""
    d.seconds = d.random.uniform(4, 8)
    d.again(rate=(10e6, 100e6), rtt=(0.08, 0.3))
    d.sysctls["tcp_window_scaling"] = 0
    d.finding = "receiver-limited"
    d.bulk(d.size(min(d.rate_bps / 8, 60_000 / d.rtt_s)))


# --- a proxy ---


def _proxied(d: Draw, server_bps: float) -> None:
    """Download through a proxy that ends the connection; the server behind it is captured, not the proxy."""
    d.upload = False
    d.proxy = {"rate_bps": int(server_bps)}
    d.plan["origin"] = ORIGIN
    d.bulk(d.size(min(server_bps, d.rate_bps) / 8 * 0.8))


@_kind("application")
def proxy_slow_server(d: Draw) -> None:
    """The proxy has nothing to send most of the time."""
    _ample(d)
    _proxied(d, d.rate_bps * d.log(0.05, 0.35))


@_kind("link")
def proxy_fast_server(d: Draw) -> None:
    _ample(d)
    d.queue_bdp = d.log(0.7, 4)
    _proxied(d, d.rate_bps * d.log(3, 10))


# --- clocks ---


def _apart(name: str, limit: str, narrows: kinds_varying.Narrows) -> None:
    """Add a kind whose captures are of hosts that nobody synchronised."""

    def draw(d: Draw) -> None:
        narrows(d)
        d.finding = None
        d.receiver_clock = {
            "offset_ns": int(d.random.choice((-1, 1)) * d.log(0.002, 3000) * _NS),
            "ppm": d.random.uniform(-60, 60),
        }

    KINDS.append(Kind(f"{name}-clocks", limit, control=False, draw=draw))


for _name, _limit, _narrows in (
    ("cellular-bulk", "link", kinds_varying.of("cellular", "bulk")),
    ("cellular-steady", "application", kinds_varying.of("cellular", "steady")),
    ("satellite-loss", "congestion-window", kinds_varying.of("satellite", "loss")),
    ("policer-alone", "link", kinds_ways.policer_alone),
    ("small-rcvbuf", "receiver-window", kinds_hosts.small_rcvbuf),
    ("outage-both", "outage", kinds_path.outage_both),
):
    _apart(_name, _limit, _narrows)
