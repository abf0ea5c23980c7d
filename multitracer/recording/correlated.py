"""Correlation of named quantities over several sessions, with sentences that describe what was compared."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from multitracer.analysis.common_grid import SessionQuantity
from multitracer.analysis.correlation import Pair, Settings, Together, correlated
from multitracer.errors import InputError
from multitracer.recording.quantity_names import ALIASES
from multitracer.words import count, portable

if TYPE_CHECKING:
    from collections.abc import Sequence

    from multitracer.recording.quantities import Missing, Quantities
    from multitracer.tables import Table

_MOST_PAIRS = 400
"""Maximum number of pairs of quantities (20 by 20): more take hours."""
_LONGEST_REASON = 120
"""Maximum length of the reason of one session, in characters."""


class Correlated(NamedTuple):
    """The normalized mutual information of pairs of quantities."""

    table: Table
    """The table SESSIONS_NMI: one row per pair of quantities."""
    notes: list[str]
    """Sentences that describe what was compared and what was left out."""


class _Resolved(NamedTuple):
    """The quantity that a name denotes in each session."""

    name: str
    each: list[SessionQuantity | Missing]

    @property
    def reasons(self) -> str:
        """The reasons why no session has the quantity, as text."""
        return "; ".join(dict.fromkeys(one.reason for one in self.each if not isinstance(one, SessionQuantity)))


def correlate_sessions(
    sessions: Sequence[Quantities], of: Sequence[str], with_: Sequence[str], *, given: str = "", settings: Settings
) -> Correlated:
    """Return the mutual information between each quantity in `of` and each in `with_`, over all sessions.

    Parameters
    ----------
    sessions : sequence of Quantities
        At least one.
    of, with_ : sequence of str
        Names (`Quantities.named`); an empty `with_` stands for all series of the radio and the position.
    given : str
        A third quantity, for the conditional mutual information.
    settings : Settings

    Raises
    ------
    InputError
        If a name is unknown or ambiguous, or the options contradict each other.
    """
    chosen = list(dict.fromkeys(with_)) or list(dict.fromkeys(name for s in sessions for name in s.surrounding))
    if not chosen:
        name = sessions[0].recording.name
        raise InputError(
            f"{name}: this recording contains no radio or position series; name the quantities to compare with"
        )
    ys = [_resolved(sessions, name) for name in dict.fromkeys(of)]
    xs = [_resolved(sessions, name) for name in chosen]
    third = _resolved(sessions, given) if given else None
    if len(xs) * len(ys) > _MOST_PAIRS:
        raise InputError(
            f"the number of pairs of quantities must be at most {_MOST_PAIRS}, but is "
            f"{len(xs) * len(ys):,}; name fewer quantities"
        )
    pairs = [_pair(sessions, x, y, third) for y in ys for x in xs]
    table = correlated(pairs, settings)
    notes = [*_aliases(of, ys), *_compared((*ys, *xs, *([third] if third else [])))]
    return Correlated(table, [*notes, *_left_out(sessions, (*ys, *xs)), *table.provenance["left_out"]])


def _resolved(sessions: Sequence[Quantities], name: str) -> _Resolved:
    if name not in ALIASES:
        return _Resolved(name, [session.named(name) for session in sessions])
    resolved = [_Resolved(each, [session.named(each) for session in sessions]) for each in ALIASES[name]]
    return max(resolved, key=lambda one: sum(isinstance(q, SessionQuantity) for q in one.each))  # of equals the first


def _pair(sessions: Sequence[Quantities], x: _Resolved, y: _Resolved, given: _Resolved | None) -> Pair:
    """Return a pair of quantities (and `given`) with their samples in each session that has all of them."""
    together = []
    for number in range(len(sessions)):
        one, other = x.each[number], y.each[number]
        third = given.each[number] if given else None
        if isinstance(one, SessionQuantity) and isinstance(other, SessionQuantity):
            if given is None:
                together.append(Together(one, other))
            elif isinstance(third, SessionQuantity):
                together.append(Together(one, other, third))
    reason = ""
    if not together:
        parts = [each.reasons for each in (x, y, given) if each is not None]
        reason = "; ".join(dict.fromkeys(filter(None, parts))) or "no session holds both"
    return Pair(x.name, y.name, together, reason, given.name if given else "")


def _aliases(of: Sequence[str], ys: Sequence[_Resolved]) -> list[str]:
    return [f"{name} is {y.name}" for name, y in zip(dict.fromkeys(of), ys, strict=True) if name != y.name]


def _compared(quantities: Sequence[_Resolved]) -> list[str]:
    """Return one sentence for each quantity that describes it."""
    sentences = []
    for resolved in quantities:
        present = [each for each in resolved.each if isinstance(each, SessionQuantity)]
        if not present:
            continue
        first = present[0]
        unit = f"{first.unit}/s" if first.kind.is_rate else first.unit
        source = f", from {portable(first.source)}" if first.source and len(resolved.each) == 1 else ""
        sentences.append(f"{resolved.name}{f' ({unit})' if unit else ''}: {first.kind.words}{source}")
    return list(dict.fromkeys(sentences))


def _left_out(sessions: Sequence[Quantities], quantities: Sequence[_Resolved]) -> list[str]:
    """Return sentences that name the sessions without a quantity that other sessions have."""
    sentences = []
    for resolved in quantities:
        lacking = [
            f"{portable(session.recording.name)} ({each.reason[:_LONGEST_REASON]})"
            for session, each in zip(sessions, resolved.each, strict=True)
            if not isinstance(each, SessionQuantity)
        ]
        if lacking and len(lacking) < len(sessions):
            words = "; ".join(lacking[:3])
            sentences.append(f"{resolved.name}: {count(len(lacking), 'session')} left out: {words}")
    return sentences
