"""Holds what the program says of a rehearsed drive against what was planted (`truth/drive.json`).

A handover is found if the table of handovers has its two cells; one with a long break also needs a stretch
with the cause `handover`. Each other one needs a stretch with its cause that lies over half of it at least. A
stretch or a handover that nothing planted explains is false. Begin and end of what was planted are held
against those of the cause; begin and end of the stretch against the silence that the phone's capture shows.
"""

from __future__ import annotations

import json
import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

import multitracer
from multitracer.recording.radio_context import RadioContext
from multitracer.recording.read import read

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    import pandas as pd

    from multitracer.analysis.mobility.route import Route
    from multitracer.tables import Times

Document = dict[str, Any]

CAUSE = {
    "handover": "handover", "hole": "coverage", "interference": "interference", "load": "load",
    "stall": "server",
}  # fmt: skip
SILENT = ("handover", "hole", "stall")
"""What lets no data through: its effect lasts as long as the silence at the phone."""
LONG_BREAK_S = 2.0
"""A break that is shorter makes no second bad that is wanted whole."""
AFTER_S = 12.0
"""A retransmission timer that doubled during the longest hole (11 s) may expire so late."""
_NEAR_END_S = 5.0
_NS = 1_000_000_000
_DEGREE_M = math.pi / 180 * 6_371_000.0


@dataclass
class Verdict:
    """What the program said of one event."""

    seed: int
    kind: str
    begin_s: float
    length_s: float
    found: bool
    cause: str
    """That of the stretch over it; empty without one."""
    begin_error_s: float
    """Of the cause against what was planted: later is positive. Of a handover, of the change of the cell; of
    a load of which the log does not tell, of the stretch. NaN without one."""
    end_error_s: float
    place_error_m: float
    """Of the places of begin and end on the route, the larger one, along the way."""
    effect_begin_error_s: float = math.nan
    """Of the stretch against the silence at the phone, or against what was planted where there is none."""
    effect_end_error_s: float = math.nan


@dataclass
class Drive:
    """All verdicts on one drive."""

    seed: int
    verdicts: list[Verdict] = field(default_factory=list)
    false: list[str] = field(default_factory=list)
    """Stretches and handovers that nothing explains."""
    unjudged: int = 0
    """Events that the end of the recording cut."""

    @property
    def is_right(self) -> bool:
        return all(verdict.found for verdict in self.verdicts) and not self.false


class Seen(NamedTuple):
    """What the program says of a drive, and what came to the phone."""

    stretches: pd.DataFrame
    handovers: pd.DataFrame
    route: Route | None
    arrivals_ns: Times


def judge(folder: Path) -> Drive:
    """Return what the program says of a drive, and whether that is right."""
    truth = json.loads((folder / "truth" / "drive.json").read_text())
    session = multitracer.open(folder)
    drive = Drive(truth["seed"])
    events = [each for each in truth["events"] if _is_complete(each, truth)]
    drive.unjudged = len(truth["events"]) - len(events)
    stretches, handovers = session.stretches, _placed(folder, session.handovers)
    seen = Seen(stretches, handovers, session._drive.route, _arrivals(session))
    for event in events:
        judged = _handover if event["kind"] == "handover" else _stretch
        drive.verdicts.append(judged(event, truth, seen))
    drive.false = list(_false(truth, stretches, handovers))
    return drive


def _placed(folder: Path, handovers: pd.DataFrame) -> pd.DataFrame:
    """Return handovers with their places on the route, as map and exports show them."""
    drive = RadioContext(read(folder)).drive
    assert drive is not None, "a drive has positions"
    places = drive[1].at(np.array(handovers["time_ns"].map(_ns), dtype=np.int64))
    return handovers.assign(lat_deg=places.lat_deg, lon_deg=places.lon_deg)


def _arrivals(session: multitracer.Session) -> Times:
    """Return when the phone's capture saw data."""
    captures = session._drive.radio_context.recording.captures
    segments = next(capture for capture in captures if capture.point.name == "mobile").tables.segments
    return np.sort(segments["time_ns"][segments["payload_bytes"] > 0])


def idle_gap(arrivals_ns: Times, begin_ns: int, end_ns: int) -> tuple[int, int]:
    """Return the longest time without data that lies over an interval."""
    first, last = arrivals_ns[:-1], arrivals_ns[1:]
    over = np.flatnonzero((first < end_ns) & (last > begin_ns))
    longest = over[int((last - first)[over].argmax())]
    return int(first[longest]), int(last[longest])


def _is_complete(event: Document, truth: Document) -> bool:
    return bool(event["end"]["time_ns"] + _NEAR_END_S * _NS < truth["ended_ns"])


def _stretch(event: Document, truth: Document, seen: Seen) -> Verdict:
    begin, end = event["begin"]["time_ns"], event["end"]["time_ns"]
    over = _over(seen.stretches, begin, end)
    right = over[(over["cause"] == CAUSE[event["kind"]]) & (over["overlap_s"] > (end - begin) / _NS / 2)]
    row = None if over.empty else (right if len(right) else over).iloc[0]
    return _verdict(event, truth, row, seen, found=len(right) == 1)


