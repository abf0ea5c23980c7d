"""What paper 003 says of its figures and tables, and whether our runs say so, too."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from statistics import median
from typing import TYPE_CHECKING

from docs.papers.programs.cross_layer_nmi import kept as kept_nmi
from docs.papers.programs.cross_layer_plan import (
    CONNECTIONS,
    ECIO_DB,
    HANDOFFS,
    MEAN,
    MEAN_RLP,
    OFTEN_S,
    PATIENT,
    SACK,
    SWEEPS,
    TIMESTAMPS,
    WINDOWS_KB,
)
from docs.papers.programs.cross_layer_seconds import RATE, RLP, RTT, THROUGHPUT

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    Runs = list[dict[str, str]]
    RunsOf = Callable[[str], dict[str, Runs]]
    Judgement = tuple[bool, str]

_LEVEL = 0.05
"""Medians that are apart by a twentieth or less are level (ours; the paper shows no intervals)."""
_CLEAR = 1.1
"""A tenth more is clearly faster (ours; the paper says "far" and "much", and gives curves, no numbers)."""
_BUFFER_KB = 35
"""From there on the paper's losses flatten: the buffer of the base station controller."""
_FAST_MPH = (45, 60, 75)
"""The speeds that the paper drove."""


@dataclass(frozen=True, slots=True)
class Shape:
    """One statement of the paper, and how ours is judged."""

    name: str
    paper: str
    judge: Callable[[RunsOf], Judgement]
    """Returns whether it comes back, and what ours shows."""


def middles(runs: dict[str, Runs], transport: str, values: Sequence[float], column: str) -> list[float]:
    """Return the median over the seeds at each value."""
    points = (runs[f"{transport} {value:g}"] for value in values)
    return [median(float(run[column]) for run in point if run[column]) for point in points]


def is_rising(values: Sequence[float]) -> bool:
    """Return whether the last value is above the first, and none below the one before, but for the level."""
    steps = pairwise(values)
    return values[-1] > values[0] * (1 + _LEVEL) and all(late >= early * (1 - _LEVEL) for early, late in steps)


def _shown(values: Sequence[float]) -> str:
    return ", ".join(f"{value:.0f}" for value in values)


_BELOW_KB = tuple(window for window in WINDOWS_KB if window < _BUFFER_KB)
_FROM_BUFFER_KB = WINDOWS_KB[len(_BELOW_KB) - 1 :]
"""The windows below the buffer, and those from the last of these on."""


def _rises_over(windows_kb: Sequence[float]) -> Callable[[RunsOf], Judgement]:
    def judge(runs_of: RunsOf) -> Judgement:
        rates = middles(runs_of("window"), SACK, windows_kb, "kbps")
        return is_rising(rates), f"{_shown(rates)} kb/s at {_shown(windows_kb)} KB"

    return judge


def _coupled_rises(runs_of: RunsOf) -> Judgement:
    windows_kb = SWEEPS["coupled"].values
    rates = middles(runs_of("coupled"), PATIENT, windows_kb, "kbps")
    return is_rising(rates), f"{_shown(rates)} kb/s at {_shown(windows_kb)} KB"


def _spurious_costs(runs_of: RunsOf) -> Judgement:
    widest, runs = SWEEPS["coupled"].values[-1:], runs_of("coupled")
    slow, fast = (middles(runs, each, widest, "kbps")[0] for each in (SACK, PATIENT))
    expired = middles(runs, SACK, widest, "spurious_timeouts")[0]
    return fast / slow >= _CLEAR, f"{slow:.0f} kb/s with {expired:.0f} of them, {fast:.0f} kb/s without"


def _handoffs(runs_of: RunsOf) -> Judgement:
    counts, rates = (middles(runs_of("highway"), HANDOFFS, _FAST_MPH, name) for name in ("handoffs", "kbps"))
    is_alike = max(rates) / min(rates) <= 1 + _LEVEL
    return min(counts) >= 2 and is_alike, f"{_shown(counts)} handoffs, {_shown(rates)} kb/s at {_shown(_FAST_MPH)} mph"


def _losses_rise(runs_of: RunsOf) -> Judgement:
    lost = _lost(runs_of, WINDOWS_KB)
    minimum, most = min(lost), max(lost)
    return lost[0] == minimum < most, f"{_shown(lost)} packets lost"


def _lost(runs_of: RunsOf, windows_kb: Sequence[float]) -> list[float]:
    columns = (middles(runs_of("window"), SACK, windows_kb, name) for name in ("dropped", "lost_on_radio"))
    return [sum(both) for both in zip(*columns, strict=True)]


def _losses_flatten(runs_of: RunsOf) -> Judgement:
    """Judge the curve behind the buffer: it varies by a quarter at most of what it rose before."""
    above = [window for window in WINDOWS_KB if window > _BUFFER_KB]
    lost, first = _lost(runs_of, above), _lost(runs_of, WINDOWS_KB[:1])[0]
    settled = lost[1:]
    is_flat = max(settled) - min(settled) <= (max(lost) - first) / 4
    return is_flat, f"{_shown(lost)} packets at {_shown(above)} KB"


def _radio_losses_only_below(runs_of: RunsOf) -> Judgement:
    below = [window for window in WINDOWS_KB if window < 25]
    dropped = middles(runs_of("window"), SACK, below, "dropped")
    return not any(dropped), f"{_shown(dropped)} packets dropped at {_shown(below)} KB"


