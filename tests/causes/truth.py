"""The truth about a recording: what limited each instant of each transfer.

The limits and their order are those of the program's page on limits. Here they come from the fate of each
packet on the path, the programs' journals and the sender's kernel; never from a capture, and nothing of the
program's own analysis is imported.

Time is cut at every event into slices; each slice gets the first limit that holds. A limit of the window that
was reached in a round trip then holds for all of that round (`_rounds`), and the last flight keeps the limit
before it.
"""

from __future__ import annotations

import json
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from tests.causes import holds
from tests.causes.faults import faults, faults_of_both
from tests.causes.group import group, joint
from tests.causes.path import WAYS, lateness_p99_ns
from tests.causes.seen import Recording, Transfer
from tests.causes.spans import inside

if TYPE_CHECKING:
    from pathlib import Path

    from multitracer.tables import Mask, Times
    from tests.causes.spans import Spans

LIMITS = (
    "handshake", "outage", "link", "recovery", "receiver-window", "sender-buffer", "application",
    "slow-start", "congestion-window", "unknown",
)  # fmt: skip
_CODE = {name: code for code, name in enumerate(LIMITS)}
_WINDOW = (_CODE["slow-start"], _CODE["congestion-window"])
_RESTART_NS = 200_000_000
"""The least retransmission timeout of Linux: after so long an idle time the window starts small again."""
_ENOUGH = 0.05
"""Share of a round in which a limit must be reached to hold for all of it; less is the noise of polling."""


_NEVER = {"ack-loss", "random-loss", "policer", "bufferbloat"}
"""What a healthy path has none of, whatever it was drawn to be."""
_SPREAD_NS, _SPREAD_ROUNDS = 100_000_000, 4
"""So long a pacer takes to spread a window: BBR behind a slow reader was seen to take 40 ms of 10 ms' RTT."""