def _handover(event: Document, truth: Document, seen: Seen) -> Verdict:
    """Judge the change of the cell; its time is the end of the break, when the new cell serves."""
    cells = event["source_cell_id"], event["target_cell_id"]
    all_ = seen.handovers
    same = all_[(all_["source_cell_id"] == cells[0]) & (all_["target_cell_id"] == cells[1])]
    begin, end = event["begin"]["time_ns"], event["end"]["time_ns"]
    long = (end - begin) / _NS >= LONG_BREAK_S
    over = _over(seen.stretches, begin, end)
    row = over.iloc[0] if long and len(over) else None
    verdict = _verdict(event, truth, row, seen, found=len(same) == 1)
    verdict.found &= not long or verdict.cause == CAUSE["handover"]
    if len(same) == 1:
        verdict.begin_error_s = (_ns(same.iloc[0]["time_ns"]) - end) / _NS
        verdict.end_error_s = (_ns(same.iloc[0]["latest_ns"]) - end) / _NS
        planted = event["end"]["lat_deg"], event["end"]["lon_deg"]
        verdict.place_error_m = metres(planted, (same.iloc[0]["lat_deg"], same.iloc[0]["lon_deg"]))
    return verdict


def _verdict(event: Document, truth: Document, row: Any, seen: Seen, *, found: bool) -> Verdict:
    begin, end = event["begin"]["time_ns"], event["end"]["time_ns"]
    nan = math.nan
    verdict = Verdict(
        truth["seed"], event["kind"], (begin - truth["began_ns"]) / _NS, (end - begin) / _NS, found, "", nan, nan, nan
    )
    if row is None:
        return verdict
    effect = _ns(row["begin_ns"]), _ns(row["end_ns"])
    cause = tuple(
        _ns(time) if time == time else shown  # noqa: PLR0124 - NaT is not itself
        for time, shown in zip((row["cause_begin_ns"], row["cause_end_ns"]), effect, strict=True)
    )
    silent = idle_gap(seen.arrivals_ns, begin, end) if event["kind"] in SILENT else (begin, end)
    verdict.cause = str(row["cause"])
    verdict.begin_error_s, verdict.end_error_s = (cause[0] - begin) / _NS, (cause[1] - end) / _NS
    verdict.effect_begin_error_s = (effect[0] - silent[0]) / _NS
    verdict.effect_end_error_s = (effect[1] - silent[1]) / _NS
    verdict.place_error_m = _apart_m(event, seen.route, cause)
    return verdict


def _apart_m(event: Document, route: Route | None, times_ns: tuple[int, ...]) -> float:
    """Return how far the places of two times are from those of the begin and the end of an event."""
    assert route is not None, "a drive has positions"
    places = route.at(np.array(times_ns, dtype=np.int64))
    pairs = zip((event["begin"], event["end"]), places.lat_deg, places.lon_deg, strict=True)
    return max(metres((at["lat_deg"], at["lon_deg"]), (lat, lon)) for at, lat, lon in pairs)


def _over(stretches: pd.DataFrame, begin: int, end: int) -> pd.DataFrame:
    """Return the stretches over an interval, the longest overlap first."""
    first, last = stretches["begin_ns"].map(_ns), stretches["end_ns"].map(_ns)
    overlap = (last.clip(upper=end) - first.clip(lower=begin)) / _NS
    found = stretches.assign(overlap_s=overlap)
    return found[found["overlap_s"] > 0].sort_values("overlap_s", ascending=False)


def _false(truth: Document, stretches: pd.DataFrame, handovers: pd.DataFrame) -> Iterator[str]:
    spans = [(each["begin"]["time_ns"], each["end"]["time_ns"]) for each in truth["events"]]
    for _, row in stretches.iterrows():
        begin, end = _ns(row["begin_ns"]), _ns(row["end_ns"])
        if begin + _NEAR_END_S * _NS > truth["ended_ns"]:
            continue  # the traffic was being ended
        if not any(begin < last + AFTER_S * _NS and end > first - _NS for first, last in spans):
            at_s = (begin - truth["began_ns"]) / _NS
            yield f"{row['cause']} at {at_s:.1f} s for {row['seconds']:.0f} s: {row['evidence']}"
    planted = {(e["source_cell_id"], e["target_cell_id"]) for e in truth["events"] if e["kind"] == "handover"}
    for _, row in handovers.iterrows():
        if (row["source_cell_id"], row["target_cell_id"]) not in planted:
            at_s = (_ns(row["time_ns"]) - truth["began_ns"]) / _NS
            yield f"handover {row['source_cell_id']} to {row['target_cell_id']} at {at_s:.1f} s"


def place(truth: Document, time_ns: int) -> tuple[float, float]:
    """Return where the car was, between the places of the truth a second apart."""
    at_s = (time_ns - truth["began_ns"]) / _NS
    route = truth["route_from_begin_each_second"]
    row = min(max(int(at_s), 0), len(route) - 2)
    share = at_s - row
    lat, lon = (a + share * (b - a) for a, b in zip(route[row], route[row + 1], strict=True))
    return lat, lon


def metres(a: tuple[float, float], b: tuple[float, float]) -> float:
    """Return the distance of two places that are near each other."""
    north, east = (_DEGREE_M * (b[n] - a[n]) for n in (0, 1))
    return math.hypot(north, east * math.cos(math.radians(a[0])))


def _ns(time: Any) -> int:
    return int(getattr(time, "value", time))
