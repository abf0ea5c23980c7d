"""When each limit holds: one function a question, from packets' fates, calls and the kernel's variables."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import numpy as np

from tests.causes.path import DELIVERED, FATES
from tests.causes.seen import FULL_PACKET
from tests.causes.spans import NONE, inside, longer, spans

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from multitracer.tables import Mask, Times
    from tests.causes.seen import Transfer
    from tests.causes.spans import Spans

_BRIDGE_NS = 2_000_000
_BRIDGE_SERVICES = 2.5
_FULL_RATE = 0.9
"""A link is full where its serializer is at work for so much of a round trip. With less, and no queue, it is
the window that leaves the gaps; bridged, pairs of segments would look like a full link from 45 % on."""
_BETWEEN_SENDS_NS = 1_000_000
"""A program that calls send() in a loop is in send() all the time."""
_USED_TOKENS = 0.8
"""Of a policer's tokens; with less the transfer left a good part of its contract unused."""
_PUNCTUAL_NS = 500_000
"""So late a kernel's timer may let a packet go for which there were tokens: not measured."""
_AT_ONCE_NS = 300_000
"""Segments of one large one reach the path so near to each other; at 20 Mbit/s single ones are 600 us apart."""
_ETHERNET_BYTES = 14
"""Of a frame, which a shaper counts where the device is a veth; the TUN device has none."""


# --- the path ---


def link(t: Transfer) -> Spans:
    """Return when our bytes stood in the queue or were in service, at their own interface or on the path, or the
    policer had no token left."""
    found = [*_full_stretches(t, spans(_stays(t.packets))), *_policed(t)]
    return spans([*found, *own_interface(t).tolist()])


def link_together(transfers: Sequence[Transfer]) -> Spans:
    """Return when bytes of any of some transfers, all of one way, stood in the queue or were in service."""
    with_data = [each for each in transfers if len(each.packets)]
    if not with_data:
        return NONE
    busy = spans(np.concatenate([_stays(each.packets) for each in with_data]))
    return spans(_full_stretches(with_data[0], busy))


def ack_link(t: Transfer) -> tuple[Spans, Spans]:
    """Return when data of the other direction, of any connection, filled the way back; and when our ACKs waited."""
    back = t.recording.log[t.recording.log["way"] != t.way]
    data = back[back["payload"] > 0]
    if not len(data):
        return NONE, NONE
    filled = spans(_full_stretches(t, spans(_stays(data)), way=1 - t.way))
    return filled, spans(_stays(t.answers), bridge_ns=int(t.floor_rtt_ns(t.begin_ns)))


def _stays(packets: NDArray[np.void]) -> Spans:
    """Return from when until when each packet that the link carried was at it; they may overlap."""
    carried = packets[packets["served_ns"] > 0]
    return np.column_stack((carried["enter_ns"].astype(np.int64), carried["served_ns"].astype(np.int64)))


def _bridge_ns(t: Transfer, time_ns: int, way: int) -> int:
    return int(max(_BRIDGE_NS, _BRIDGE_SERVICES * t.link(way).service_ns(time_ns)))


def _full_stretches(t: Transfer, busy: Spans, *, way: int | None = None) -> list[tuple[int, int]]:
    """Return the stretches of at least one floor RTT in which a way was busy, small gaps bridged."""
    found: list[tuple[int, int]] = []
    if not len(busy):
        return found
    for begin, end in spans(busy, bridge_ns=_bridge_ns(t, int(busy[0, 0]), t.way if way is None else way)).tolist():
        minimum = t.floor_rtt_ns(begin)
        if end - begin >= minimum:
            found += _dense(busy[(busy[:, 0] >= begin) & (busy[:, 1] <= end)], minimum)
    return found


def _dense(busy: Spans, min_ns: float) -> list[tuple[int, int]]:
    """Return the parts of a stretch that are busy for most of every window of one floor RTT."""
    work = np.concatenate(([0], np.cumsum(busy[:, 1] - busy[:, 0])))
    last = np.searchsorted(busy[:, 0], busy[:, 0] + min_ns, "left")
    reach = busy[last - 1, 1] - busy[:, 0]
    share = (work[last] - work[:-1]) / np.maximum(reach, 1)
    full = (share >= _FULL_RATE) & (reach >= _FULL_RATE * min_ns)
    windows = zip(busy[full, 0].tolist(), busy[last[full] - 1, 1].tolist(), strict=True)
    return [(int(a), int(b)) for a, b in longer(spans(windows), min_ns)]


