"""Which faults a transfer really had, by the names of the findings: true, false, or left out where slight.

What is slight may be found or not: five random losses must be, where there is none they must not be.
"""

from __future__ import annotations

from collections import Counter
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from tests.causes.holds import ack_link
from tests.causes.path import DELIVERED, FATES
from tests.causes.spans import inside, spans

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from tests.causes.seen import Transfer

Interval = tuple[int, int, str, str | None]

_SYN, _RST, _ACK = 2, 4, 16
_LEAST_LOSSES, _LEAST_DROPS_OF_A_POLICER, _LEAST_OF_A_HOLE, _LEAST_MARKS = 5, 15, 3, 3
_MUCH, _LITTLE = 0.2, 0.02
"""Shares of the time from which on a limit must be a finding, and below which it must not."""
_BLOATED_NS, _SHORT_NS = 200_000_000, 60_000_000
"""Wait in the queue: grade D and worse for half of the data, or C never, by the common grades ..."""
_BLOATED_ROUNDS, _SHORT_ROUNDS = 2.0, 1.5
"""... and in round trips of the empty path: a sender needs one, and the healthy queues drawn have 1.5."""
_INITIAL_WINDOW = 10
"""Packets (RFC 6928) that go at once, and that any queue must hold, however long a slow link needs."""
_LEAST_SILENCE_S = 0.3
_DELAYED_NS = 20_000_000
"""Half of the least time for which Linux delays an ACK."""
_MIN_PACKETS, _LASTS_NS, _MUCH_OF_A_RATE = 50, 700_000_000, 1.5
"""On both sides of a step of the rate, and without others for the second; less is slight."""
_MIN_SHARED = 0.1
"""Of what the link could carry, that others sent."""
_EMPTY_OF_A_STEP, _MIN_AROUND = 0.1, 8
"""Of a step of the delay, that the queue may hold then; packets on both sides of it."""
_ONE_CONNECTION = 2
"""Source ports of one; of several each is the others' competitor."""
_TELLS_BPS = 20_000_000
"""A full segment takes 0.6 ms."""
_SOONEST_FORGOTTEN_NS = 2_000_000_000
"""Idle time after which a real device forgets a connection, at the soonest: servers take 5 s and more."""
_OF_LIMITS = {
    "receiver-limited": ("receiver-window", None),
    "send-buffer-limited": ("sender-buffer", None),
    "slow-start-limited": ("slow-start", None),
    "link-limited": ("link", None),
    "application-limited": ("application", "writes"),
    "nagle-delayed-ack": ("application", "nagle"),
}


def _amount(value: float, *, minimum: float, none: float = 0) -> bool | None:
    if value >= minimum:
        return True
    return False if value <= none else None


def faults(t: Transfer, intervals: list[Interval], fates: dict[str, dict[str, int]]) -> dict[str, bool]:
    """Return for each kind of finding whether it is true of a transfer; what is slight is left out."""
    found = {
        **_of_fates(t, fates["data"]),
        **_of_packets(t),
        **_of_beginning_and_end(t),
        **_of_time(t, intervals),
        **_of_idle_gaps(intervals, fates),
        **_of_the_link(t, intervals),
    }
    return _told(found)


def faults_of_both(t: Transfer, intervals: list[Interval], each_way: list[dict[str, bool]]) -> dict[str, bool]:
    """Return which findings are true of a connection: those of either direction, and those of its time.

    Of a program that waits before it writes next, it cannot be told whether it thinks or has a rhythm of its own.
    """
    kinds = {kind for of_way in each_way for kind in of_way}
    found: dict[str, bool | None] = {}
    for kind in sorted(kinds):
        values = [of_way.get(kind) for of_way in each_way]
        found[kind] = True if any(values) else None if None in values else False
    found |= _of_time(t, intervals)
    total = max(1, sum(end - begin for begin, end, *_ in intervals))
    paced_ns = sum(_waited_ns(t, role, "pace") for role in ("client", "server"))
    rhythm = found["application-limited"] is not False or paced_ns >= _LITTLE * total
    for kind in ("client-think-time", "server-think-time") if rhythm else ():
        found[kind] = found[kind] or None
    return _told({**found, "application-limited": None if rhythm else False})


def _told(found: Mapping[str, bool | None]) -> dict[str, bool]:
    return {kind: value for kind, value in found.items() if value is not None}