def _control_is_faster(control: str) -> Callable[[RunsOf], Judgement]:
    def judge(runs_of: RunsOf) -> Judgement:
        ratios = _ratios(runs_of, control)
        return min(ratios) >= _CLEAR, f"{_percent(ratios)} of the scheduled link's rate"

    return judge


def _pauses_are_learnt(runs_of: RunsOf) -> Judgement:
    """Judge the smallest window, which leaves the channel idle after a timeout."""
    value, transports = (
        SWEEPS["pauses"].values[:1],
        [f"{tcp}, a pause every {OFTEN_S:g} s" for tcp in (SACK, TIMESTAMPS)],
    )
    runs = runs_of("pauses")
    without, with_ = (middles(runs, transport, value, "spurious_timeouts")[0] for transport in transports)
    slow, fast = (middles(runs, transport, value, "kbps")[0] for transport in transports)
    shown = f"{without:.0f} without, {with_:.0f} with them; {100 * fast / slow:.0f} % of the rate without"
    return with_ <= without / 2, shown


def _timestamps_help(runs_of: RunsOf) -> Judgement:
    ratios = _ratios(runs_of, TIMESTAMPS)
    return max(ratios) >= _CLEAR, f"{_percent(ratios)} of the rate without"


def _ratios(runs_of: RunsOf, transport: str) -> list[float]:
    runs = runs_of("window")
    curves = (middles(runs, each, WINDOWS_KB, "kbps") for each in (transport, SACK))
    return [one / other for one, other in zip(*curves, strict=True)]


def _percent(ratios: Sequence[float]) -> str:
    return f"{100 * min(ratios):.0f} to {100 * max(ratios):.0f} %"


def _share_falls(runs_of: RunsOf) -> Judgement:
    rates = middles(runs_of("load"), SACK, CONNECTIONS, "user_kbps")
    return is_rising(rates[::-1]), f"{_shown(rates)} kb/s for each of {_shown(CONNECTIONS)}"


def _gap_grows(runs_of: RunsOf) -> Judgement:
    gaps = middles(runs_of("load"), SACK, CONNECTIONS[1:], "gap_percent")
    return gaps == sorted(set(gaps)), f"{_shown(gaps)} % for {_shown(CONNECTIONS[1:])}; NA for 1"


def _speed_makes_none(runs_of: RunsOf) -> Judgement:
    rates = middles(runs_of("speed"), SACK, _FAST_MPH, "kbps")
    return max(rates) / min(rates) <= 1 + _LEVEL, f"{_shown(rates)} kb/s at {_shown(_FAST_MPH)} mph"


def _ecio_helps(runs_of: RunsOf) -> Judgement:
    rates = middles(runs_of("ecio"), SACK, ECIO_DB, "kbps")
    return is_rising(rates), f"{_shown(rates)} kb/s at {_shown(ECIO_DB)} dB"


def _rate_before_rlp(y: str) -> Callable[[RunsOf], Judgement]:
    def judge(_runs_of: RunsOf) -> Judgement:
        pairs = {(row["window_kb"], row["x"]): row for row in kept_nmi() if row["y"] == y}
        windows = [window for window, x in pairs if x == RATE]
        values = {x: [_value(pairs[window, x]) for window in windows] for x in (RATE, RLP)}
        is_first = all(rate > rlp for rate, rlp in zip(values[RATE], values[RLP], strict=True))
        shown = {x: ", ".join(f"{each:.2f}" for each in of) for x, of in values.items()}
        return is_first, f"{RATE} {shown[RATE]}; {RLP} {shown[RLP]}"

    return judge


def _value(row: dict[str, str]) -> float:
    return float(row["nmi"] or 0)


SHAPES = (
    Shape("window", "throughput rises with the window (figure 5, left): below the buffer", _rises_over(_BELOW_KB)),
    Shape("beyond", "... and above it", _rises_over(_FROM_BUFFER_KB)),
    Shape("coupled", "... with bursts of 256 frames, a deep buffer, and no spurious timeout", _coupled_rises),
    Shape("losses", "losses rise with the window (figure 5, right)", _losses_rise),
    Shape("flatten", "losses flatten above 35 KB", _losses_flatten),
    Shape("radio", "below the buffer all losses are the radio's", _radio_losses_only_below),
    Shape("control", "a simulation at the mean rate is far faster (figure 5, left)", _control_is_faster(MEAN)),
    Shape("coupling", "... because of the scheduler: with its frames and RLP, too", _control_is_faster(MEAN_RLP)),
    Shape("timestamps", "timestamps make it much faster", _timestamps_help),
    Shape("cost", "... because spurious timeouts cost much: bursts of 256 frames, a deep buffer", _spurious_costs),
    Shape("learnt", "... because they prevent spurious timeouts: at 8 KB over a rate that pauses", _pauses_are_learnt),
    Shape("share", "each user has less, the more there are (figure 6, left)", _share_falls),
    Shape("gap", "the fairness gap grows from 2 to 4 (figure 6, right)", _gap_grows),
    Shape("speed", "45, 60 and 75 mph make no difference (figure 7, left)", _speed_makes_none),
    Shape("handoffs", "... with at least two hard handoffs in a connection", _handoffs),
    Shape("ecio", "a better Ec/Io is faster (figure 7, right)", _ecio_helps),
    Shape("rtt", "RTT: the rate tells more than RLP (table 1)", _rate_before_rlp(RTT)),
    Shape("throughput", "throughput: the rate tells more than RLP (table 2)", _rate_before_rlp(THROUGHPUT)),
)