def _policed(t: Transfer) -> list[tuple[int, int]]:
    """Return the stretches between two drops of the policer, and after the last, in which most tokens were used.

    A larger window would have brought nothing more then, though the bucket fills a little now and then: BBR finds
    the policer's rate by its first drops, and keeps to it.
    """
    told = t.data_link.numbers("policer")
    log = t.recording.log[t.recording.log["way"] == t.way]
    dropped = log["fate"] == FATES.index("policer")
    if not told or not dropped.any():
        return []
    dropped[-1] = True  # the end
    drops_ns = log["enter_ns"][dropped].astype(np.int64)
    passed = np.cumsum(np.where(log["fate"] == FATES.index("policer"), 0, log["length"].astype(np.int64)))[dropped]
    came = np.diff(drops_ns) * told[0][0] / 8e9
    used = np.diff(passed) >= _USED_TOKENS * came
    round_ns = t.floor_rtt_ns(t.begin_ns)
    stretches = np.column_stack((drops_ns[:-1], drops_ns[1:]))[used]
    return [(int(a), int(b)) for a, b in longer(spans(stretches, bridge_ns=int(round_ns)), round_ns)]


def own_interface(t: Transfer) -> Spans:
    """Return when the shaper on the sender's interface let our packets wait.

    What waited there leaves as soon as the bucket has tokens for it, with offload a large segment at once. The
    bucket is counted from what left, so that a wait begins no earlier than the departure before. Or the kernel had
    data unsent though all windows had room: without a pacer, only a queue of its own host holds them back.
    """
    own = t.recording.scenario.get("own")
    if not own:
        return NONE
    rate, size = own["rate_bps"] / 8e9, own["burst_bytes"]
    log = t.recording.log[t.recording.log["way"] == t.way]
    enter_ns = log["enter_ns"].astype(np.int64)
    first = np.flatnonzero(np.diff(enter_ns, prepend=enter_ns[0] - _AT_ONCE_NS - 1) > _AT_ONCE_NS)
    ethernet = _ETHERNET_BYTES if t.recording.scenario.get("hosts", {}).get("offload") else 0
    bytes_ = np.add.reduceat(log["length"].astype(np.int64) + ethernet, first)
    level, before, waits = float(size), t.begin_ns, []
    for now, length in zip(enter_ns[first].tolist(), bytes_.tolist(), strict=True):
        came = level + (now - before) * rate  # more than the bucket holds, if it was full before
        if came - length < rate * _PUNCTUAL_NS:
            waits.append((before, now))
        level = max(0.0, min(size, came) - length)
        before = now
    bridge_ns = int(max(_BRIDGE_NS, _BRIDGE_SERVICES * FULL_PACKET / rate))
    held = [] if t.recording.scenario.get("congestion_control") == "bbr" else _unsent_with_room(t)
    return longer(spans([*waits, *held], bridge_ns=bridge_ns), t.floor_rtt_ns(t.begin_ns))


def _unsent_with_room(t: Transfer) -> list[tuple[int, int]]:
    """Return between which readings of the kernel a segment was unsent, though a segment more was allowed."""
    polls = t.polls
    if not len(polls["time_ns"]):
        return []
    times = polls["time_ns"]
    room = (polls["unacked"] < polls["snd_cwnd"]) & (t.offered.at(times) - t.sent.at(times) >= t.segment)
    held = room & (polls["notsent_bytes"] >= t.segment)
    both = held[1:] & held[:-1]
    begin, end = times[:-1][both], times[1:][both]
    return list(zip(begin.tolist(), end.tolist(), strict=True))


def _lost(t: Transfer) -> Mask:
    found: Mask = t.packets["fate"] != DELIVERED
    return found


