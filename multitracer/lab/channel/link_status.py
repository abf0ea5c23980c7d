"""When a link is up and down, as text: a link-status file, and the commands of ns-2 for a link that changes.

Paper 002 compares received power with a threshold, and feeds the times at which the link goes up and down into ns-2
as a file of commands. It prints neither of its files. These are ours:

    time_s,state
    0,up                      $ns rtmodel-at 5.033 down $n0 $n1
    5.033,down                $ns rtmodel-at 5.561 up $n0 $n1
    5.561,up                  $ns at 20 "finish"
    20,end

`rtmodel-at` is that of the ns-2 manual, chapter "Network Dynamics". A link is up at the start, unless a line with
time 0 says otherwise. No I/O.
"""

from __future__ import annotations

import re
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from multitracer.errors import FormatError
from multitracer.lab.channel.ray import NO_POWER_DBM, Channel, switches
from multitracer.lab.channel.ray_scene import MOST_STEPS
from multitracer.units import NS_PER_MS, NS_PER_S

if TYPE_CHECKING:
    from collections.abc import Iterator

STATUS_HEADER = "time_s,state"
"""First line of a link-status file."""
UP_DBM, DOWN_DBM = 0.0, NO_POWER_DBM
"""Received power that stands for a link that is up, and for one that is down."""
_STEPS_NS = (NS_PER_MS, NS_PER_MS // 10)
"""Steps of the channel of a link status: the first one of which all times are multiples, or else the last one."""
_MOST_S = 1e6
"""Maximum time: far above what `MOST_STEPS` allows."""
_COMMAND = re.compile(r"\$\w+\s+rtmodel-at\s+(\S+)\s+(up|down)\s+\$\S+(?:\s+\$\S+)?\s*;?\s*(?:#.*)?")
_FINISH = re.compile(r"\$\w+\s+at\s+(\S+)\s+[\"{]\s*finish\s*[\"}]\s*;?\s*(?:#.*)?")
_ANY_COMMAND = re.compile(r"^\s*\$\w+\s+rtmodel-at\s", re.MULTILINE)


class LinkStatus(NamedTuple):
    """The times at which a link goes up or down."""

    is_up: bool
    """Whether the link is up at the start."""
    changes_ns: tuple[int, ...]
    """Times of the changes since the start, ascending, above 0."""
    end_ns: int

    def states(self) -> Iterator[tuple[int, bool]]:
        """Yield the start and each change: time in ns, and whether the link is up from then on."""
        is_up = self.is_up
        yield 0, is_up
        for time_ns in self.changes_ns:
            is_up = not is_up
            yield time_ns, is_up

    def text(self) -> str:
        """Return the link-status file."""
        lines = (f"{_seconds(time_ns)},{_word(is_up)}\n" for time_ns, is_up in self.states())
        return f"{STATUS_HEADER}\n{''.join(lines)}{_seconds(self.end_ns)},end\n"

    def ns2_commands(self) -> str:
        """Return the commands for ns-2; a script that has $ns, $n0, $n1 and a procedure finish sources them."""
        lines = (f"$ns rtmodel-at {_seconds(time_ns)} {_word(is_up)} $n0 $n1\n" for time_ns, is_up in self.states())
        return f'{"".join(lines)}$ns at {_seconds(self.end_ns)} "finish"\n'

    def channel(self) -> Channel:
        """Return the received power that stands for this status: `UP_DBM` and `DOWN_DBM`, in even steps."""
        times_ns = (*self.changes_ns, self.end_ns)
        step_ns = next((each for each in _STEPS_NS if not any(time % each for time in times_ns)), _STEPS_NS[-1])
        power_dbm = np.full(max(1, round(self.end_ns / step_ns)), DOWN_DBM)
        edges = [*self.states(), (self.end_ns, False)]
        for (begin_ns, is_up), (end_ns, _) in pairwise(edges):
            power_dbm[round(begin_ns / step_ns) : round(end_ns / step_ns)] = UP_DBM if is_up else DOWN_DBM
        power_dbm.flags.writeable = False
        return Channel(step_ns, power_dbm)


def _seconds(time_ns: int) -> str:
    return f"{time_ns / NS_PER_S:.10g}"


def _word(is_up: bool) -> str:
    return "up" if is_up else "down"


def status_of(channel: Channel, threshold_dbm: float) -> LinkStatus:
    """Return when a link is up: while the power is at least the threshold in dBm."""
    is_up, steps = switches(channel.power_dbm, threshold_dbm)
    changes_ns = tuple(int(step) * channel.step_ns for step in steps)
    return LinkStatus(is_up, changes_ns, len(channel.power_dbm) * channel.step_ns)


def is_link_status(text: str) -> bool:
    """Return whether a text, or the start of a text, is a link-status file or has commands of ns-2."""
    return text.startswith(STATUS_HEADER) or _ANY_COMMAND.search(text) is not None


def parse_link_status(text: str, *, path: str) -> LinkStatus:
    """Return the link status in a link-status file, or in a file of commands for ns-2.

    Parameters
    ----------
    text : str
        The complete file. Of ns-2's commands, `rtmodel-at` and `at … "finish"` are used, and all other lines ignored.
    path : str
        Name of the file, for messages.

    Raises
    ------
    FormatError
        If a line is wrong, times decrease, the end is missing, or the file is too long.
    """
    lines = _status_lines(text, path) if text.startswith(STATUS_HEADER) else _ns2_lines(text, path)
    is_up = starts_up = True
    changes_ns: list[int] = []
    last_ns = 0
    for at, time_ns, state in lines:
        if time_ns < last_ns:
            raise FormatError(path, "time decreases; sort the lines", line=at)
        last_ns = time_ns
        if state == "end":
            return _checked(LinkStatus(starts_up, tuple(changes_ns), time_ns), path)
        if is_up != (state == "up"):
            is_up = not is_up
            if time_ns:
                changes_ns.append(time_ns)
            else:
                starts_up = is_up
    raise FormatError(path, _NO_END)


_NO_END = 'the end of the link is missing; add the last line "SECONDS,end", or for ns-2: $ns at SECONDS "finish"'


def _checked(status: LinkStatus, path: str) -> LinkStatus:
    most_ns = MOST_STEPS * _STEPS_NS[-1]
    if not 0 < status.end_ns <= most_ns:
        raise FormatError(path, f"a link status must last more than 0 and at most {most_ns // NS_PER_S} s")
    return status


def _status_lines(text: str, path: str) -> Iterator[tuple[int, int, str]]:
    """Yield number, time in ns and state of each line below the header."""
    for at, line in enumerate(text.splitlines()[1:], 2):
        time, _, state = line.strip().partition(",")
        if state not in {"up", "down", "end"}:
            reason = "each line must have a time in s and one of the states up, down and end"
            raise FormatError(path, reason, line=at, excerpt=line[:80].encode())
        yield at, _time_ns(time, path, at), state


def _ns2_lines(text: str, path: str) -> Iterator[tuple[int, int, str]]:
    """Yield number, time in ns and state of each command that makes the link up or down, or ends the run."""
    for at, line in enumerate(text.splitlines(), 1):
        finish, command = _FINISH.fullmatch(line.strip()), _COMMAND.fullmatch(line.strip())
        if finish is not None:
            yield at, _time_ns(finish[1], path, at), "end"
        elif command is not None:
            yield at, _time_ns(command[1], path, at), command[2]
        elif _ANY_COMMAND.match(line):
            reason = "rtmodel-at must have a time in s, up or down, and one or two nodes, as in: 5.1 down $n0 $n1"
            raise FormatError(path, reason, line=at, excerpt=line[:80].encode())


def _time_ns(word: str, path: str, at: int) -> int:
    try:
        time_s = float(word)
    except ValueError:
        time_s = -1.0
    if not 0 <= time_s <= _MOST_S:
        raise FormatError(path, f"a time must be a number of seconds from 0 to {_MOST_S:g}", line=at)
    return round(time_s * NS_PER_S)
