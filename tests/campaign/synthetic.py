"""A made-up catalogue of any size in the real schemas: drives through a town, with radio and limits.

`python -m tests.benchmarks.campaign` measures with ten million seconds, tests with some thousand.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from multitracer.campaign import schemas
from multitracer.campaign.committer import write_part
from multitracer.campaign.schemas import LIMIT_COLUMNS
from multitracer.campaign.store import Snapshot, Store, StoreGroup, write_snapshot
from multitracer.diagnosis.limits.names import Limit
from multitracer.tables import NA

if TYPE_CHECKING:
    from pathlib import Path

    import pyarrow as pa
    from numpy.typing import NDArray

    Reals = NDArray[np.float64]
    Counts = NDArray[np.int64]
    Columns = dict[str, object]

START_NS = 1_790_000_000 * 10**9
SESSIONS_IN_GROUP = 300
HOUR_S = 3600
KINDS = ("outage", "handover", "bufferbloat", "random-loss", "slow-start-limited", "exponential-back-off")
SAMPLED = tuple(Limit)[1:]
_STREETS = 40
_TOWN_M = 12_000
_METRES_IN_DEGREE = 111_195.0


def make_catalogue(place: Path, seconds: int, *, length_s: int = 1000, seed: int = 1) -> Path:
    """Write a campaign of so many seconds, in sessions of `length_s` each, and return its folder."""
    store = Store(place)
    store.make()
    town = np.random.default_rng(seed)
    streets = town.uniform(-_TOWN_M / 2, _TOWN_M / 2, (_STREETS, 4))
    groups: list[StoreGroup] = []
    numbers = np.arange(max(seconds // length_s, 1))
    for begin in range(0, len(numbers), SESSIONS_IN_GROUP):
        random = np.random.default_rng((seed, begin))
        tables = _tables(numbers[begin : begin + SESSIONS_IN_GROUP], length_s, streets, random)
        parts = {name: write_part(store, name, rows) for name, rows in tables.items() if len(rows)}
        groups.append(StoreGroup(len(groups) + 1, parts))
    write_snapshot(store, Snapshot(1, tuple(groups)))
    return place


def _tables(numbers: Counts, length_s: int, streets: Reals, random: np.random.Generator) -> dict[str, pa.Table]:
    names = np.array([f"{number:016x}" for number in numbers])
    begin = START_NS + numbers * HOUR_S // 4 * 10**9
    return {
        "sessions": _sessions(names, numbers, begin, length_s),
        "seconds": _seconds(names, begin, length_s, streets, random),
        "transfers": _transfers(names, begin, length_s, random),
        "findings": _findings(names, begin, random),
    }


def _sessions(names: NDArray[np.str_], numbers: Counts, begin: Counts, length_s: int) -> pa.Table:
    rows = [
        {
            "session": str(name), "name": f"drive {number}", "path": f"/drives/<b>{number}</b>",
            "hosts": "phone, server" if number % 3 else "tablet, server", "begin_ns": int(begin[at]),
            "end_ns": int(begin[at]) + length_s * 10**9, "speed": 1.0,
            "labels": [("operator", "AB"[number % 2]), ("run", str(number))],
        }
        for at, (name, number) in enumerate(zip(names.tolist(), numbers.tolist(), strict=True))
    ]  # fmt: skip
    return schemas.of_rows("sessions", rows)


def _seconds(
    names: NDArray[np.str_], begin: Counts, length_s: int, streets: Reals, random: np.random.Generator
) -> pa.Table:
    rows = len(names) * length_s
    session = np.repeat(np.arange(len(names)), length_s)
    at_s = np.tile(np.arange(length_s), len(names))
    street = streets[random.integers(0, len(streets), len(names))][session]
    heading = random.uniform(0, 360, len(names))[session]
    along = at_s * 10.0
    east = street[:, 0] + along * np.sin(np.radians(heading))
    north = street[:, 1] + along * np.cos(np.radians(heading))
    rsrp = -95 + 14 * np.sin(east / 900) * np.cos(north / 700) + random.normal(0, 3, rows)
    rate = 10 ** (6.2 + (rsrp + 95) / 20 + random.normal(0, 0.35, rows))
    sent = random.poisson(rate / 12_000)
    limit = np.array([each.label for each in SAMPLED])[random.integers(0, len(SAMPLED), rows)]
    part = np.where(limit == "application", np.array(["own", "peer", "writes"])[random.integers(0, 3, rows)], "")
    part = np.where((limit == "recovery") & (at_s % 2 == 0), "timer", part)
    rate = np.where(limit == "outage", rate / 50, rate)
    logged = session % 7 == 3  # such a session has no capture
    cell = (np.floor(east / 1500) * 100 + np.floor(north / 1500) + 100_000).astype(np.int64)
    return schemas.of_columns(
        "seconds",
        {
            "session": names[session],
            "time_ns": begin[session] + at_s * 10**9,
            "throughput_bps": _holed(rate, random, 0.02),
            "throughput_forward_bps": np.nan,
            "throughput_reverse_bps": np.nan,
            "cause": None,
            "rtt_ns": np.where(logged, np.nan, _holed(10 ** (7.6 + random.normal(0, 0.3, rows)), random, 0.1)),
            "rtt_samples": np.where(logged, NA, 5),
            "sent": np.where(logged, NA, sent),
            "lost": np.where(logged, NA, random.binomial(sent, 0.01)),
            "limited_by": np.where(logged, "", limit),
            "wanted": [
                bool(second % 50 >= 5) if tells else None
                for tells, second in zip((session % 14 == 3).tolist(), at_s.tolist(), strict=True)
            ],
            "part": np.where(logged, "", part),
            "rat": np.where(session % 5 == 0, "NR", "LTE"),
            "plmn": "00101",
            "cell_id": np.where(session % 11 == 5, NA, cell),
            "physical_cell_id": NA,
            "channel": 1850,
            "rsrp_dbm": _holed(rsrp, random, 0.3),
            "rsrq_db": np.nan,
            "sinr_db": _holed((rsrp + 105) / 2 + random.normal(0, 2, rows), random, 0.5),
            "rscp_dbm": np.nan,
            "rssi_dbm": _holed(rsrp + 20, random, 0.5),
            "lat_deg": np.where(session % 13 == 6, np.nan, 50.0 + north / _METRES_IN_DEGREE),
            "lon_deg": 14.4 + east / _METRES_IN_DEGREE / np.cos(np.radians(50.0)),
            "heading_deg": np.where(at_s % 50 < 3, np.nan, heading),
            "distance_m": along,
            "handover": at_s % 40 == 0,
        },
        rows,
    )


def _holed(values: Reals, random: np.random.Generator, share: float) -> Reals:
    return np.where(random.random(len(values)) < share, np.nan, values)


def _transfers(names: NDArray[np.str_], begin: Counts, length_s: int, random: np.random.Generator) -> pa.Table:
    seconds = random.dirichlet(np.full(len(LIMIT_COLUMNS), 0.4), len(names)) * length_s
    labels = np.array([each.label for each in LIMIT_COLUMNS])
    columns: Columns = {column.name: None for column in schemas.TABLES["transfers"]}
    columns |= {
        "session": names, "host": "phone", "connection": 1, "reverse": True, "begin_ns": begin,
        "end_ns": begin + length_s * 10**9, "unique_bytes": 10**6, "retransmitted_bytes": 0,
        "data_segments": 700, "rtt_count": 10,
        "limited_by": labels[seconds.argmax(axis=1)], "limits_total_s": seconds.sum(axis=1),
    }  # fmt: skip
    columns |= {name: seconds[:, at] for at, name in enumerate(LIMIT_COLUMNS.values())}
    return schemas.of_columns("transfers", columns, len(names))


def _findings(names: NDArray[np.str_], begin: Counts, random: np.random.Generator) -> pa.Table:
    session = np.repeat(np.arange(len(names)), 3)
    kind = np.array(KINDS)[random.integers(0, len(KINDS), len(session))]
    cost = np.where(kind == "handover", np.nan, random.exponential(5, len(session)))
    columns: Columns = {column.name: None for column in schemas.TABLES["findings"]}
    columns |= {
        "session": names[session], "connection": 1, "reverse": True, "kind": kind, "begin_ns": begin[session],
        "end_ns": begin[session] + 10**9, "cost_s": cost,
        "sentence": np.array([f"It cost <{each:.4f}> s." for each in cost]),
    }  # fmt: skip
    return schemas.of_columns("findings", columns, len(session))
