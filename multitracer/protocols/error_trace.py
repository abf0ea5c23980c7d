"""An error trace: the frames of a link that failed, as text, to replay the errors under any transport.

    # multitracer error-trace 1
    # slot_ns 20000000
    # slots 14250
    up 1034 3 down 2210 1

If the slots of the directions differ, as with CDPD's blocks, `slot_ns` and `slots` are those of `up`, and
`down_slot_ns` is that of `down`.

A line names a direction (`up`: sent by the mobile), the first failed slot, counted from 0 at the start of the
link, and the number of consecutive failed slots. Lines of one direction ascend and do not touch. Lines that
begin with `#` and name no key above are comments.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from multitracer.errors import FormatError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

Direction = Literal["up", "down"]
Runs = tuple[tuple[int, int], ...]
"""Pairs of first slot and number of slots, ascending."""

RADIO = "truth/radio.txt"
"""Path of the error trace in the session folder of a run over a modelled GSM link."""
_TITLE = "# multitracer error-trace 1"
_MOST_SLOTS = 1 << 40  # not measured: 697 years of slots of 20 ms


@dataclass(frozen=True, slots=True)
class ErrorTrace:
    """The failed slots of both directions of one link."""

    slot_ns: int
    """Duration of one frame in ns; of an `up` frame if the directions differ."""
    slots: int
    """Length of the recording in slots of `slot_ns`."""
    up: Runs
    down: Runs
    down_slot_ns: int = 0
    """Duration of one frame of `down` in ns; 0: the same as `up`."""

    @classmethod
    def from_slots(cls, *, slot_ns: int, slots: int, up: Iterable[int], down: Iterable[int]) -> ErrorTrace:
        """Return the trace in which exactly the given slots failed.

        The slots of each direction must ascend.
        """
        return cls(slot_ns=slot_ns, slots=slots, up=tuple(_runs(up)), down=tuple(_runs(down)))

    @property
    def lasts_ns(self) -> int:
        """Length of the recording in ns."""
        return self.slots * self.slot_ns

    def slot_ns_of(self, direction: Direction) -> int:
        """Return the duration of one frame of a direction in ns."""
        return (self.down_slot_ns if direction == "down" else 0) or self.slot_ns

    def slots_of(self, direction: Direction) -> int:
        """Return the length of the recording in slots of a direction; all its failed slots are below it."""
        runs = self.up if direction == "up" else self.down
        return max(-(-self.lasts_ns // self.slot_ns_of(direction)), sum(runs[-1]) if runs else 0)

    def text(self) -> str:
        """Return the trace in the format of this module."""
        lines = [_TITLE, f"# slot_ns {self.slot_ns}", f"# slots {self.slots}"]
        if self.down_slot_ns:
            lines.insert(2, f"# down_slot_ns {self.down_slot_ns}")
        for direction, runs in (("up", self.up), ("down", self.down)):
            lines += [f"{direction} {first} {count}" for first, count in runs]
        return "\n".join(lines) + "\n"


class LostRuns:
    """Collects the failed slots of one direction during a run."""

    def __init__(self) -> None:
        self._runs: list[tuple[int, int]] = []

    def add(self, first: int, count: int = 1) -> None:
        """Add failed slots, which must be at or after the last added slot."""
        if self._runs and first <= sum(self._runs[-1]):
            begin, known = self._runs.pop()
            first, count = begin, max(known, first + count - begin)
        self._runs.append((first, count))

    @property
    def runs(self) -> Runs:
        """Runs of consecutive failed slots, each as (first slot, count), ascending; two runs never touch."""
        return tuple(self._runs)


def _runs(slots: Iterable[int]) -> Iterator[tuple[int, int]]:
    first, count = 0, 0
    for slot in slots:
        if count and slot == first + count:
            count += 1
            continue
        if count:
            yield first, count
        first, count = slot, 1
    if count:
        yield first, count


def parse_error_trace(text: str, *, path: str) -> ErrorTrace:
    """Return the error trace in `text`.

    Parameters
    ----------
    text : str
        The complete file.
    path : str
        Name of the file, for messages.

    Raises
    ------
    FormatError
        If a line has another format, or slots do not ascend.
    """
    lines = text.splitlines()
    if not lines or lines[0].strip() != _TITLE:
        raise FormatError(path, f"not an error trace: the first line must be {_TITLE!r}", line=1)
    numbers = {"slot_ns": 0, "slots": 0, "down_slot_ns": 0}
    runs: dict[str, list[tuple[int, int]]] = {"up": [], "down": []}
    for at, line in enumerate(lines[1:], start=2):
        words = line.split()
        if words[:1] == ["#"]:
            if len(words) == 3 and words[1] in numbers:
                numbers[words[1]] = _number(words[2], path, at)
        elif words:
            _take_run(words, runs, path, at)
    if not (numbers["slot_ns"] and numbers["slots"]):
        raise FormatError(
            path, 'the header must contain both "slot_ns" and "slots"; at least one of these keys is missing'
        )
    return ErrorTrace(**numbers, up=tuple(runs["up"]), down=tuple(runs["down"]))


def _take_run(words: Sequence[str], runs: dict[str, list[tuple[int, int]]], path: str, at: int) -> None:
    if len(words) != 3 or words[0] not in runs:
        raise FormatError(
            path, "each line must have the form: up|down FIRST-SLOT SLOTS", line=at, excerpt=" ".join(words).encode()
        )
    run = _number(words[1], path, at), _number(words[2], path, at)
    known = runs[words[0]]
    if run[1] < 1 or (known and run[0] <= known[-1][0] + known[-1][1]):
        raise FormatError(
            path,
            f"the run at slot {run[0]} of the direction {words[0]} must begin after the "
            "previous run, and must not be empty",
            line=at,
        )
    known.append(run)


def _number(word: str, path: str, at: int) -> int:
    if not word.isascii() or not word.isdigit() or len(word) > 13 or int(word) > _MOST_SLOTS:
        raise FormatError(path, "the value must be a whole number", line=at, excerpt=word.encode())
    return int(word)