def _of_fates(t: Transfer, data: Mapping[str, int]) -> dict[str, bool | None]:
    """Return what the path did to the data; a box that forgets sooner than any real one looks like a failed path."""
    forgot = _amount(data.get("idle", 0), minimum=1)
    if any(after_ns < _SOONEST_FORGOTTEN_NS for after_ns, *_ in t.data_link.numbers("idle")):
        forgot = forgot and None
    return {
        "random-loss": _amount(data.get("loss", 0), minimum=_LEAST_LOSSES),
        "policer": _amount(data.get("policer", 0), minimum=_LEAST_DROPS_OF_A_POLICER),
        "idle-timeout": forgot,
    }


def _of_packets(t: Transfer) -> dict[str, bool | None]:
    arrived = t.packets[t.packets["fate"] == DELIVERED]
    order = np.diff(arrived["written_ns"].astype(np.int64))
    return {
        "bufferbloat": _bloated(t, arrived),
        "path-mtu-black-hole": _hole(t),
        "ecn-marked": _amount(int(arrived["ce"].sum()), minimum=_LEAST_MARKS),
        "reordering": _amount(int((order < 0).sum()), minimum=_LEAST_LOSSES),
    }


def _bloated(t: Transfer, arrived: NDArray[np.void]) -> bool | None:
    """Return whether a queue was far too long; left out between, and where an initial window fills it.

    That is the queue of the data, or that of their ACKs where an upload fills their way.
    """
    if _acks_are_late(t):
        return True
    enter_ns = arrived["enter_ns"].astype(np.int64)
    waits_ns = arrived["served_ns"].astype(np.int64) - enter_ns
    median_ns, high_ns = np.quantile(waits_ns, (0.5, 0.95)).tolist() if len(arrived) else (0.0, 0.0)
    floor_ns = t.floor_rtt_ns(t.begin_ns)
    if median_ns >= max(_BLOATED_NS, _BLOATED_ROUNDS * floor_ns):
        services_ns = [t.data_link.service_ns(at_ns) for at_ns in enter_ns.tolist()]
        return True if np.median(waits_ns / np.array(services_ns)) >= _INITIAL_WINDOW else None
    short = high_ns <= max(_SHORT_NS, _SHORT_ROUNDS * floor_ns)
    return False if short and not _has_ack_queue(t) else None


def _acks_are_late(t: Transfer) -> bool:
    """Return whether data of the other direction let ACKs wait as long as in a queue far too long."""
    if not len(ack_link(t)[0]):
        return False
    served = t.answers[t.answers["served_ns"] > 0]
    waits_ns = served["served_ns"].astype(np.int64) - served["enter_ns"].astype(np.int64)
    return float(np.median(waits_ns)) >= max(_BLOATED_NS, _BLOATED_ROUNDS * t.floor_rtt_ns(t.begin_ns))


def _has_ack_queue(t: Transfer) -> bool:
    """Return whether ACKs waited long: that is a bloated queue, too, but not of the data."""
    served = t.answers[t.answers["served_ns"] > 0]
    waits_ns = served["served_ns"].astype(np.int64) - served["enter_ns"].astype(np.int64)
    return len(waits_ns) > 0 and float(np.quantile(waits_ns, 0.95)) > _SHORT_NS


def _hole(t: Transfer) -> bool | None:
    """Return whether the path dropped what is too large; left out if nothing smaller came through it then.

    A hole from the beginning needs no more than the handshake, which came through.
    """
    vanished, came = (t.packets["fate"] == FATES.index(fate) for fate in ("mtu", "delivered"))
    if not vanished.any():
        return False
    since_ns = int(t.packets["enter_ns"][vanished].min())
    from_the_first = not (came & (t.packets["enter_ns"] < since_ns)).any()
    after = t.log["fate"][(t.log["way"] == t.way) & (t.log["enter_ns"] >= since_ns)]
    is_told = from_the_first or (after == DELIVERED).any()
    return True if is_told and vanished.sum() >= _LEAST_OF_A_HOLE else None


def _of_beginning_and_end(t: Transfer) -> dict[str, bool | None]:
    flags, back = t.log["flags"], t.log["way"] == 1
    came = t.log["fate"] == DELIVERED
    syns = int(((flags & (_SYN | _ACK)) == _SYN).sum())
    answered = bool((((flags & _SYN) > 0) & back & came).any())
    reset = bool(((flags & _RST) > 0).any())
    return {
        "syn-retransmitted": syns > 1 and answered,
        "syn-unanswered": not answered and not reset,
        "connection-refused": not answered and reset,
        "reset-by-peer": _is_reset(t, reset=reset and answered),
    }