class Verdict:
    """The slices of a transfer and the limit of each."""

    def __init__(self, transfer: Transfer) -> None:
        self.transfer = transfer
        self.edges = self._edges()
        self.begins = self.edges[:-1]
        self.lengths = np.diff(self.edges)
        self._nagled = np.zeros(len(self.begins), bool)
        self.codes = np.full(len(self.begins), _CODE["unknown"])
        if not len(transfer.packets):
            self.codes[:] = _CODE["handshake"]
            return
        self._label()
        self._rounds()
        self._paced()
        self._last_flight()
        self._set(self.begins < transfer.handshake_end_ns, "handshake")

    def _edges(self) -> Times:
        t = self.transfer
        calls = [when for _, begin, end, _ in t.calls for when in (begin, end)]
        spans_ = np.concatenate([each.ravel() for each in self._spans().values()] or [np.zeros(0, np.int64)])
        events = np.concatenate((
            t.enter_ns, t.ack_ns, np.array(calls), t.polls["time_ns"], spans_, [t.handshake_end_ns],
        )).astype(np.int64)  # fmt: skip
        events = np.unique(events[(events > t.begin_ns) & (events < t.end_ns)])
        return np.concatenate(([t.begin_ns], events, [t.end_ns]))

    def _spans(self) -> dict[str, Spans]:
        if not hasattr(self, "_found"):
            t = self.transfer
            empty = not len(t.packets)
            self._found = {} if empty else {
                "outage": holds.outages(t), "link": holds.link(t), "hole": holds.holes(t),
                "send": holds.in_send(t),
            }  # fmt: skip
        return self._found

    def _set(self, where: Mask, limit: str) -> None:
        self.codes[where] = _CODE[limit]

    def _label(self) -> None:
        """Give each slice the first limit that holds, the last of the order first."""
        t, at, found = self.transfer, self.begins, self._spans()
        outstanding = t.sent.at(at) > t.acked.at(at)
        in_send = inside(found["send"], at)
        unsent = holds.unsent(t, at, in_send=in_send)
        self._window_limits(found["link"])
        filled, wait = holds.ack_link(t)
        self._set(inside(filled, at) & inside(wait, at) & outstanding, "link")
        self._set(holds.waits_for_program(t, at, unsent), "application")
        self._nagled = holds.is_nagled(t, at, unsent)
        self._set(self._nagled, "application")
        blocked = inside(holds.blocked(t), at)
        self._set(blocked & (unsent < t.segment) & ~holds.is_window_full(t, at), "sender-buffer")
        self._set((unsent > 0) & (t.offered.at(at) - t.sent.at(at) < t.segment), "receiver-window")
        self._set(inside(found["hole"], at) & holds.waits_for_repair(t, at, unsent), "recovery")
        self._set(inside(found["link"], at) & outstanding, "link")
        self._set(inside(found["outage"], at) & outstanding, "outage")

    def _window_limits(self, link: Spans) -> None:
        """Tell slow start from the rest: the window grows, and neither loss nor a full pipe came before."""
        t, at = self.transfer, self.begins
        self._set(np.ones(len(at), bool), "congestion-window")
        self._set(holds.is_starting(t, at, link, restart_ns=_RESTART_NS), "slow-start")

    def _rounds(self) -> None:
        """Let a limit of receiver or buffer hold for all of a round in which no window was full."""
        full = holds.is_window_full(self.transfer, self.begins)
        for first, last in self._round_slices():
            mine = slice(first, last)
            codes, lengths = self.codes[mine], self.lengths[mine]
            window = np.isin(codes, _WINDOW)
            if not window.any() or (full[mine] & window).any():
                continue
            for name in ("receiver-window", "sender-buffer"):
                if lengths[codes == _CODE[name]].sum() > _ENOUGH * lengths.sum():
                    codes[window] = _CODE[name]
                    break

    def _paced(self) -> None:
        """Let a limit that a pacer reaches only now and then hold for the short time between, too."""
        full = holds.is_window_full(self.transfer, self.begins)
        bounds = [0, *(np.flatnonzero(np.diff(self.codes)) + 1).tolist(), len(self.codes)]
        most_ns = max(_SPREAD_NS, _SPREAD_ROUNDS * self.transfer.floor_rtt_ns(self.transfer.begin_ns))
        for first, last in pairwise(bounds[1:-1]):
            code, before, after = self.codes[first], self.codes[first - 1], self.codes[last]
            between = before == after and LIMITS[before] in ("receiver-window", "sender-buffer")
            short = self.edges[last] - self.edges[first] <= most_ns
            if code in _WINDOW and between and short and not full[first:last].any():
                self.codes[first:last] = before

    def _round_slices(self) -> list[tuple[int, int]]:
        """Return the slices of each round: from an instant to the ACK of what had been sent by then."""
        t, rounds = self.transfer, []
        first = int(np.searchsorted(self.edges, t.handshake_end_ns))
        while first < len(self.begins):
            now = self.begins[first : first + 1]
            top = max(int(t.sent.at(now)[0]), int(t.acked.at(now)[0]) + 1)
            end_ns = t.acked.first_ns(top)
            last = len(self.begins) if end_ns is None else int(np.searchsorted(self.edges, end_ns))
            last = max(first + 1, min(last, len(self.begins)))
            rounds.append((first, last))
            first = last
        return rounds

    def _last_flight(self) -> None:
        t = self.transfer
        begin = int(np.searchsorted(self.edges, t.enter_ns[t.is_new].max()))
        before = self._limit_before(begin)
        kept = "slow-start" if before in ("application", "handshake") else before
        ending = np.arange(len(self.codes)) >= begin
        certain = np.isin(self.codes, [_CODE[name] for name in ("outage", "link", "recovery")])
        self._set(ending & ~certain, kept if kept not in ("recovery", "outage") else "congestion-window")

    def _limit_before(self, slice_: int) -> str:
        """Return the limit that held for most of the round trip before a slice."""
        since_ns = self.edges[slice_] - int(self.transfer.floor_rtt_ns(int(self.edges[slice_])))
        first = max(0, int(np.searchsorted(self.edges, since_ns, "right")) - 1)
        if self.transfer.handshake_end_ns >= self.edges[first]:
            return "handshake"
        within = np.diff(np.maximum(self.edges[first : slice_ + 1], since_ns))
        held = np.bincount(self.codes[first:slice_], within)
        return LIMITS[int(np.argmax(held))] if len(held) else "handshake"

    def intervals(self) -> list[tuple[int, int, str, str | None]]:
        """Return begin, end, limit and part of each stretch of one limit; they partition the transfer."""
        parts = holds.parts(self.transfer, self.begins, [LIMITS[code] for code in self.codes], self._nagled)
        found: list[tuple[int, int, str, str | None]] = []
        for begin, end, code, part in zip(
            self.edges[:-1].tolist(), self.edges[1:].tolist(), self.codes, parts, strict=True
        ):
            if found and found[-1][2:] == (LIMITS[code], part):
                found[-1] = (found[-1][0], end, *found[-1][2:])
            else:
                found.append((begin, end, LIMITS[code], part))
        return found


