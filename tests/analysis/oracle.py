"""The rules of the analysis once more, segment by segment, slow and plain: what the engine must equal.

Nothing here is shared with the engine. Sequence space is a Python set of units, so that every rule can be
read as it is written in docs/analysis.md.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from tests.analysis.traffic import ACK, FIN, RST, SYN, Segment

FAR = 1 << 30


def signed(difference: int) -> int:
    """Return a 32-bit circular difference as -2**31 to 2**31 - 1."""
    return (difference + 2**31) % 2**32 - 2**31


def unwrap(numbers: list[int]) -> list[int]:
    """Return distances from the first number; a stray one does not carry the others along."""
    result: list[int] = []
    last = None
    for i, number in enumerate(numbers):
        if last is None:
            result.append(0)
            last = (number, 0)
            continue
        far = abs(signed(number - numbers[i - 1])) >= FAR
        far_after = i + 1 == len(numbers) or abs(signed(numbers[i + 1] - number)) >= FAR
        place = last[1] + signed(number - last[0])
        result.append(place)
        if not (far and far_after):
            last = (number, place)
    return result


def plain(segment: Segment) -> bool:
    """Return whether a segment has neither SYN, FIN nor RST."""
    return not segment.flags & (SYN | FIN | RST)


def units(segment: Segment) -> int:
    """Return how many sequence units a segment occupies."""
    if segment.flags & RST:
        return 0
    return segment.payload + bool(segment.flags & SYN) + bool(segment.flags & FIN)


@dataclass
class Direction:
    """What is said of one direction."""

    counts: Counter[str] = field(default_factory=Counter)
    rtt: list[int] = field(default_factory=list)
    max_flight: int = 0


class Connection:
    """One connection, judged segment by segment; side 0 or 1 of a segment is its direction here."""

    def __init__(self, segments: list[Segment]) -> None:
        self.segments = segments
        self.directions = [Direction(), Direction()]
        self.kinds: list[set[str]] = [set() for _ in segments]
        self.new = [s.payload for s in segments]
        self.start: dict[int, int] = {}
        self.ack: dict[int, int] = {}
        self.chunks: list[list[int]] = [[], []]
        for side in (0, 1):
            self._place_pieces(side)
        for side in (0, 1):
            self._place_acks(side)
        self.probes = {i for i, s in enumerate(segments) if self._is_window_probe(i, s)}
        self.refused = self._refused_probes()
        for side in (0, 1):
            self._count_plain_things(side)
            self._cover(side)
            self._judge_acks(side)
            self._samples(side)

    def end(self, i: int) -> int:
        return self.start[i] + units(self.segments[i])

    def _place_pieces(self, side: int) -> None:
        self.chunks[side] = [i for i, s in enumerate(self.segments) if s.side == side and units(s)]
        places = unwrap([self.segments[i].seq for i in self.chunks[side]])
        self.start.update(zip(self.chunks[side], places, strict=True))

    def _ack_changes(self, side: int) -> list[int]:
        """Return the segments that acknowledge `side` with a number that is not the one before."""
        changes, before = [], None
        for i, s in enumerate(self.segments):
            if s.side == side:
                continue
            if s.flags & ACK and s.ack != before:
                changes.append(i)
            before = s.ack if s.flags & ACK else None
        return changes

    def _place_acks(self, side: int) -> None:
        """Place ACK numbers on the scale of the direction that they acknowledge."""
        changes = self._ack_changes(side)
        if not changes:
            return
        first = changes[0]
        sent = [i for i, s in enumerate(self.segments) if s.side == side]
        before = [i for i in self.chunks[side] if i < first] or self.chunks[side][:1]
        if before:
            anchor = before[-1] if before[-1] < first else before[0]
            shift = self.start[anchor] + signed(self.segments[first].ack - self.segments[anchor].seq)
        elif sent:
            shift = signed(self.segments[first].ack - self.segments[sent[0]].seq)
        else:
            shift = 0
        places = unwrap([self.segments[i].ack for i in changes])
        at = dict(zip(changes, places, strict=True))
        current = 0
        for i, s in enumerate(self.segments):
            if s.side != side and s.flags & ACK:
                current = at.get(i, current)
                self.ack[i] = shift + current

    def _last_of(self, side: int, before: int) -> Segment | None:
        return next((s for s in reversed(self.segments[:before]) if s.side == side), None)

    def _window_closed(self, i: int) -> bool:
        """Return whether the other side's last segment offers a window of 0."""
        answer = self._last_of(1 - self.segments[i].side, i)
        return answer is not None and plain(answer) and answer.window == 0

    def _is_window_probe(self, i: int, s: Segment) -> bool:
        return plain(s) and s.payload == 1 and self._window_closed(i)

    def _refused_probes(self) -> set[int]:
        """Return probes whose byte the receiver did not take, and those that repeat an earlier one's."""
        refused, taken = set(), set()
        for i in sorted(self.probes):
            side, unit = self.segments[i].side, self.start[i]
            data = [j for j in self.chunks[side] if j not in self.probes]
            reach = None
            raiser = None
            for j in data:
                reach = self.end(j) if reach is None else max(reach, self.end(j))
                if reach > unit:
                    raiser = j
                    break
            accepted = raiser is None or self.start[raiser] > unit
            if not accepted or (side, unit) in taken:
                refused.add(i)
            taken.add((side, unit))
        return refused

    def highest_ack(self, side: int, before: int) -> int | None:
        """Return the highest ACK of a direction among the segments before one."""
        acks = [self.ack[j] for j, s in enumerate(self.segments[:before]) if s.side != side and j in self.ack]
        return max(acks, default=None)

    def reach_before(self, side: int, before: int) -> int | None:
        """Return the highest end of a direction's pieces before one."""
        ends = [self.end(j) for j in self.chunks[side] if j < before and j not in self.refused]
        return max(ends, default=None)

    def _count_plain_things(self, side: int) -> None:
        counts = self.directions[side].counts
        for i, s in enumerate(self.segments):
            if s.side != side:
                continue
            counts["packets"] += 1
            counts["data_segments"] += s.payload > 0
            counts["payload_bytes"] += s.payload
            for name, flag in (("syn", SYN), ("fin", FIN), ("rst", RST)):
                counts[name] += bool(s.flags & flag)
            if plain(s) and s.window == 0:
                counts["zero_window_segments"] += 1
            if i in self.probes:
                counts["zero_window_probes"] += 1
            counts["sack_segments"] += bool(s.sack)
            counts["dsack_segments"] += self._is_dsack(s) and not self._has_growing_dsacks(side)
            if units(s) == 0 and plain(s) and self._is_keep_alive(i):
                counts["zero_window_probes" if self._window_closed(i) else "keep_alives"] += 1

    def _is_dsack(self, s: Segment) -> bool:
        """Return whether the first block lies below the ACK or within the second."""
        if not s.sack:
            return False
        left, right = s.sack[0]
        within = len(s.sack) > 1 and signed(left - s.sack[1][0]) >= 0 and signed(s.sack[1][1] - right) >= 0
        return signed(left - s.ack) < 0 or within

    def _has_growing_dsacks(self, side: int) -> bool:
        """Return whether three first blocks below one ACK begin alike and end later and later."""
        run: list[tuple[int, int, int]] = []
        for s in self.segments:
            if s.side != side or not s.sack or signed(s.sack[0][0] - s.ack) >= 0:
                continue
            now = (s.ack, *s.sack[0])
            step = signed(now[2] - run[-1][2]) if run and run[-1][:2] == now[:2] else -1
            run = [now] if step < 0 else [*run, now] if step else run
            if len(run) >= 3:
                return True
        return False

    def _names_unsent(self, side: int) -> bool:
        """Return whether the blocks of a side lie outside of what the other side ever sent."""
        kept = [j for j in self.chunks[1 - side] if j not in self.refused]
        if not kept or self.directions[side].counts["acks_of_unseen"]:
            return False
        reach = max(self.end(j) for j in kept)
        syns = [self.start[j] for j in kept if self.segments[j].flags & SYN]
        unsent, many = [], 0
        for i, s in enumerate(self.segments):
            if s.side == side and s.sack:
                many += 1
                left, right = (self.ack[i] + signed(edge - s.ack) for edge in s.sack[0])
                if left >= reach or (syns and right <= min(syns)):
                    unsent.append(self.ack[i])
        return 2 * len(unsent) >= many and any(a == b for a, b in zip(unsent, unsent[2:], strict=False))

    def is_untranslated(self, side: int) -> bool:
        """Return whether a middlebox did not translate the SACK blocks of a side."""
        return self._has_growing_dsacks(side) or self._names_unsent(side)

    def _crossed(self, i: int) -> bool:
        """Return whether a segment is the first SYN-ACK of an end that has sent a SYN."""
        before = [self.segments[j].flags & (SYN | ACK) for j in self.chunks[self.segments[i].side] if j < i]
        is_answer = self.segments[i].flags & (SYN | ACK) == SYN | ACK
        return is_answer and SYN in before and SYN | ACK not in before

    def flight(self, i: int) -> tuple[int, int]:
        """Return what is outstanding after a segment, and the same less what is SACKed."""
        s = self.segments[i]
        side = s.side if units(s) else 1 - s.side
        kept = [j for j in self.chunks[side] if j not in self.refused]
        first = self.start[kept[0]] if kept else 0
        reach, highest = self.reach_before(side, i + 1), self.highest_ack(side, i + 1)
        out = max((first if reach is None else reach) - (first if highest is None else highest), 0)
        sacked: set[int] = set()
        for j, other in enumerate(self.segments[: i + 1]):
            if other.side != side and j in self.ack and not self.is_untranslated(other.side):
                for left, right in other.sack:
                    low, high = (self.ack[j] + signed(edge - other.ack) for edge in (left, right))
                    sacked.update(range(low, high))
        above = sum(highest is not None and u >= highest for u in sacked)
        return out, max(out - above, 0)

    def _is_keep_alive(self, i: int) -> bool:
        """Return whether a segment begins at the last unit sent, when everything is acknowledged."""
        s = self.segments[i]
        reach = self.reach_before(s.side, i)
        if reach is None:
            return False
        if i in self.start:
            begins = self.start[i] == reach - 1
        else:
            first = self.chunks[s.side][0]
            begins = (s.seq - self.segments[first].seq - reach + 1) % 2**32 == 0
        answered = any(j in self.ack for j, other in enumerate(self.segments) if other.side != s.side)
        highest = self.highest_ack(s.side, i)
        acknowledged = not answered if highest is None else highest >= reach
        return begins and acknowledged

    def _cover(self, side: int) -> None:
        """Walk the pieces with the set of units seen so far."""
        counts = self.directions[side].counts
        seen: set[int] = set()
        reach = None
        last_copy: dict[int, int] = {}
        kept = [i for i in self.chunks[side] if i not in self.refused]
        for i in self.refused & set(self.chunks[side]):
            self.new[i] = 0
        for i in kept:
            s = self.segments[i]
            own = range(self.start[i], self.end(i))
            fresh = {u for u in own if u not in seen}
            payload = range(self.start[i] + bool(s.flags & SYN), self.start[i] + bool(s.flags & SYN) + s.payload)
            self.new[i] = len(fresh & set(payload))
            counts["unique_bytes"] += self.new[i]
            if reach is not None and self.start[i] < reach:
                self._judge_late(i, len(fresh), last_copy, side)
                last_copy[self.start[i]] = i
            seen.update(own)
            reach = self.end(i) if reach is None else max(reach, self.end(i))
        counts["unique_bytes"] += sum(s.payload for s in self.segments if s.side == side and s.flags & RST)
        if kept:
            first = self.start[kept[0]]
            counts["missing_bytes"] = max(self.end(i) for i in kept) - first - sum(u >= first for u in seen)

    def _judge_late(self, i: int, fresh: int, last_copy: dict[int, int], side: int) -> None:
        """Say what a piece is that begins below the highest end before it."""
        s, counts = self.segments[i], self.directions[side].counts
        if twice := self._captured_twice(i, last_copy, side):
            counts["capture_duplicates"] += 1
            self.kinds[i].add("twice")
        if i in self.probes:
            return
        if not twice and s.payload == 1 and plain(s) and self._is_keep_alive(i):
            counts["keep_alives"] += 1
        elif fresh < units(s) and self._crossed(i):
            pass  # both ends opened the connection at once
        elif fresh < units(s):
            counts["retransmitted_segments"] += 1
            counts["retransmitted_bytes"] += units(s) - fresh
            counts["partial_retransmissions"] += fresh > 0
        else:
            counts["out_of_order"] += 1

    def _captured_twice(self, i: int, last_copy: dict[int, int], side: int) -> bool:
        """Return whether the last copy with this start, or else the piece on time there, is this packet."""
        s = self.segments[i]
        earlier = last_copy.get(self.start[i])
        if earlier is None:
            reach = None
            for j in self.chunks[side]:
                if j in self.refused:
                    continue
                reach = self.end(j) if reach is None else max(reach, self.end(j))
                if reach > self.start[i]:
                    earlier = j
                    break
        assert earlier is not None
        other = self.segments[earlier]
        same = self.start[earlier] == self.start[i] and units(other) == units(s)
        return same and s.ip_id == other.ip_id != 0 and earlier < i and self._tells(s)

    def _tells(self, s: Segment) -> bool:
        """Return whether the sender gives different IP identifications to its packets."""
        return len({other.ip_id for other in self.segments if other.side == s.side}) > 1

    def _judge_acks(self, side: int) -> None:
        """Judge what acknowledges `side`: the counts belong to the direction that sends the ACKs."""
        counts = self.directions[1 - side].counts
        kept = [i for i in self.chunks[side] if i not in self.refused]
        seen = {u for i in kept for u in range(self.start[i], self.end(i))}
        sent = [i for i, s in enumerate(self.segments) if s.side == side]
        held = max(self.end(i) for i in kept) if kept else 0
        first = self.start[kept[0]] if kept else 0
        self._window_updates_and_duplicates(side, counts)
        highest = None
        acknowledged = first
        for i, s in enumerate(self.segments):
            if s.side == side or i not in self.ack or (highest is not None and self.ack[i] <= highest):
                continue
            value = self.ack[i]
            reach = self.reach_before(side, i)
            out = first if reach is None else reach
            if reach is not None:
                flight = self.directions[side]
                flight.max_flight = max(flight.max_flight, reach - acknowledged)
            low, high = max(first, first if highest is None else highest), min(value, held)
            unseen = bool(sent) and (value > held or high - low > sum(low <= u < high for u in seen))
            counts["acks_of_unseen"] += unseen
            counts["acks_before_data"] += bool(kept) and value > out and not unseen
            highest = acknowledged = value
        if kept:
            flight = self.directions[side]
            flight.max_flight = max(flight.max_flight, held - acknowledged)

    def _window_updates_and_duplicates(self, side: int, counts: Counter[str]) -> None:
        run: Counter[int] = Counter()
        before: Segment | None = None
        changes = set(self._ack_changes(side))
        epoch = 0
        for i, s in enumerate(self.segments):
            if s.side == side:
                continue
            epoch += i in changes
            repeats = before is not None and before.flags & ACK and s.ack == before.ack
            if before is not None and repeats and s.flags & ACK and plain(s) and s.payload == 0:
                twice = before.payload == 0 and s.ip_id == before.ip_id != 0 and self._tells(s)
                if s.window != before.window:
                    counts["window_updates"] += 1
                elif twice:
                    counts["capture_duplicates"] += 1
                elif self._is_duplicate(side, i):
                    counts["duplicate_acks"] += 1
                    run[epoch] += 1
                    counts["triple_duplicate_acks"] += run[epoch] == 3
            before = s

    def _is_duplicate(self, side: int, i: int) -> bool:
        reach, highest = self.reach_before(side, i), self.highest_ack(side, i)
        return reach is not None and self.ack[i] == highest and self.ack[i] < reach

    def _samples(self, side: int) -> None:
        """Take a round-trip time from each segment whose first covering ACK ends exactly at its end."""
        kept = [i for i in self.chunks[side] if i not in self.refused]
        for i in kept:
            if i in self.probes or not self._sent_once_when_new(i, kept):
                continue
            highest = self.highest_ack(side, i)
            if highest is not None and highest >= self.end(i):
                continue
            answer = next((j for j in self.ack if j > i and self._acknowledges(j, side, i)), None)
            if answer is None or self.ack[answer] != self.end(i):
                continue
            between = [j for j in kept if i < j < answer and "twice" not in self.kinds[j]]
            between = [j for j in between if j not in self.probes or not self._late(j, kept)]
            if any(self.start[j] < self.end(i) and self._late(j, kept) for j in between):
                continue
            self.directions[side].rtt.append(answer - i)

    def _acknowledges(self, j: int, side: int, i: int) -> bool:
        return self.segments[j].side != side and self.ack[j] >= self.end(i)

    def _late(self, i: int, kept: list[int]) -> bool:
        earlier = [self.end(j) for j in kept if j < i]
        return bool(earlier) and self.start[i] < max(earlier)

    def _sent_once_when_new(self, i: int, kept: list[int]) -> bool:
        own = set(range(self.start[i], self.end(i)))
        return not any(own & set(range(self.start[j], self.end(j))) for j in kept if j < i)