def _is_reset(t: Transfer, *, reset: bool) -> bool | None:
    """Return whether a program reset it; a kernel may, too, for what comes after its program's end."""
    meant = any(
        name == "reset" for journal in t.recording.journals.values() for c in journal for name, *_ in c["calls"]
    )
    return meant if meant or not reset else None


def _of_time(t: Transfer, intervals: list[Interval]) -> dict[str, bool | None]:
    """Return the findings that are a limit by another name."""
    total = max(1, sum(end - begin for begin, end, *_ in intervals))
    spent: Counter[tuple[str, str | None]] = Counter()
    for begin, end, limit, part in intervals:
        for key in {(limit, part), (limit, None)}:
            spent[key] += end - begin
    found = {kind: _amount(spent[key] / total, minimum=_MUCH, none=_LITTLE) for kind, key in _OF_LIMITS.items()}
    for role in ("client", "server"):
        thinks = _amount(_waited_ns(t, role, "think") / total, minimum=_MUCH, none=_LITTLE)
        amid = thinks is not False and _thinks_amid(t, role)
        found[f"{role}-think-time"] = None if amid else thinks
        found["application-limited"] = None if amid else found["application-limited"]
    if found["slow-start-limited"] and len(t.packets) <= _INITIAL_WINDOW:
        found["slow-start-limited"] = None  # a larger window would have saved nothing
    if found["nagle-delayed-ack"] and not _is_delayed(t, intervals):
        found["nagle-delayed-ack"] = None
    zero_s = spent["receiver-window", "zero"] / 1e9
    return found | {"zero-window": _amount(zero_s, minimum=_LEAST_SILENCE_S)}


def _is_delayed(t: Transfer, intervals: list[Interval]) -> bool:
    """Return whether ACKs that Nagle's rule waited for mostly took longer than the path and its jitter need."""
    waits_ns = [end - begin for begin, end, limit, part in intervals if (limit, part) == ("application", "nagle")]
    return float(np.median(waits_ns)) >= t.floor_rtt_ns(t.begin_ns) + _DELAYED_NS


def _journals_of(t: Transfer, role: str) -> list[dict[str, Any]]:
    key = "local_port" if role == "client" else "peer_port"
    return [c for c in t.recording.journals[role] if c[key] == t.port]


def _waited_ns(t: Transfer, role: str, why: str) -> int:
    """Return how long a program waited for a reason of its own (`app`), by its journal; it may do so at once."""
    waits = spans([(begin, end) for c in _journals_of(t, role) for name, begin, end, _ in c["calls"] if name == why])
    return int((waits[:, 1] - waits[:, 0]).sum())


def _thinks_amid(t: Transfer, role: str) -> bool:
    """Return whether a program sent while it thought of another answer; a pause amid an answer may be any rhythm."""
    calls = [call for c in _journals_of(t, role) for call in c["calls"]]
    thinks = spans([(begin, end) for name, begin, end, _ in calls if name == "think"])
    sends_ns = np.array([begin for name, begin, _, _ in calls if name == "send"], np.int64)
    return bool(inside(thinks, sends_ns).any())


def _of_the_link(t: Transfer, intervals: list[Interval]) -> dict[str, bool | None]:
    """Return whether its rate changed for good, whether others used it, and whether the sender paced."""
    return {
        "rate-change": _rate_change(t),
        "path-change": _path_change(t),
        "competing-traffic": _competing(t, intervals),
        "pacing": _paced(t, intervals),
    }


def _rate_change(t: Transfer) -> bool | None:
    """Return whether the rate was another for long on both sides of a step, with enough packets to see it."""
    steps = t.data_link.numbers("step")
    served = t.packets["served_ns"][t.packets["fate"] == DELIVERED].astype(np.int64)
    if not len(served):
        return False
    inside = [(at, rate) for at, rate, *_ in steps if at + t.zero_ns < served.max()]
    changes = [i for i in range(1, len(inside)) if inside[i][1] != inside[i - 1][1]]
    if not changes:
        return None if t.data_link.numbers("trace") else False  # a cell's rate never stays
    at_ns = inside[changes[0]][0] + t.zero_ns
    before, after = served[served < at_ns], served[served >= at_ns]
    many = all(len(side) >= _MIN_PACKETS and np.ptp(side) >= _LASTS_NS for side in (before, after))
    ratio = inside[changes[0]][1] / inside[changes[0] - 1][1]
    return True if many and max(ratio, 1 / ratio) >= _MUCH_OF_A_RATE else None


