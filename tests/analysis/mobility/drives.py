"""Synthetic drives with planted faults, whose truth is known: parameters are drawn at random for each seed.

The model is not that of the analysis: levels come from distances to masts with shadowing, the quality from
signal, noise and interference in watts, the rate from capacity, share of the cell and fast fading. Readings
are late, rounded and sometimes missing; positions are noisy. A pause of the user is no fault.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from multitracer.analysis.mobility.cells import cell_visits_of
from multitracer.analysis.mobility.handovers import handovers_of
from multitracer.analysis.mobility.route import EARTH_M, route_of
from multitracer.analysis.mobility.seconds import DriveLimits, DriveSeries
from multitracer.analysis.mobility.series import Steps
from multitracer.schemas.radio import POSITION, RADIO
from multitracer.units import NS_PER_S
from tests.analysis.mobility.tables import at_ns, table_of

if TYPE_CHECKING:
    from multitracer.tables import Array, Row

NOISE_DBM = -124.0
"""Thermal noise of a subcarrier of 15 kHz with a receiver's 8 dB."""
CAUSES = ("coverage", "interference", "handover", "load", "server", "TCP")


@dataclass
class Fault:
    """A planted fault, in seconds of the drive."""

    cause: str
    begin_s: int
    end_s: int


@dataclass
class Truth:
    """A drive second by second, and what was planted."""

    random: np.random.Generator
    length_s: int
    faults: list[Fault] = field(default_factory=list)
    handovers_s: list[float] = field(default_factory=list)
    way_m: Array = field(default_factory=lambda: np.empty(0))
    serving: Array = field(default_factory=lambda: np.empty(0))
    rsrp: Array = field(default_factory=lambda: np.empty(0))
    sinr: Array = field(default_factory=lambda: np.empty(0))
    rate: Array = field(default_factory=lambda: np.empty(0))
    busy: Array = field(default_factory=lambda: np.empty(0))
    limit: list[tuple[str, str]] = field(default_factory=list)
    searching: Array = field(default_factory=lambda: np.empty(0))


def truth_of(seed: int, *, faults: bool) -> Truth:
    """Return a drive of 15 to 25 minutes; with faults, each kind once to three times."""
    random = np.random.default_rng(seed)
    truth = Truth(random, int(random.integers(900, 1500)))
    _drive(truth)
    _radio(truth)
    truth.busy = random.uniform(20, 60) + random.normal(0, 5, truth.length_s)
    truth.searching = np.zeros(truth.length_s, dtype=bool)
    truth.limit = [("link", "")] * truth.length_s
    _place_faults(truth, faults=faults)
    for fault in truth.faults:
        if fault.cause == "coverage":
            _coverage(truth, fault)
        if fault.cause == "interference":
            depth = random.uniform(-7, -2)
            truth.sinr[fault.begin_s : fault.end_s] = depth + random.normal(0, 0.8, fault.end_s - fault.begin_s)
    _rates(truth)
    return truth


def _drive(truth: Truth) -> None:
    random, n = truth.random, truth.length_s
    cruise = random.uniform(8, 33)
    speed = np.clip(cruise * (1 + 0.3 * np.cumsum(random.normal(0, 0.1, n)) / np.sqrt(np.arange(1, n + 1))), 3, 40)
    for stop in random.integers(60, n, size=random.integers(0, 5)):
        speed[stop : stop + int(random.integers(10, 60))] = 0.0  # a red light
    truth.way_m = np.cumsum(speed) - speed[0]


def _radio(truth: Truth) -> None:
    random, n = truth.random, truth.length_s
    spacing = random.uniform(900, 2500)
    aside = random.uniform(60, 250)
    power = random.uniform(-63, -57)
    masts = np.arange(-1, int(truth.way_m[-1] / spacing) + 3) * spacing + random.uniform(0, spacing)
    shadow = np.zeros((len(masts), n))
    rho = random.uniform(0.85, 0.97)
    for t in range(1, n):
        shadow[:, t] = rho * shadow[:, t - 1] + np.sqrt(1 - rho**2) * random.normal(0, 1.5, len(masts))
    apart = np.hypot(truth.way_m[None, :] - masts[:, None], aside)
    level = power - random.uniform(25, 31) * np.log10(apart / 100) + shadow
    serving = np.zeros(n, dtype=int)
    hysteresis = random.uniform(2, 4)
    serving[0] = int(level[:, 0].argmax())
    for t in range(1, n):
        best = int(level[:, t].argmax())
        serving[t] = best if level[best, t] > level[serving[t - 1], t] + hysteresis else serving[t - 1]
    truth.serving = serving
    truth.handovers_s = np.flatnonzero(np.diff(serving) != 0).astype(float).tolist()
    truth.rsrp = np.maximum(level[serving, np.arange(n)], -104.0)
    activity = random.uniform(0.01, 0.05)  # of the other cells
    others = (10 ** (level / 10)).sum(axis=0) - 10 ** (level[serving, np.arange(n)] / 10)
    disturbance = activity * others + 10 ** (NOISE_DBM / 10)
    truth.sinr = np.clip(truth.rsrp - 10 * np.log10(disturbance), 7.0, 28.0)


def _place_faults(truth: Truth, *, faults: bool) -> None:
    """Plant faults and the user's pauses, at least 25 s apart."""
    random, taken = truth.random, np.zeros(truth.length_s, dtype=bool)
    taken[:40] = taken[-60:] = True
    wanted = [cause for cause in CAUSES for _ in range(int(random.integers(1, 4)))] if faults else []
    for cause in [*random.permutation(wanted).tolist(), *["pause"] * int(random.integers(1, 6))]:
        length = int(random.integers(*_LENGTHS[cause]))
        places = np.flatnonzero(~taken[: -length - 30])
        if cause == "handover":
            places = np.intersect1d(places, np.array(truth.handovers_s, dtype=int) + 1)
        near = np.array(truth.handovers_s, dtype=int)
        for begin in random.permutation(places)[:200].tolist():
            end = begin + length
            clear = cause in {"handover", "coverage"} or not ((near > begin - 8) & (near < end + 8)).any()
            if clear and not taken[max(begin - 25, 0) : end + 25].any():
                taken[begin:end] = True
                truth.faults.append(Fault(cause, begin, end))
                break
    truth.faults.sort(key=lambda fault: fault.begin_s)


