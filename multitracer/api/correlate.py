"""The function `mt.correlate`: which quantity predicts another, at which lag, with which confidence."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from multitracer.analysis.correlation import Settings
from multitracer.api.frames import explained
from multitracer.api.session import Session
from multitracer.api.session import open as open_session
from multitracer.errors import InputError
from multitracer.figures.correlation_matrix import correlation_figure
from multitracer.recording.correlated import correlate_sessions
from multitracer.schemas.findings import SESSIONS_NMI
from multitracer.words import printable

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pandas as pd
    import plotly.graph_objects as go

    from multitracer.analysis.statistics.entropy import Estimator, Normaliser
    from multitracer.analysis.statistics.surrogates import Baseline
    from multitracer.figures.palette import ThemeName
    from multitracer.recording.correlated import Correlated

    Source = Session | str | os.PathLike[str]


_MOST_REASONS = 3
"""Maximum number of pairs without a result that are listed with the reason."""


class Correlation:
    """The statistical dependence between quantities at each lag.

    Attributes
    ----------
    notes : list of str
        Sentences on the compared quantities, the method, and omitted data.
    """

    def __init__(self, result: Correlated) -> None:
        self._table = result.table
        self.notes = result.notes

    @property
    def table(self) -> pd.DataFrame:
        """A row for each pair and lag; `mt.columns("nmi")` lists the columns.

        Examples
        --------
        >>> drive = mt.open("sample_traces/rehearsed-drive")
        >>> signal = mt.correlate(drive, with_=["sinr_db"], lags=(-2, 2), permutations=99, difference=True)
        >>> signal.table["lag_s"].tolist()
        [-2.0, -1.0, 0.0, 1.0, 2.0]
        """
        frame = self._table.to_pandas()
        frame.attrs = {"table": "nmi", "columns": explained(SESSIONS_NMI, source="mt.correlate")}
        return frame

    @property
    def peaks(self) -> pd.DataFrame:
        """A row for each pair: its peak, or the reason why there is no result; the most significant first.

        Examples
        --------
        >>> drive = mt.open("sample_traces/rehearsed-drive")
        >>> signal = mt.correlate(drive, with_=["sinr_db", "ecio_db"], permutations=99, difference=True)
        >>> signal.peaks["reason"].tolist()
        ['', 'rehearsed-drive holds no value of radio.ecio_db']
        """
        frame = self.table
        rows = frame[frame["is_peak"] | frame["lag_s"].isna()]
        return rows.sort_values(["q_value", "p_corrected", "nmi"], ascending=[True, True, False], ignore_index=True)

    def figure(self, *, theme: ThemeName = "light") -> go.Figure:
        """Return the figure: a matrix of the peaks with their lags, and each pair's curve over the lags.

        Examples
        --------
        >>> drive = mt.open("sample_traces/rehearsed-drive")
        >>> figure = mt.correlate(drive, with_=["sinr_db"], permutations=99).figure()
        >>> figure.data[0].type
        'heatmap'
        """
        return correlation_figure(self._table, theme=theme)

    def __repr__(self) -> str:
        peaks = self._table.take(self._table["is_peak"])
        pairs = [f"{x} -> {y} at {lag:+g} s" for x, y, lag in zip(peaks["x"], peaks["y"], peaks["lag_s"], strict=True)]
        without = self._table.take(self._table["reason"] != "")
        reasons = dict.fromkeys(f"{r['x']} -> {r['y']}: {r['reason']}" for r in without.rows())
        shown = ", ".join([*pairs, *list(reasons)[:_MOST_REASONS]]) or "no result"
        return f"<multitracer.Correlation: {printable(shown)}>"


def correlate(  # noqa: PLR0913  # each is a choice that a result has to state
    sessions: Source | Sequence[Source],
    *,
    of: str | Sequence[str] = "throughput",
    with_: str | Sequence[str] = (),
    lags: tuple[float, float] = (-10.0, 10.0),
    step_s: float | None = None,
    given: str = "",
    difference: bool = False,
    estimator: Estimator = "equal-count",
    normaliser: Normaliser = "min",
    baseline: Baseline = "shift",
    permutations: int = 999,
    seed: int = 0,
    connection: int | None = None,
) -> Correlation:
    """Find which quantity predicts another, at which lag, and with which confidence (docs/correlate.md).

    Parameters
    ----------
    sessions : Session, path, or sequence of them
        Data of several sessions are pooled; lags and surrogates do not cross the border of a session.
    of, with_ : str or sequence of str
        Names of quantities: the label of a series, `table.column`, a column that only one table has, or
        "throughput". Default of `with_`: all series of radio and position.
    lags : (float, float)
        First and last lag in s; at a positive lag, `of` is later than `with_`.
    step_s : float, optional
        Width of the time bins in s; by default the reading interval of the slower quantity of a pair.
    given : str
        A third quantity; the column `conditional_nmi` is the dependence that remains if this quantity is
        known.
    difference : bool
        Whether to compare the changes from bin to bin instead of the values, for quantities that drift.
    estimator : "equal-count", "freedman-diaconis", "miller-madow", "ksg"
    normaliser : "min", "max", "mean", "sqrt", "joint"
    baseline : "shift", "block", "plain"
        Method for the surrogates; "plain" ignores autocorrelation and gives far too many significant results.
    permutations : int
        Number of surrogates, 19 or more.
    seed : int
        Random seed of the surrogates; the same seed gives the same result.
    connection : int, optional
        Number of the connection for TCP quantities, if there is one session; by default the connection with
        the most unique bytes.

    Returns
    -------
    Correlation

    Raises
    ------
    InputError
        If a name is unknown or ambiguous, an option is not valid, or a session cannot be read.

    Examples
    --------
    >>> drive = mt.open("sample_traces/rehearsed-drive")
    >>> found = mt.correlate(drive, of="throughput", with_=["sinr_db", "rsrp_dbm"])
    >>> found.notes[0]
    'throughput is TcpSnd_goodput'
    """
    opened = [_opened(each) for each in _several(sessions)]
    if not opened:
        raise InputError("correlate: no session was given; give one session or a list of sessions")
    if connection is not None and len(opened) > 1:
        raise InputError(
            'correlate: "connection" can be used with one session only; omit "connection", or give one session'
        )
    limits = (float(lags[0]), float(lags[1]))
    settings = Settings(limits, step_s, difference, estimator, normaliser, baseline, permutations, seed)
    quantities = [session._quantities(connection) for session in opened]
    result = correlate_sessions(quantities, _names(of, "of"), _names(with_, "with_"), given=given, settings=settings)
    return Correlation(result)


def _several(value: Source | Sequence[Source]) -> Sequence[Source]:
    """Return one session, or a sequence of sessions, as a sequence."""
    if isinstance(value, Session | str | os.PathLike):
        return [value]
    return value


def _opened(source: Source) -> Session:
    return source if isinstance(source, Session) else open_session(source)


def _names(value: str | Sequence[str], what: str) -> list[str]:
    names = [name.strip() for each in ([value] if isinstance(value, str) else value) for name in each.split(",")]
    if what == "of" and not any(names):
        raise InputError('correlate: "of" must name at least one quantity, for example "throughput"')
    return [name for name in names if name]
