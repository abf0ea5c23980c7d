"""Each number of a campaign's report equals the one that pandas computes from the campaign's tables."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
import pytest

import multitracer as mt
from multitracer.campaign.catalogue import Catalogue
from multitracer.campaign.report import places, questions
from multitracer.campaign.report.questions import Engine
from tests.campaign.synthetic import KINDS, make_catalogue

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from multitracer.tables import Row

SECONDS = 6_000
LENGTH_S = 150
CLOSE = 1e-9


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_catalogue(tmp_path_factory.mktemp("synthetic") / "drives", SECONDS, length_s=LENGTH_S)


@pytest.fixture(scope="module")
def engine(place: Path) -> Iterator[Engine]:
    with Engine(Catalogue(place)) as opened:
        yield opened


@pytest.fixture(scope="module")
def seconds(place: Path) -> pd.DataFrame:
    return judged(mt.open_campaign(place).frame("seconds"))


def judged(frame: pd.DataFrame) -> pd.DataFrame:
    """Return the seconds with `bad` (1, 0, NaN), `by_rate`, `lost_s` as docs/campaigns.md says."""
    rate, limit, part = frame["throughput_bps"], frame["limited_by"], frame["part"]
    by_limit = limit.notna() & ~((limit == "application") & part.isin(["own", "peer"]))
    wanted = frame["wanted"].where(frame["wanted"].notna(), by_limit).astype(bool)
    by_rate = wanted & rate.notna()
    typical = np.quantile(rate[by_rate], 0.75)
    out = (limit == "outage") | ((limit == "recovery") & (part == "timer"))
    level = (frame["rsrp_dbm"] + 110).fillna(frame["rscp_dbm"] + 105).fillna(frame["rssi_dbm"] + 100)
    disturbed = frame["sinr_db"].fillna(frame["rsrq_db"] + 15)
    usual = np.quantile(rate[~wanted & rate.notna()], 0.75)
    radio = ((level < 0) | (disturbed < 0)) & ~(rate >= max(usual / 2, 1e6))
    bad = pd.Series(np.nan, index=frame.index)
    bad[level.notna() | disturbed.notna()] = radio[level.notna() | disturbed.notna()].astype(float)
    bad[by_rate] = (rate < np.where(out, 0.5, 0.2) * typical)[by_rate].astype(float)
    lost = (1 - rate / typical).clip(lower=0).where(by_rate)
    return frame.assign(bad=bad, by_rate=by_rate, lost_s=lost, typical=typical)


def numbers(frame: pd.DataFrame) -> dict[str, object]:
    """Return what a group of seconds shows."""
    loss = frame["lost"].sum() / frame["sent"].sum() if frame["sent"].sum() else None
    return {
        "seconds": len(frame), "judged": int(frame["bad"].notna().sum()), "bad": int(frame["bad"].sum()),
        "sessions": frame["session"].nunique(), "throughput_bps": median(frame["throughput_bps"]),
        "rtt_ns": median(frame["rtt_ns"]), "loss": loss,
    }  # fmt: skip


def median(column: pd.Series) -> float | None:
    return None if column.isna().all() else float(column.median())


def same(row: Row, expected: dict[str, object]) -> bool:
    return all(
        row[name] is None if value is None else row[name] == pytest.approx(value, rel=CLOSE)
        for name, value in expected.items()
    )


def test_there_is_something_of_everything(seconds: pd.DataFrame) -> None:
    assert 0 < seconds["bad"].sum() < seconds["bad"].notna().sum() < len(seconds)
    assert 0 < seconds["by_rate"].sum() < seconds["bad"].notna().sum()
    assert 0 < seconds["lat_deg"].notna().sum() < len(seconds)


def test_how_good_it_is(engine: Engine, seconds: pd.DataFrame) -> None:
    answer = questions.quality(engine)
    assert engine.bounds.typical_bps == pytest.approx(seconds["typical"][0], rel=CLOSE)
    counts = (answer.seconds, answer.judged, answer.bad, answer.by_rate)
    expected = (seconds["bad"].notna(), seconds["bad"], seconds["by_rate"])
    assert counts == (SECONDS, *(int(each.sum()) for each in expected))
    assert (answer.sent, answer.lost) == tuple(int(seconds[name].sum()) for name in ("sent", "lost"))
    begins = seconds["time_ns"].dt.floor("s")
    assert answer.first == begins.min().value
    assert (answer.sessions, answer.failures, answer.speeds) == (SECONDS // LENGTH_S, 0, 0)
    for name in ("throughput_bps", "rtt_ns"):
        at = np.quantile(seconds[name].dropna(), np.arange(101) / 100)
        np.testing.assert_allclose(getattr(answer, name), at, rtol=CLOSE)


def test_main_reasons_are_the_limits_of_bad_seconds(engine: Engine, seconds: pd.DataFrame) -> None:
    bad = seconds[seconds["bad"] == 1]
    expected = bad["limited_by"].fillna("unknown").where(bad["by_rate"], "radio").value_counts().to_dict()
    assert dict(questions.reasons(engine)) == expected


def test_trend_is_by_days_of_utc(engine: Engine, seconds: pd.DataFrame) -> None:
    rows = questions.days(engine)
    days = seconds["time_ns"].dt.floor("D")
    for row, (_, frame) in zip(rows, seconds.groupby(days), strict=True):
        assert row["day"] * 86_400 == frame["time_ns"].min().floor("D").timestamp()
        expected = numbers(frame)
        del expected["loss"]
        assert same(row, expected)


def test_limits_are_ranked_by_their_time(engine: Engine, place: Path) -> None:
    transfers = mt.open_campaign(place).frame("transfers")
    ranked = questions.limits(engine)
    total = transfers["limits_total_s"].sum()
    assert [each.seconds for each in ranked] == sorted((each.seconds for each in ranked), reverse=True)
    for each in ranked:
        expected = transfers[f"{each.limit.label.replace('-', '_')}_s"].sum()
        longest = transfers[transfers["limited_by"] == each.limit.label]
        assert each.seconds == pytest.approx(expected, rel=CLOSE)
        assert each.share == pytest.approx(expected / total, rel=CLOSE)
        assert each.sessions == longest["session"].nunique()


def test_findings_are_ranked_by_their_cost(engine: Engine, place: Path) -> None:
    table = mt.open_campaign(place).frame("findings")
    rows = questions.findings(engine)
    assert {row["kind"] for row in rows} == set(KINDS)
    assert rows[-1]["kind"] == "handover", "a cost that is not known comes last"
    assert rows[-1]["cost_s"] is None
    for row in rows[:-1]:
        own = table[table["kind"] == row["kind"]]
        assert (row["rows"], row["sessions"]) == (len(own), own["session"].nunique())
        assert row["cost_s"] == pytest.approx(own["cost_s"].sum(), rel=CLOSE)
        assert row["worst"]["sentence"] == own.loc[own["cost_s"].idxmax(), "sentence"]


def test_cells(engine: Engine, seconds: pd.DataFrame) -> None:
    rows = questions.cells(engine)
    known = seconds.assign(level_dbm=seconds["rsrp_dbm"].fillna(seconds["rssi_dbm"]))
    keys = ["rat", "plmn", "cell_id", "channel"]
    cells = dict(iter(known.groupby(keys, dropna=False)))
    assert len(rows) == min(len(cells), questions.MOST_GROUPS)
    for row in rows:
        key = tuple(np.nan if row[name] is None else row[name] for name in keys)
        frame = next(each for own, each in cells.items() if str(own) == str(tuple(map(_plain, key))))
        assert same(row, {**numbers(frame), "level_dbm": median(frame["level_dbm"])})


def _plain(value: object) -> object:
    return float(value) if isinstance(value, int) and value > 10_000 else value


def test_hours(engine: Engine, seconds: pd.DataFrame) -> None:
    rows = questions.hours(engine)
    hours = dict(iter(seconds.groupby(seconds["time_ns"].dt.hour)))
    assert [row["name"] for row in rows] == sorted(hours)
    assert all(same(row, numbers(hours[row["name"]])) for row in rows)


def test_devices_and_labels(engine: Engine, seconds: pd.DataFrame, place: Path) -> None:
    sessions = mt.open_campaign(place).frame("sessions").set_index("session")
    operator = {key: dict(labels)["operator"] for key, labels in sessions["labels"].items()}
    columns = {
        "Technology": seconds["rat"],
        "Hosts": seconds["session"].map(sessions["hosts"]),
        "operator": seconds["session"].map(operator),
    }
    made = questions.devices(engine)
    assert [each.title for each in made] == list(columns), "the label `run` has a value in each session"
    for each in made:
        own = dict(iter(seconds.groupby(columns[each.title])))
        assert {row["name"] for row in each.rows} == set(own)
        assert all(same(row, numbers(own[row["name"]])) for row in each.rows)


def test_worst_stretches(engine: Engine, seconds: pd.DataFrame) -> None:
    rows = questions.stretches(engine)
    expected = []
    for session, own in seconds[seconds["bad"] == 1].sort_values("time_ns").groupby("session"):
        times = own["time_ns"].astype("datetime64[ns, UTC]").astype("int64")
        for _, run in own.groupby((times.diff() > 3e9).cumsum()):
            begin, end = times[run.index[0]], times[run.index[-1]] + 10**9
            if len(run) >= 2:
                lost = run["lost_s"].sum() if run["lost_s"].notna().any() else None
                expected.append((-(lost or 0), begin - end, session, begin, lost))
    expected = sorted(expected)[: questions.MOST_STRETCHES]
    assert len(expected) == questions.MOST_STRETCHES
    assert [(row["session"], row["begin_ns"], row["begin_ns"] - row["end_ns"]) for row in rows] == [
        (session, begin, length) for _, length, session, begin, _ in expected
    ]
    for row, (*_, lost) in zip(rows, expected, strict=True):
        times = seconds["time_ns"].astype("int64")
        own = seconds[(seconds["session"] == row["session"])]
        own = own[times[own.index].between(row["begin_ns"], row["end_ns"] - 1)]
        assert row["lost_s"] is None if lost is None else row["lost_s"] == pytest.approx(lost, rel=CLOSE)
        assert row["throughput_bps"] == pytest.approx(own["throughput_bps"].mean(), rel=CLOSE)
        bad = own[(own["bad"] == 1) & own["by_rate"]]
        assert (row["limited_by"] or None) in (set(bad["limited_by"].mode()) or {None})


# --- places ---


def test_points_lie_in_the_nearest_hexagon() -> None:
    random = np.random.default_rng(3)
    east, north = random.uniform(-2000, 2000, (2, 3000))
    q, r = places.axial(east, north, 300.0)
    grid = np.array([(a, b) for a in range(-20, 21) for b in range(-20, 21)])
    x, y = (grid[:, 0] + grid[:, 1] / 2) * 300, grid[:, 1] * 300 * np.sqrt(3) / 2
    nearest = np.argmin((east[:, None] - x) ** 2 + (north[:, None] - y) ** 2, axis=1)
    np.testing.assert_array_equal(np.column_stack([q, r]), grid[nearest])


@pytest.fixture(scope="module")
def drawn(engine: Engine) -> places.CampaignMap:
    made = places.places(engine)
    assert made is not None
    return made


def on_plane(seconds: pd.DataFrame, drawn: places.CampaignMap) -> tuple[pd.DataFrame, np.ndarray, np.ndarray]:
    own = seconds[seconds["lat_deg"].notna() & seconds["lon_deg"].notna()].reset_index(drop=True)
    lat = np.radians(own["lat_deg"].to_numpy())
    east = np.radians(own["lon_deg"].to_numpy() - drawn.plane.lon_deg) * np.cos(lat) * 6_371_008.8
    return own, east, lat * 6_371_008.8


def test_hexagons(drawn: places.CampaignMap, seconds: pd.DataFrame) -> None:
    own, east, north = on_plane(seconds, drawn)
    q, r = places.axial(east, north, drawn.width_m)
    expected = dict(iter(own.groupby([q, r])))
    rows = drawn.hexagons.to_pylist()
    assert {(row["q"], row["r"]) for row in rows} == set(expected)
    assert len(rows) <= places.MOST_HEXAGONS
    for row in rows[::4]:  # pandas takes 4 ms for the numbers of each
        frame = expected[row["q"], row["r"]]
        assert same(row, cell(frame))
        assert (row["limited_by"] or None) in (set(frame["limited_by"].mode()) or {None})


def test_squares_by_heading(drawn: places.CampaignMap, seconds: pd.DataFrame) -> None:
    own, east, north = on_plane(seconds, drawn)
    sector = (own["heading_deg"] / 45).round() % 8
    keys = [np.floor(east / 50).astype(int), np.floor(north / 50).astype(int), sector.fillna(-1).astype(int)]
    expected = dict(iter(own.groupby(keys)))
    rows = drawn.squares.to_pylist()
    assert drawn.all_squares == len(rows) == len(expected)
    assert {None, 0, 7} <= {row["sector"] for row in rows}
    for row in rows[::4]:
        key = (row["q"], row["r"], -1 if row["sector"] is None else row["sector"])
        assert same(row, cell(expected[key]))


def cell(frame: pd.DataFrame) -> dict[str, object]:
    """Return what a cell of the map shows: means, but the median of the round trips."""
    means = {
        name: None if frame[name].isna().all() else float(frame[name].mean())
        for name in ("throughput_bps", "rsrp_dbm", "rssi_dbm", "sinr_db", "rsrq_db", "rscp_dbm")
    }
    return numbers(frame) | means


def test_a_cell_leads_back_to_where_it_lies(drawn: places.CampaignMap, seconds: pd.DataFrame) -> None:
    first = places.worst(drawn, 1)[0]
    own, east, north = on_plane(seconds, drawn)
    q, r = places.axial(east, north, drawn.width_m)
    inside = own[(q == first["q"]) & (r == first["r"])]
    away_m = 111_195 * np.hypot(
        inside["lat_deg"] - first["lat_deg"], (inside["lon_deg"] - first["lon_deg"]) * np.cos(np.radians(50))
    )
    assert away_m.max() <= drawn.width_m / np.sqrt(3) * 1.001