_LENGTHS = {
    "coverage": (8, 45), "interference": (8, 40), "handover": (3, 8), "load": (8, 60), "server": (4, 25),
    "TCP": (4, 20), "pause": (3, 20),
}  # fmt: skip


def _coverage(truth: Truth, fault: Fault) -> None:
    random, n = truth.random, fault.end_s - fault.begin_s
    deep = random.uniform(-125, -116)
    inside = slice(fault.begin_s, fault.end_s)
    truth.rsrp[inside] = deep + random.normal(0, 1.0, n)
    truth.sinr[inside] = np.minimum(truth.sinr[inside], truth.rsrp[inside] - NOISE_DBM + random.normal(0, 1, n))
    if random.random() < 0.3:
        truth.searching[fault.begin_s + 3 : fault.end_s] = True


def _rates(truth: Truth) -> None:
    random, n = truth.random, truth.length_s
    band = random.choice([1.4e6, 5e6, 10e6, 20e6, 100e6]) * random.uniform(0.4, 0.7)
    fading = np.exp(random.normal(0, random.uniform(0.1, 0.3), n))
    truth.rate = band * np.log2(1 + 10 ** (truth.sinr / 10)) * random.uniform(0.6, 1.0) * np.minimum(fading, 2.5)
    for fault in truth.faults:
        inside, length = slice(fault.begin_s, fault.end_s), fault.end_s - fault.begin_s
        repair = int(random.integers(0, 5))  # TCP's timer backs off, and slow start follows
        if fault.cause in {"coverage", "handover"}:
            truth.rate[inside] *= random.uniform(0.0, 0.04, length) if fault.cause == "coverage" else 0.0
            lost = ("outage", "both") if fault.cause == "handover" or random.random() < 0.5 else ("link", "")
            truth.limit[inside] = [lost] * length
            after = slice(fault.end_s, fault.end_s + repair)
            truth.rate[after] *= 0.05
            truth.limit[after] = [("recovery", "timer")] * repair
            fault.end_s += repair
        if fault.cause == "interference":
            truth.rate[inside] *= random.uniform(0.3, 0.6)
        if fault.cause == "load":
            truth.rate[inside] *= random.uniform(0.03, 0.12)
            truth.busy[inside] = random.uniform(85, 98)
        if fault.cause in {"server", "pause"}:
            truth.rate[inside] = 0.0
            part = random.choice(["think", "writes"]) if fault.cause == "server" else "peer"
            truth.limit[inside] = [("application", str(part))] * length
        if fault.cause == "TCP":
            truth.rate[inside] *= random.uniform(0.02, 0.12)
            limit = random.choice(["recovery", "receiver-window", "sender-buffer", "congestion-window"])
            truth.limit[inside] = [(str(limit), "")] * length
    truth.faults = [fault for fault in truth.faults if fault.cause != "pause"]


def drive_of(truth: Truth) -> DriveSeries:
    """Return what would be recorded of it."""
    random = truth.random
    late = random.uniform(0.0, 0.8)
    lossy = random.uniform(0.0, 0.1)
    with_busy = random.random() < 0.4
    level = "rsrq_db" if random.random() < 0.2 else "sinr_db"
    rows: list[Row] = []
    for t in range(truth.length_s):
        if random.random() < lossy:
            continue
        row: Row = {"at": t + late + random.uniform(0, 0.1), "role": "serving", "rat": "LTE", "registration": 1}
        if with_busy:
            row["cell_busy_pct"] = float(np.clip(truth.busy[t], 0, 100))
        if truth.searching[t]:
            rows.append(row | {"registration": 2})
            continue
        quality = truth.sinr[t] if level == "sinr_db" else rsrq_db(truth.sinr[t])
        row |= {"rsrp_dbm": round(truth.rsrp[t]), level: round(float(quality), 1)}
        rows.append(row | {"cell_id": 1000 + int(truth.serving[t]), "physical_cell_id": int(truth.serving[t]) % 504})
    radio = table_of(RADIO, rows)
    handovers = handovers_of(radio)
    time = np.array([at_ns(t) for t in range(truth.length_s)])
    names = np.array([name for name, _ in truth.limit])
    parts = np.array([part for _, part in truth.limit])
    limits = DriveLimits(time, time + NS_PER_S, names, parts, np.ones(len(time), dtype=bool))
    return DriveSeries(
        cell_visits_of(radio, handovers), handovers, route_of(table_of(POSITION, _positions(truth))),
        Steps(time, truth.rate, NS_PER_S), limits,
    )  # fmt: skip


def rsrq_db(sinr_db: float) -> float:
    """Return RSRQ of a cell that is half used: its own power, noise and interference share the band."""
    return float(-10 * np.log10(6 + 12 / 10 ** (sinr_db / 10)))


def _positions(truth: Truth) -> list[Row]:
    noise = truth.random.normal(0, 2.0, truth.length_s)
    speed = np.gradient(truth.way_m)
    degree = EARTH_M * np.pi / 180
    return [
        {"at": t, "lat_deg": 48 + (truth.way_m[t] + noise[t]) / degree, "lon_deg": 11.0, "speed_mps": speed[t]}
        for t in range(truth.length_s)
    ]
