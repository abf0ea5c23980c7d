"""Clock jumps in a diagnostic log: times before and after a jump cannot be compared.

A modem counts from 1980 until it receives the time of a network. Then it may count GPS time, which is ahead
of UTC by the leap seconds since 1980 (18 s from 2017 on), until it receives these too.
"""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from multitracer.tables import NOT_A_TIME
from multitracer.units import NS_PER_S
from multitracer.words import moment

if TYPE_CHECKING:
    from multitracer.tables import Numbers, Times

_BACK_NS = 5 * NS_PER_S
"""Minimum backward step of a clock that was set, ns: a log contains messages of several tasks, and in our recordings
the packets of SCAT are up to 1 s out of order."""
_FORWARD_NS = 86_400 * NS_PER_S
"""Minimum forward step of a clock that was set, ns: a phone with a network logs a message every few hours."""
_FIRST_NETWORK_NS = 631_152_000 * NS_PER_S
"""1990-01-01, before GSM (1991): earlier times mean that the modem has not received the time yet."""
_SAME_NS = 3 * NS_PER_S // 2
"""Maximum difference of two jumps between the same two clocks; not measured."""
_MOST_SHOWN = 4


def stretches(time_ns: Times) -> Numbers:
    """Return the number of the clock by which each row's time was taken, from 0.

    It increases by 1 at each jump of the log's clock.

    Parameters
    ----------
    time_ns : ndarray of int64, ns since 1970, shape (n,)
        In the order of the log; NOT_A_TIME where missing, which is of the clock of the row before.

    Returns
    -------
    ndarray of int64, shape (n,)
    """
    known = np.flatnonzero(time_ns != NOT_A_TIME)
    number = np.zeros(len(time_ns), np.int64)
    if len(known) < 2:
        return number
    steps = np.diff(time_ns[known])
    jumps = (steps < -_BACK_NS) | (steps > _FORWARD_NS)
    jumps[_returns(steps)] = True
    number[known[1:][jumps]] = 1
    return np.cumsum(number)


def _returns(steps: Times) -> list[int]:
    """Return the indexes of the forward steps at which the log returns to an earlier clock.

    The tasks of a modem adopt a new clock one after the other, so a log can alternate between both
    clocks: between two jumps backwards by the same amount there is one forward.
    """
    back = np.flatnonzero(steps < -_BACK_NS)
    chosen = []
    for first, second in pairwise(back.tolist()):
        amount_ns = -int(steps[first])
        if abs(amount_ns + int(steps[second])) > _SAME_NS or second - first < 2:
            continue
        between = np.abs(steps[first + 1 : second] - amount_ns)
        if between.min() <= _SAME_NS:
            chosen.append(first + 1 + int(between.argmin()))
    return chosen


def without_network(time_ns: Times, clock: Numbers) -> Times:
    """Return the times; those that count from 1980 become NOT_A_TIME if other times of the log do not."""
    early = (time_ns != NOT_A_TIME) & (time_ns < _FIRST_NETWORK_NS)
    if not len(clock) or clock[-1] == 0 or early.all():
        return time_ns
    return np.where(early, NOT_A_TIME, time_ns)


def sentences(time_ns: Times, clock: Numbers) -> list[str]:
    """Return warnings about the clocks of the log; empty if there is only one clock, and it is right."""
    if not len(clock):
        return []
    count = int(clock[-1]) + 1
    early = int(np.count_nonzero((time_ns != NOT_A_TIME) & (time_ns < _FIRST_NETWORK_NS)))
    if count == 1:
        if not early:
            return []
        return [
            ("all times are relative (they count from 1980), because the modem had not yet received the network time")
        ]
    parts = []
    for number in range(min(count, _MOST_SHOWN)):
        of_it = time_ns[(clock == number) & (time_ns != NOT_A_TIME)]
        parts.append(f"{moment(int(of_it.min()))} to {moment(int(of_it.max()))}")
    more = f" and {count - _MOST_SHOWN} more" if count > _MOST_SHOWN else ""
    of_modem = (
        f"; {early:,} messages have no time, because the modem had not yet received the network time" if early else ""
    )
    jumps = "once" if count == 2 else f"{count - 1} times"
    sentence = (
        f"the times change {jumps} to another clock ({'; '.join(parts)}{more}); the column clock "
        "of the table signalling shows the clock of each message, and no handover is derived "
        f"across a change{of_modem}"
    )
    return [sentence]
