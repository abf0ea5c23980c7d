"""Finds values of a drive log that no radio measured: placeholders, constants, and left-over values.

A number alone proves nothing: -113 dBm may be a measurement. What counts is how often a value occurs, in
which cells, and what the same lines say otherwise (no quality, no cell, a level that contradicts it). Values
found become missing, each with its reason and number in a warning. What is merely equal remains.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from multitracer.tables import NA

if TYPE_CHECKING:
    from collections.abc import Iterator

    from multitracer.tables import Array, Mask, Numbers, Table

_LEVELS = ("rsrp_dbm", "rscp_dbm", "rssi_dbm")
_QUALITIES = ("rsrq_db", "ecio_db", "sinr_db")
_MIN_EQUAL = 20
"""Minimum number of equal values that make a constant. Not measured."""
_MIN_CELLS = 3
"""Minimum number of cells whose levels cannot all be equal by chance. Not measured."""
_MIN_SPAN_DB = 10.0
"""Minimum range of the level in which a constant SINR is none: signal to noise follows the signal."""
_SCALES = {
    "rsrp_dbm": (-140, -44), "rscp_dbm": (-120, -25), "rssi_dbm": (-113, -51), "rsrq_db": (-34, 0),
    "ecio_db": (-24, 0), "sinr_db": (-23, 40),
}  # fmt: skip
"""Ends of the scales of reports: TS 36.133, 9.1; TS 25.133, 9.1; TS 27.007, 8.5. A constant there is none."""
_MOSTLY = 0.9
"""Minimum share of rows that counts as nearly all. Not measured."""
_MIN_BARE = 5
"""Minimum number of equal levels in rows without a quality. Not measured."""
_APART_DB = 5.0
"""Minimum distance of a placeholder from each measured value: real values have neighbours. Not measured."""
_FAR_APART_DB = 10.0
"""The same, where the number of values alone proves little. Not measured."""
_MIN_EPISODES = _MIN_NAMELESS = 3
"""Minimum number of times that a lowest level returns, and of rows without a cell. Not measured."""
_MOST_SPREAD_DB = 6.0
"""Maximum standard deviation of RSSI less RSRP, which are related (TS 36.214, 5.1.3). Not measured."""


class _Group(NamedTuple):
    """The rows of one role and technology, in the order of time."""

    rows: Numbers
    name: str
    cells: Numbers
    """Number of the cell of each row; rows with equal numbers have the same cell."""
    named: Mask
    """Whether the log tells a cell in each row."""
    qualified: Mask
    """Whether the log tells a quality in each row."""


class _Found(NamedTuple):
    """A value that is no measurement."""

    column: str
    value: float
    rows: Numbers
    reason: str


def remove_placeholders(radio: Table) -> None:
    """Set values that no radio measured to missing, in place, and add a warning for each.

    Parameters
    ----------
    radio : Table
        RADIO of one log.
    """
    columns = radio.columns
    sentences: dict[tuple[str, str, str, float], int] = {}
    for rule in (_constants, _bare, _nameless, _episodes, _contradicted, _left_over):
        for group in _groups(columns):
            for each in rule(columns, group):
                columns[each.column] = columns[each.column].copy()
                columns[each.column][each.rows] = np.nan
                key = (each.column, each.reason, group.name, each.value)
                sentences[key] = sentences.get(key, 0) + len(each.rows)
    _note(radio, sentences)
    _drop_cell_zero(radio)


def _note(radio: Table, sentences: dict[tuple[str, str, str, float], int]) -> None:
    missing = radio.provenance.setdefault("missing", {})
    warnings = radio.provenance.setdefault("warnings", [])
    for (column, reason, name, value), times in sentences.items():
        missing[column] = missing.get(column, 0) + times
        unit = "dBm" if column in _LEVELS else "dB"
        shown = f"{value:g} {unit}" if np.isfinite(value) else "a value"
        many = f"{times:,} {'value' if times == 1 else 'values'}"
        warnings.append(f"{column}: {shown} {name}is not a measurement ({reason}): {many} set to missing")


def _groups(columns: dict[str, Array]) -> Iterator[_Group]:
    """Yield the rows of each role and technology."""
    by_identity = (columns["cell_id"] > 0).any()
    named = columns["cell_id"] > 0 if by_identity else columns["physical_cell_id"] >= 0
    identity = np.column_stack([columns[name] for name in ("cell_id", "physical_cell_id", "channel")])
    _, cells = np.unique(identity, axis=0, return_inverse=True)
    qualified = np.isfinite(columns["rsrq_db"]) | np.isfinite(columns["ecio_db"]) | (columns["rxqual"] >= 0)
    keys, number = np.unique(np.char.add(np.char.add(columns["role"], "|"), columns["rat"]), return_inverse=True)
    for each, key in enumerate(keys.tolist()):
        rows = np.flatnonzero(number.reshape(-1) == each)
        role, _, rat = key.partition("|")
        where = " ".join(filter(None, (rat, {"serving": ""}.get(role, role))))
        yield _Group(rows, f"in {where} rows " if where else "", cells.reshape(-1)[rows], named[rows], qualified[rows])


def _known(columns: dict[str, Array], column: str, group: _Group) -> tuple[Numbers, Array]:
    """Return which rows of a group have a value, as places in the group, and the values."""
    values = columns[column][group.rows]
    known = np.flatnonzero(np.isfinite(values))
    return known, values[known]


def _most_frequent(values: Array) -> tuple[float, int]:
    distinct, counts = np.unique(values, return_counts=True)
    most = int(counts.argmax())
    return float(distinct[most]), int(counts[most])


def _constants(columns: dict[str, Array], group: _Group) -> Iterator[_Found]:
    """Yield what is the same in (nearly) all rows although the cell, or the level, changes.

    Equal levels beside a quality may be measurements; they are not where they are the end of the scale.
    """
    has_quality = np.isfinite(columns["rsrq_db"]) | np.isfinite(columns["ecio_db"])
    for column in (*_LEVELS, *_QUALITIES):
        known, values = _known(columns, column, group)
        if len(known) < _MIN_EQUAL:
            continue
        value, times = _most_frequent(values)
        where = known[values == value]
        enough = _MOSTLY * len(known) if column in _LEVELS else len(known)
        if times < max(enough, _MIN_EQUAL):
            continue
        share = "all" if times == len(known) else f"{100 * (times / len(known)):.0f} %"
        cells, span_db = len(np.unique(group.cells[where])), _span(columns, group.rows[where])
        minimum, most = _SCALES[column]
        is_bare = column in _LEVELS and has_quality.any() and not group.qualified[where].any()
        if cells >= _MIN_CELLS and (is_bare or not minimum < value < most):
            reason = f"the same in {share} rows of {cells:,} cells"
            yield _Found(column, value, group.rows[where], reason)
        elif column == "sinr_db" and span_db >= _MIN_SPAN_DB:
            reason = f"the same in {share} rows, while the level changes by {span_db:.0f} dB"
            yield _Found(column, value, group.rows[where], reason)


def _span(columns: dict[str, Array], rows: Numbers) -> float:
    """Return the largest range of a level in some rows, without its highest and lowest 5 %; 0 if unknown."""
    known = [values[np.isfinite(values)] for column in _LEVELS for values in [columns[column][rows]]]
    spans = [np.quantile(values, 0.95) - np.quantile(values, 0.05) for values in known if len(values)]
    return float(max(spans, default=0.0))


def _bare(columns: dict[str, Array], group: _Group) -> Iterator[_Found]:
    """Yield the level that only rows without a quality have, often, and far from all other values."""
    if 2 * group.qualified.sum() < len(group.rows):
        return
    for column in _LEVELS:
        known, values = _known(columns, column, group)
        bare = ~group.qualified[known]
        if not bare.any():
            continue
        value, times = _most_frequent(values[bare])
        is_value = values == value
        if (
            times >= max(_MIN_BARE, bare.sum() / 2)
            and not (is_value & ~bare).any()
            and _distance(values[~is_value & ~bare], value) >= _APART_DB
        ):
            yield _Found(column, value, group.rows[known[is_value]], "only rows without a quality have it, all alike")


def _nameless(columns: dict[str, Array], group: _Group) -> Iterator[_Found]:
    """Yield a value that nearly all rows without a cell have: without a quality, or only those rows."""
    serving = columns["role"] != "neighbour"
    named = columns["cell_id"][serving] > 0
    if 2 * named.sum() < len(named) or not serving[group.rows[:1]].all():
        return
    for column in (*_LEVELS, *_QUALITIES):
        known, values = _known(columns, column, group)
        nameless = ~group.named[known]
        if nameless.sum() < _MIN_NAMELESS:
            continue
        value, times = _most_frequent(values[nameless])
        is_value = values == value
        is_own = is_value & nameless
        elsewhere = (is_value & ~nameless).any() and group.qualified[known[is_own]].any()
        if times >= max(_MIN_NAMELESS, _MOSTLY * nameless.sum()) and not elsewhere:
            yield _Found(column, value, group.rows[known[is_own]], "the same in rows without a cell")


def _episodes(columns: dict[str, Array], group: _Group) -> Iterator[_Found]:
    """Yield a lowest level that comes back again and again, with nothing near it, at a good quality."""
    quality = np.fmax(columns["rsrq_db"], columns["ecio_db"])[group.rows]
    for column in _LEVELS:
        known, values = _known(columns, column, group)
        if not len(known) or not np.isfinite(quality).any():
            continue
        value = float(values.min())
        is_value = values == value
        begins = int(is_value[0]) + int((is_value[1:] & ~is_value[:-1]).sum())
        ours = quality[known[is_value]]
        contradicts = np.isfinite(ours).any() and np.nanmedian(ours) >= np.nanmedian(quality) - 1
        is_far = _distance(values[~is_value], value) >= _FAR_APART_DB
        if begins >= _MIN_EPISODES and contradicts and is_far and 2 * is_value.sum() < len(values):
            reason = f"{begins} times, far from all other levels, at a quality as good as elsewhere"
            yield _Found(column, value, group.rows[known[is_value]], reason)


def _distance(others: Array, value: float) -> float:
    return float(np.abs(others - value).min()) if len(others) else 0.0


def _contradicted(columns: dict[str, Array], group: _Group) -> Iterator[_Found]:
    """Yield an RSRP that lies far from where the rows with a quality have it, relative to the RSSI."""
    rsrp, rssi = (columns[name][group.rows] for name in ("rsrp_dbm", "rssi_dbm"))
    above = rssi - rsrp
    with np.errstate(invalid="ignore"):  # the highest RSSI stands for that or more
        offsets = above[group.qualified & (rssi < _SCALES["rssi_dbm"][1]) & np.isfinite(above)]
    if len(offsets) < _MIN_EQUAL or offsets.std() > _MOST_SPREAD_DB:
        return
    with np.errstate(invalid="ignore"):
        is_far = (above < offsets.min() - _FAR_APART_DB) | (above > offsets.max() + _FAR_APART_DB)
    wrong = ~group.qualified & is_far
    for value in np.unique(rsrp[wrong]).tolist():
        rows = group.rows[wrong & (rsrp == value)]
        yield _Found("rsrp_dbm", value, rows, "the RSSI of the row excludes it, and there is no quality")


def _left_over(columns: dict[str, Array], group: _Group) -> Iterator[_Found]:
    """Yield the qualities of rows that have neither technology, cell nor level: those of a row before."""
    levels = np.isfinite(np.stack([columns[name] for name in _LEVELS])).any(axis=0)
    if 2 * levels.sum() < len(levels):
        return
    rows = group.rows[(columns["rat"][group.rows] == "") & ~group.named & ~levels[group.rows]]
    for column in _QUALITIES:
        if len(some := rows[np.isfinite(columns[column][rows])]):
            yield _Found(column, np.nan, some, "the row has neither technology, cell nor level")


def _drop_cell_zero(radio: Table) -> None:
    """Remove cell 0 where the row has no level, in place: nothing served."""
    columns = radio.columns
    levels = np.isfinite(np.stack([columns[name] for name in _LEVELS])).any(axis=0)
    nothing = (columns["cell_id"] == 0) & ~levels
    others = (columns["cell_id"] > 0) & levels
    if not nothing.any() or not others.any():
        return
    columns["cell_id"] = np.where(nothing, NA, columns["cell_id"])
    times = int(nothing.sum())
    missing = radio.provenance.setdefault("missing", {})
    missing["cell_id"] = missing.get("cell_id", 0) + times
    radio.provenance.setdefault("warnings", []).append(
        f"cell_id: 0 in {times:,} {'row' if times == 1 else 'rows'} without a level is not a cell: set to missing"
    )