def holes(t: Transfer) -> Spans:
    """Return when the oldest byte outstanding was lost and its ACK would have come, had it not been."""
    found = []
    delivered = np.flatnonzero(~_lost(t))
    for k in np.flatnonzero(_lost(t)).tolist():
        first, last, sent_ns = int(t.first[k]), int(t.last[k]), int(t.enter_ns[k])
        earlier = delivered[: np.searchsorted(delivered, k)]
        if np.any((t.first[earlier] <= first) & (t.last[earlier] >= last)):
            continue
        oldest_ns = t.acked.first_ns(first) if first > 0 else t.handshake_end_ns
        repaired_ns = t.acked.first_ns(last)
        if oldest_ns is not None:
            begin = max(oldest_ns, int(sent_ns + t.floor_rtt_ns(sent_ns)))
            found.append((begin, t.end_ns if repaired_ns is None else repaired_ns))
    return spans(found)


def outages(t: Transfer) -> Spans:
    """Return the silences with something outstanding in which at least one retry failed."""
    arrivals = t.back["written_ns"].astype(np.int64)
    bounds = np.append(arrivals[arrivals > t.begin_ns], t.end_ns)
    tries_ns, answered = t.enter_ns, _is_answered(t)
    again = ~t.is_new
    found = []
    for begin, end in zip(bounds[:-1].tolist(), bounds[1:].tolist(), strict=True):
        timed = tries_ns > begin + max(_BRIDGE_NS, t.floor_rtt_ns(begin) / 2)  # not sent because of an ACK
        within = timed & (tries_ns < end)
        if not (within & again & ~answered).any():
            continue
        good = within & answered
        back_ns = int(tries_ns[good][0]) if good.any() else end
        found.append((max(begin, _outstanding_since(t, begin)), back_ns))
    return spans(found)


def _is_answered(t: Transfer) -> Mask:
    """Return of each data packet whether it arrived and the next packet back did, too."""
    left_ns = t.answers["enter_ns"].astype(np.int64)
    came = np.append(t.answers["fate"] == DELIVERED, False)
    arrived = ~_lost(t)
    following = np.searchsorted(left_ns, t.packets["written_ns"].astype(np.int64), "left")
    found: Mask = arrived & came[following]
    return found


def _outstanding_since(t: Transfer, begin_ns: int) -> int:
    """Return when something was outstanding first, from `begin_ns` on."""
    at = np.array([begin_ns])
    if t.sent.at(at)[0] > t.acked.at(at)[0]:
        return begin_ns
    later = t.enter_ns[t.enter_ns >= begin_ns]
    return int(later[0]) if len(later) else begin_ns


# --- the sending program ---


def in_send(t: Transfer) -> Spans:
    """Return when the program was in send(); between two calls of a loop it counts as in it."""
    calls = [(begin, end) for name, begin, end, _ in t.calls if name == "send"]
    return spans(calls, bridge_ns=_BETWEEN_SENDS_NS)


def blocked(t: Transfer) -> Spans:
    """Return when send() kept the program waiting."""
    calls = [call for call in t.calls if call[0] == "send" and call[2] - call[1] > _BETWEEN_SENDS_NS]
    return spans([(begin, end) for _, begin, end, _ in calls], bridge_ns=_BETWEEN_SENDS_NS)


def unsent(t: Transfer, at: Times, *, in_send: Mask) -> Times:
    """Return the bytes the sending socket holds that were never sent; within send() the kernel's number."""
    sends = [(end, count) for name, _, end, count in t.calls if name == "send"]
    ends = np.array([end for end, _ in sends], np.int64)
    written = np.concatenate(([0], np.cumsum([count for _, count in sends])))[np.searchsorted(ends, at, "right")]
    exact = np.maximum(0, written - t.sent.at(at)).astype(np.int64)
    if not len(t.polls["time_ns"]):
        return exact
    return np.where(in_send, np.maximum(exact, _polled(t, "notsent_bytes", at)), exact)


def _polled(t: Transfer, name: str, at: Times) -> Times:
    """Return a kernel variable at the poll nearest to each instant."""
    times = t.polls["time_ns"]
    index = np.clip(np.searchsorted(times, at), 1, max(1, len(times) - 1))
    index = np.minimum(index, len(times) - 1)
    nearer = np.abs(times[index - 1] - at) < np.abs(times[index] - at)
    return t.polls[name][np.where(nearer, index - 1, index)]


def waits_for_program(t: Transfer, at: Times, unsent: Times) -> Mask:
    """Return when nothing is unsent, the program is not kept waiting, and will call it again."""
    begins = [begin for name, begin, _, _ in t.calls if name == "send"]
    until = max(begins, default=0)
    return (unsent <= 0) & ~inside(blocked(t), at) & (at < until)