def _document(transfer: Transfer) -> dict[str, Any]:
    intervals = Verdict(transfer).intervals()
    fates = holds.fates(transfer)
    seconds = dict.fromkeys(LIMITS, 0.0)
    for begin, end, limit, _ in intervals:
        seconds[limit] += (end - begin) / 1e9
    total = sum(seconds.values())
    shares = {limit: round(s / total, 5) for limit, s in seconds.items() if s > 0} if total else {}
    return {
        "client": transfer.recording.client,
        "client_port": transfer.port,
        "way": WAYS[transfer.way],
        "bytes": int(transfer.last.max()) if len(transfer.packets) else 0,
        "total_s": total,
        "delay_s": transfer.data_link.delay_ns(transfer.begin_ns) / 1e9,
        "floor_rtt_s": transfer.floor_rtt_ns(transfer.begin_ns) / 1e9,
        "shares": dict(sorted(shares.items(), key=lambda item: -item[1])),
        "at_sender_ns": transfer.at_sender_ns,
        "at_receiver_ns": transfer.at_receiver_ns,
        "fates": fates,
        "faults": faults(transfer, intervals, fates),
        "intervals": intervals,
    }


def truth(folder: Path) -> dict[str, Any]:
    """Return the truth about a recording: each transfer with its shares and intervals, the judged one first.

    That is the largest, but none that was made to disturb the others.
    """
    recording = Recording(folder)
    found = list(recording.transfers())
    transfers = [_document(each) for each in found]
    transfers.sort(key=lambda each: (each["client_port"] in recording.beside, -each["bytes"]))
    if recording.scenario.get("whole"):
        transfers[0]["joint"] = _whole(transfers, found)
    return {
        "kind": recording.scenario["kind"],
        "upload": recording.scenario["upload"],
        "limit": recording.scenario["limit"],
        "finding": recording.scenario["finding"],
        "control": recording.scenario["control"] and _is_healthy(transfers[0]),
        "tick_ms": recording.tick_ms,
        "apart": bool(recording.scenario.get("receiver_clock")),
        "proxied": bool(recording.scenario.get("proxy")),
        "lateness_p99_ns": lateness_p99_ns(recording.log),
        "transfers": transfers,
        "group": group(transfers, {way: _busy(found, number) for number, way in enumerate(WAYS)}),
    }


def _whole(documents: list[dict[str, Any]], transfers: list[Transfer]) -> dict[str, Any]:
    """Return the truth about both directions of the first document's connection."""
    mine = [each for each in documents if each["client_port"] == documents[0]["client_port"]]
    told = joint(mine)
    intervals = [(begin, end, limit, part) for begin, end, limit, part, _ in told["intervals"]]
    (first,) = (t for t in transfers if t.port == mine[0]["client_port"] and WAYS[t.way] == mine[0]["way"])
    seen = {
        f"at_{end}_ns": _both_spans(mine[0][f"at_{end}_ns"], mine[1][f"at_{other}_ns"] if mine[1:] else None)
        for end, other in (("sender", "receiver"), ("receiver", "sender"))
    }
    return told | seen | {"faults": faults_of_both(first, intervals, [each["faults"] for each in mine])}


def _both_spans(one: tuple[int, int] | None, other: tuple[int, int] | None) -> tuple[int, int] | None:
    """Return the least span that holds two."""
    both = [each for each in (one, other) if each]
    return (min(begin for begin, _ in both), max(end for _, end in both)) if both else None


def _busy(transfers: list[Transfer], way: int) -> Spans:
    """Return when the link had bytes of any of the transfers of a way."""
    return holds.link_together([each for each in transfers if each.way == way])


def _is_healthy(transfer: dict[str, Any]) -> bool:
    """Return whether neither path nor queue had a fault: what was drawn as a control may have become none."""
    faulty = any(transfer["faults"].get(kind) for kind in _NEVER)
    return not faulty and not transfer["fates"]["acks"].get("queue")


def write(folder: Path) -> dict[str, Any]:
    """Write truth/truth.json of a recording, and return it."""
    found = truth(folder)
    (folder / "truth" / "truth.json").write_text(json.dumps(found))
    return found
