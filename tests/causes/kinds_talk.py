"""Recordings of conversations: what held one direction back may have happened in the other.

The client asks and the server answers with more, so that the answers are the larger direction; the truth is of
the connection as a whole (`group.joint`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.causes.scenario import Draw, Kind, adding_to

if TYPE_CHECKING:
    from tests.causes.scenario import Operation

KINDS: list[Kind] = []
_kind = adding_to(KINDS)
_NS = 1_000_000_000
_READ_BYTES = 4000


def _talk(d: Draw, count: int, ask: list[Operation], answer: list[Operation]) -> None:
    d.upload, d.whole = False, True
    client: list[Operation] = [["repeat", count, ask], ["close"]]
    server: list[Operation] = [["repeat", count, answer], ["drain"], ["close"]]
    d.plan["connections"] = [{"client": client, "server": server}]


def _ample(d: Draw) -> None:
    d.seconds = d.random.uniform(4, 8)
    d.again(rate=(2e6, 50e6), rtt=(0.01, 0.15))


@_kind("outage")
def request_after_idle(d: Draw) -> None:
    """A box on the path forgot the connection while the user read; the next request is repeated in vain."""
    _ample(d)
    idle_s = d.random.uniform(1.5, 2.5)
    for way in (d.data, d.acks):
        way.append(["idle", int(0.7 * idle_s * _NS)])
    d.finding = "idle-timeout"
    size = int(d.log(1000, 60_000))
    d.plan["patience_s"] = idle_s + d.random.uniform(7, 12)
    ask: list[Operation] = [["send", 250], ["recv", size], ["wait", idle_s, "think"], ["send", 250], ["recv", size]]
    _talk(d, 1, ask, [["recv", 250], ["send", size], ["recv", 250], ["send", size]])


def _messages(d: Draw) -> float:
    """Let both exchange small messages; return how often."""
    _ample(d)
    d.again(rtt=(0.03, 0.3))
    every_s = d.log(0.1, 0.6)
    message, reply = int(d.log(20, 200)), int(d.log(20, 600))
    ask: list[Operation] = [["send", message], ["recv", reply], ["wait", every_s, "pace"]]
    _talk(d, max(3, int(d.seconds / (every_s + d.rtt_s))), ask, [["recv", message], ["send", reply]])
    return every_s


@_kind("application", control=True)
def small_messages(d: Draw) -> None:
    _messages(d)


@_kind("outage")
def small_messages_outage(d: Draw) -> None:
    """The radio is gone for most of the time in which small messages should go."""
    _messages(d)
    begin_s, length_s = d.random.uniform(0.5, 1.5), d.log(5, 9)
    for way in (d.data, d.acks):
        way.append(["outage", int(begin_s * _NS), int((begin_s + length_s) * _NS)])
    d.finding = "outage"
    count = d.plan["connections"][0]["client"][0][1]
    for role in ("client", "server"):
        d.plan["connections"][0][role][0][1] = min(count, 8)


@_kind("application", control=True)
def long_poll(d: Draw) -> None:
    """The server answers when there is something to tell."""
    _ample(d)
    think_s = d.log(0.6, 2.5)
    d.finding = "server-think-time"
    size = int(d.log(50, 4000))
    answer: list[Operation] = [["recv", 400], ["wait", think_s, "think", 0.5], ["send", size]]
    _talk(d, max(2, int(d.seconds / think_s)), [["send", 400], ["recv", size]], answer)


@_kind("receiver-window")
def posts_read_slowly(d: Draw) -> None:
    """The server takes its time to read what the client sends, and answers with a little more at once."""
    _ample(d)
    d.again(rate=(10e6, 80e6), rtt=(0.01, 0.06))
    d.back_bps = d.rate_bps
    d.sender["rcvbuf"] = int(d.log(8_000, 40_000))
    size = int(d.log(60_000, 300_000))
    rate = d.log(30_000, 200_000)
    pause_s = _READ_BYTES / rate
    d.finding = "receiver-limited"
    count = max(1, int(d.seconds / (size / rate)))
    answer: list[Operation] = [["recv", size, _READ_BYTES, pause_s], ["send", int(1.2 * size)]]
    _talk(d, count, [["send", size], ["recv", int(1.2 * size)]], answer)


@_kind("link")
def posts_over_a_thin_way(d: Draw) -> None:
    """What the client sends needs long on its slow way; the larger answers come fast."""
    _ample(d)
    d.again(rate=(10e6, 80e6), rtt=(0.01, 0.08))
    d.back_bps = d.log(0.3e6, 1.5e6)
    d.back_queue = int(max(15_000, d.back_bps / 8 * d.log(0.1, 0.5)))
    size = int(d.back_bps / 8 * d.log(0.6, 3))
    count = max(1, int(d.seconds / (size * 8 / d.back_bps)))
    _talk(d, count, [["send", size], ["recv", int(1.2 * size)]], [["recv", size], ["send", int(1.2 * size)]])


@_kind("recovery")
def lost_requests(d: Draw) -> None:
    """Small requests get lost, and nothing follows them that would tell it: each waits for a timer."""
    _ample(d)
    d.again(rtt=(0.005, 0.01))
    d.acks.append(["loss", d.log(0.12, 0.2)])
    size = int(d.log(300, 4000))
    _talk(d, int(d.seconds / 0.08), [["send", 250], ["recv", size]], [["recv", 250], ["send", size]])


@_kind("application")
def asked_in_two_writes(d: Draw) -> None:
    """The second write of a request waits for the ACK of the first, which the server delays."""
    _ample(d)
    d.again(rtt=(0.005, 0.03))
    head, body, size = int(d.log(20, 200)), int(d.log(100, 700)), int(d.log(1000, 6000))
    d.finding = "nagle-delayed-ack"
    count = max(10, int(d.seconds / (0.045 + 2 * d.rtt_s)))
    _talk(d, count, [["send", head], ["send", body], ["recv", size]], [["recv", head + body], ["send", size]])
