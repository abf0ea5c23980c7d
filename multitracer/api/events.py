"""Functions for DataFrames with times: join the nearest rows, and cut windows around events."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from multitracer.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pandas.api.typing import NaTType

_TIME = "time_ns"
_DISTANCE = {"unit": "s", "meaning": "how much later the nearest row is", "source": "join_nearest"}
_OF_EVENT = {
    "event": {"unit": "", "meaning": "number of the event, from 0", "source": "epochs"},
    "since_event_s": {"unit": "s", "meaning": "time since the event", "source": "epochs"},
}


def join_nearest(
    left: pd.DataFrame,
    right: pd.DataFrame,
    *,
    within: str | float | pd.Timedelta = 1.0,
    on: str = _TIME,
    suffix: str = "_nearest",
) -> pd.DataFrame:
    """Add to each row of `left` the row of `right` that is nearest in time.

    Parameters
    ----------
    left, right : DataFrame
        DataFrames with a column of times.
        within : float, str or Timedelta
        Maximum distance in time (seconds, or a pandas duration). If `right` has no row within this distance,
        the cells are NA.
    on : str
        Name of the column of times in both DataFrames.
    suffix : str
        Suffix for columns of `right` whose name also exists in `left`.

    Returns
    -------
    DataFrame
        The rows of `left` in their order, with the columns of `right`, and `distance_s`: time of the row of
        `right` minus time of the row of `left`, in s; NA if no row is near enough.

    Raises
    ------
    InputError
        If one of the DataFrames has no column `on`.

    Examples
    --------
    >>> rtt = session.rtt()
    >>> state = session.tcp_state[["time_ns", "cwnd_bytes"]]
    >>> beside = mt.join_nearest(rtt, state, within="100ms")
    >>> bool(beside["distance_s"].abs().max() <= 0.1)
    True
    """
    at, there = _times(left, on), _times(right, on)
    known = pd.DataFrame({"at": at, "order": np.arange(len(left))}).dropna().sort_values("at")
    others = pd.DataFrame({"there": there, "row": np.arange(len(right))}).dropna().sort_values("there")
    near = pd.merge_asof(
        known, others, left_on="at", right_on="there", direction="nearest", tolerance=_duration(within)
    ).set_index("order")
    rows = near["row"].reindex(np.arange(len(left))).to_numpy()
    taken = right.reset_index(drop=True).reindex(rows).drop(columns=on)
    renamed = {name: f"{name}{suffix}" if name in left else name for name in taken.columns}
    nearest = taken.rename(columns=renamed).set_axis(range(len(left)))
    joined = pd.concat([left.reset_index(drop=True), nearest], axis=1)
    joined = joined.set_axis(left.index)  # only now: its labels may repeat
    joined["distance_s"] = pd.TimedeltaIndex(there.reindex(rows).array - at.array).total_seconds().to_numpy()
    theirs = {renamed[name]: facts for name, facts in _facts(right).items() if name in renamed}
    joined.attrs = {"columns": _facts(left) | theirs | {"distance_s": _DISTANCE}}
    return joined


def epochs(
    frame: pd.DataFrame,
    events: pd.DataFrame | pd.Series[pd.Timestamp] | Iterable[pd.Timestamp | NaTType],
    *,
    before: str | float | pd.Timedelta = 5.0,
    after: str | float | pd.Timedelta = 5.0,
    on: str = _TIME,
) -> pd.DataFrame:
    """Return the rows of a table in a time window around each event, so that the windows can be overlaid.

    Parameters
    ----------
    frame : DataFrame
        A DataFrame with a column of times.
        events : DataFrame, Series or iterable of Timestamp
        Times of the events; for a DataFrame, its column `on` or `begin_ns`.
    before, after : float, str or Timedelta
        Duration of the window before and after the event, in seconds or as a pandas duration; both ends are
        included.
    on : str
        Name of the column of times.

    Returns
    -------
    DataFrame
        The rows of `frame` with two more columns: `event`, the number of the event from 0, and
        `since_event_s`. A row in two windows appears twice; an event without rows in its window does not
        appear.

    Raises
    ------
    InputError
        If a DataFrame has no column of times.

    Examples
    --------
    >>> losses = session.verdicts().query("necessity == 'necessary'")
    >>> around = mt.epochs(session.rtt(), losses.head(3), before=1, after=2)
    >>> sorted(set(around["event"])) == [0, 1, 2]
    True
    """
    times, instants = _times(frame, on), _instants(events, on)
    order = times.dropna().sort_values(kind="stable")
    sorted_times = pd.DatetimeIndex(order)
    begins = sorted_times.searchsorted(instants - _duration(before), side="left")
    ends = sorted_times.searchsorted(instants + _duration(after), side="right")
    begins = np.where(instants.isna(), ends, begins)  # nothing is near an event without a time
    rows = np.concatenate([np.arange(b, e) for b, e in zip(begins, ends, strict=True)] or [np.arange(0)])
    rows = rows.astype(np.int64)
    number = np.repeat(np.arange(len(instants)), np.maximum(ends - begins, 0))
    cut = frame.iloc[order.index.to_numpy()[rows]].reset_index(drop=True)
    since = (sorted_times[rows] - instants[number]).total_seconds()
    joined: pd.DataFrame = cut.assign(event=number, since_event_s=since)
    joined.attrs = frame.attrs | {"columns": _facts(frame) | _OF_EVENT}
    return joined


def _duration(value: str | float | pd.Timedelta) -> pd.Timedelta:
    """Return a duration as a Timedelta; a number is in seconds."""
    try:
        duration = pd.Timedelta(value, unit="s") if isinstance(value, int | float) else pd.Timedelta(value)
    except (ValueError, TypeError) as error:
        raise InputError(f"{value!r} is not a duration; write a number of seconds, or for example '100ms'") from error
    if pd.isna(duration):
        raise InputError(f"{value!r} is not a duration; write a number of seconds, or for example '100ms'")
    if duration < pd.Timedelta(0):
        raise InputError(
            f"{value!r} is negative, but the length of a window must be at least 0; the "
            "window extends before and after the event"
        )
    return duration


def _facts(frame: pd.DataFrame) -> dict[str, dict[str, str]]:
    """Return unit, meaning and source of the columns; empty if the table is not from MultiTracer."""
    facts: dict[str, dict[str, str]] = frame.attrs.get("columns", {})
    return facts


def _times(frame: pd.DataFrame, name: str) -> pd.Series[pd.Timestamp]:
    """Return a column of times as nanoseconds UTC, with row numbers from 0 as the index."""
    return pd.Series(_nanoseconds(frame[_needed(frame, name)]))


def _nanoseconds(times: Iterable[pd.Timestamp | NaTType]) -> pd.DatetimeIndex:
    return pd.DatetimeIndex(pd.to_datetime(pd.Series(times, dtype="datetime64[ns, UTC]"), utc=True))


def _needed(frame: pd.DataFrame, name: str) -> str:
    if name not in frame:
        raise InputError(f"the table has no column {name!r}; the columns are {', '.join(map(str, frame.columns))}")
    return name


def _instants(
    events: pd.DataFrame | pd.Series[pd.Timestamp] | Iterable[pd.Timestamp | NaTType], on: str
) -> pd.DatetimeIndex:
    if isinstance(events, pd.DataFrame):
        events = events[on if on in events else _needed(events, "begin_ns")]
    if isinstance(events, str | pd.Timestamp):
        events = [pd.Timestamp(events)]
    return _nanoseconds(list(events))