def is_nagled(t: Transfer, at: Times, unsent: Times) -> Mask:
    """Return when less than a segment waits for the ACK of what is outstanding."""
    options = t.recording.scenario["plan"]["client" if t.way == 0 else "server"]
    small = (unsent > 0) & (unsent < t.segment)
    allowed = ~inside(in_send(t), at) & ~is_window_full(t, at)
    return small & allowed & (t.sent.at(at) > t.acked.at(at)) & (not options.get("nodelay"))


# --- windows ---


def is_window_full(t: Transfer, at: Times) -> Mask:
    """Return when the congestion window was full, by the poll nearest."""
    if not len(t.polls["time_ns"]):
        return np.zeros(len(at), bool)
    flight = t.polls["unacked"] - t.polls["sacked"] - t.polls["lost"] + t.polls["retrans"]
    t.polls["full"] = (flight >= t.polls["snd_cwnd"]).astype(np.int64)
    return _polled(t, "full", at) > 0


def is_starting(t: Transfer, at: Times, link: Spans, *, restart_ns: int) -> Mask:
    """Return when the window is in slow start, and since it began no repair and no full pipe stopped it."""
    starts = np.array([t.begin_ns, *_restarts(t, restart_ns)])
    disturbed = t.enter_ns[~t.is_new]
    stops = np.sort(np.concatenate((link[:, 0], disturbed, [np.iinfo(np.int64).max])))
    since = starts[np.searchsorted(starts, at, "right") - 1]
    grows = at < stops[np.searchsorted(stops, since, "left")]
    if not len(t.polls["time_ns"]):
        return grows
    return grows & (_polled(t, "snd_cwnd", at) < _polled(t, "snd_ssthresh", at))


def _restarts(t: Transfer, min_ns: int) -> list[int]:
    """Return when the sender began anew after it had had nothing outstanding for so long."""
    found = []
    new = np.flatnonzero(t.is_new)
    for k in new[1:][np.diff(t.enter_ns[new]) > min_ns].tolist():
        idle_ns = t.acked.first_ns(int(t.sent.before(t.enter_ns[k : k + 1])[0]))
        if idle_ns is not None and t.enter_ns[k] - idle_ns > min_ns:
            found.append(int(t.enter_ns[k]))
    return found


def waits_for_repair(t: Transfer, at: Times, unsent: Times) -> Mask:
    """Return when new data wait, in the socket or in send(), or all were sent, or the program reads."""
    reads = spans((begin, end) for name, begin, end, _ in t.calls if name == "recv")
    ended = at >= max((end for name, _, end, _ in t.calls if name == "send"), default=0)
    return (unsent > 0) | ended | inside(reads, at) | inside(blocked(t), at)


# --- parts, and what happened ---


def parts(t: Transfer, at: Times, limits: list[str], nagled: Mask) -> list[str | None]:
    """Return the part of the limit at each instant, None where it has none."""
    waits = {
        "think": spans((b, e) for name, b, e, _ in t.calls if name == "think"),
        "peer": spans((b, e) for name, b, e, _ in t.calls if name == "recv"),
    }
    which = {"nagle": nagled} | {name: inside(found, at) for name, found in waits.items()}
    edge, una = t.offered.at(at), t.acked.at(at)
    at_link = {"host": inside(own_interface(t), at), "policer": inside(spans(_policed(t)), at)}
    at_link |= {"acks": inside(ack_link(t)[0], at) & ~inside(link(t), at)}
    found: list[str | None] = []
    for i, limit in enumerate(limits):
        part = None
        if limit == "application":
            part = next((name for name, held in which.items() if held[i]), "writes")
        if limit == "link":
            part = next((name for name, held in at_link.items() if held[i]), None)
        if limit == "receiver-window" and edge[i] <= una[i]:
            part = "zero"
        found.append(part)
    return found


def fates(t: Transfer) -> dict[str, dict[str, int]]:
    """Return how many packets of data, and how many back, had each fate."""
    both = {"data": t.packets["fate"], "acks": t.answers["fate"]}
    return {name: dict(Counter(FATES[fate] for fate in fate_of)) for name, fate_of in both.items()}


__all__ = ["NONE", "holes", "in_send", "link", "outages", "unsent"]