def _path_change(t: Transfer) -> bool | None:
    """Return whether the delay changed at least once while the queue was empty; a queue hides it."""
    arrived = t.packets[t.packets["fate"] == DELIVERED]
    enter, served = (arrived[name].astype(np.int64) for name in ("enter_ns", "served_ns"))
    steps = [(at + t.zero_ns, delay) for at, _, delay, *_ in t.data_link.numbers("step")]
    changes = [(at, new - old) for (_, old), (at, new) in pairwise(steps) if new != old]
    if not changes:
        return False
    floor_ns = t.floor_rtt_ns(t.begin_ns)
    for at_ns, step_ns in changes:
        around = np.abs(served - at_ns) <= floor_ns
        sides = [(served[around] < at_ns).sum(), (served[around] >= at_ns).sum()]
        is_empty = (served - enter)[around].max(initial=0) <= _EMPTY_OF_A_STEP * abs(step_ns)
        if is_empty and min(sides) >= _MIN_AROUND:
            return True
    return None


def _competing(t: Transfer, intervals: list[Interval]) -> bool | None:
    """Return whether others had a good part of the link while ours waited, or there were none.

    In a fair queue small flows pass: where ours never waited, the others are nothing that can be seen. Nor are those
    who were there all the time, like a slower link.
    """
    crosses = t.data_link.numbers("cross")
    if not crosses:
        return None if len({*t.recording.log["source"]}) > _ONE_CONNECTION else False
    if not any(limit == "link" for _, _, limit, _ in intervals):
        return None
    begin, end, rate, _, on, off = crosses[0]
    busy = min(end + t.zero_ns, t.end_ns) - max(begin + t.zero_ns, t.begin_ns)
    duty = on / (on + off) if on + off else 1.0
    if t.end_ns - t.begin_ns - duty * busy < _LASTS_NS:
        return None
    theirs = rate * duty * busy / (t.data_link.numbers("step")[0][1] * (t.end_ns - t.begin_ns))
    return _amount(theirs, minimum=_MIN_SHARED, none=0.0)


def _paced(t: Transfer, intervals: list[Interval]) -> bool | None:
    """Return whether BBR decided what was sent; on a fast path ACKs are too near each other to tell."""
    sender = "client" if t.way == 0 else "server"
    if t.recording.scenario["plan"][sender].get("congestion_control") != "bbr":
        return None if t.recording.scenario.get("own") else False  # a shaper looks like a pacer
    total = max(1, sum(end - begin for begin, end, *_ in intervals))
    own = sum(end - begin for begin, end, limit, _ in intervals if limit in ("link", "congestion-window"))
    slow = t.data_link.numbers("step")[0][1] <= _TELLS_BPS
    bulk = len(t.packets) >= 2 * _MIN_PACKETS
    return True if own / total >= 2 * _MUCH and slow and bulk else None


def _of_idle_gaps(intervals: list[Interval], fates: dict[str, dict[str, int]]) -> dict[str, bool | None]:
    """Return whether the path was dead; where a hole or a forgetful box explains it that is the finding."""
    longest_s = max((end - begin for begin, end, limit, _ in intervals if limit == "outage"), default=0) / 1e9
    dead = _amount(longest_s, minimum=_LEAST_SILENCE_S)
    if not dead and fates["data"].get("outage"):
        dead = None  # the path was dead, and no retry failed in it
    data = sum(fates["data"].get(fate, 0) for fate in ("outage", "mtu", "idle"))
    only_acks = fates["acks"].get("outage", 0) > 0 and data == 0
    explained = any(fates["data"].get(fate) for fate in ("mtu", "idle", "loss"))
    thinned = fates["acks"].get("queue", 0) > 0  # those may have been missed; mostly the next one tells more
    return {
        "outage": None if only_acks or explained else dead,
        "ack-loss": (dead or None) if only_acks else None if explained or thinned else False,
    }
