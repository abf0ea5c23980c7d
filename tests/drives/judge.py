"""Holds what the program says of a rehearsed drive against what was planted (`truth/drive.json`).

A handover is found if the table of handovers has its two cells; one with a long break also needs a stretch
with the cause `handover`. A hole and a stall need a stretch with their cause, `coverage` or `server`, that
lies over the half of them at least. A stretch or a handover that nothing planted explains is false.
"""

from __future__ import annotations

import json
import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

import multitracer
from multitracer.recording.open import open_recording
from multitracer.recording.surroundings import Surroundings

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    import pandas as pd

Document = dict[str, Any]

CAUSE = {"handover": "handover", "hole": "coverage", "stall": "server"}
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
    """Of the stretch, or of the change of the cell: later is positive. NaN without one."""
    end_error_s: float
    place_error_m: float
    """From the planted place of a handover; of a stretch, whose middle has no planted place, between the
    place that the program gives and where the car was then."""


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


def judge(folder: Path) -> Drive:
    """Return what the program says of a drive, and whether that is right."""
    truth = json.loads((folder / "truth" / "drive.json").read_text())
    session = multitracer.open(folder)
    drive = Drive(truth["seed"])
    events = [each for each in truth["events"] if _is_whole(each, truth)]
    drive.unjudged = len(truth["events"]) - len(events)
    stretches, handovers = session.stretches, _placed(folder, session.handovers)
    for event in events:
        judged = _handover if event["kind"] == "handover" else _stretch
        drive.verdicts.append(judged(event, truth, stretches, handovers))
    drive.false = list(_false(truth, stretches, handovers))
    return drive


def _placed(folder: Path, handovers: pd.DataFrame) -> pd.DataFrame:
    """Return handovers with their places on the route, as map and exports show them."""
    drive = Surroundings(open_recording(folder)).drive
    assert drive is not None, "a drive has positions"
    places = drive[1].at(np.array(handovers["time_ns"].map(_ns), dtype=np.int64))
    return handovers.assign(lat_deg=places.lat_deg, lon_deg=places.lon_deg)


def _is_whole(event: Document, truth: Document) -> bool:
    return bool(event["end"]["time_ns"] + _NEAR_END_S * _NS < truth["ended_ns"])


def _stretch(event: Document, truth: Document, stretches: pd.DataFrame, _: pd.DataFrame) -> Verdict:
    begin, end = event["begin"]["time_ns"], event["end"]["time_ns"]
    over = _over(stretches, begin, end)
    right = over[(over["cause"] == CAUSE[event["kind"]]) & (over["overlap_s"] > (end - begin) / _NS / 2)]
    row = None if over.empty else (right if len(right) else over).iloc[0]
    return _verdict(event, truth, row, found=len(right) == 1)


def _handover(event: Document, truth: Document, stretches: pd.DataFrame, handovers: pd.DataFrame) -> Verdict:
    """Judge the change of the cell; its time is the end of the break, when the new cell serves."""
    cells = event["source_cell_id"], event["target_cell_id"]
    same = handovers[(handovers["source_cell_id"] == cells[0]) & (handovers["target_cell_id"] == cells[1])]
    begin, end = event["begin"]["time_ns"], event["end"]["time_ns"]
    verdict = _verdict(event, truth, None, found=len(same) == 1)
    if (end - begin) / _NS >= LONG_BREAK_S:
        over = _over(stretches, begin, end)
        verdict.cause = "" if over.empty else str(over.iloc[0]["cause"])
        verdict.found &= verdict.cause == CAUSE["handover"]
    if len(same) == 1:
        verdict.begin_error_s = (_ns(same.iloc[0]["time_ns"]) - end) / _NS
        verdict.end_error_s = (_ns(same.iloc[0]["latest_ns"]) - end) / _NS
        planted = event["end"]["lat_deg"], event["end"]["lon_deg"]
        verdict.place_error_m = metres(planted, (same.iloc[0]["lat_deg"], same.iloc[0]["lon_deg"]))
    return verdict


def _verdict(event: Document, truth: Document, row: Any, *, found: bool) -> Verdict:
    begin, end = event["begin"]["time_ns"], event["end"]["time_ns"]
    nan = math.nan
    verdict = Verdict(
        truth["seed"],
        event["kind"],
        (begin - truth["began_ns"]) / _NS,
        (end - begin) / _NS,
        found,
        "",
        nan,
        nan,
        nan,
    )
    if row is None:
        return verdict
    first, last = _ns(row["begin_ns"]), _ns(row["end_ns"])
    verdict.cause = str(row["cause"])
    verdict.begin_error_s, verdict.end_error_s = (first - begin) / _NS, (last - end) / _NS
    verdict.place_error_m = metres(place(truth, (first + last) // 2), (row["lat_deg"], row["lon_deg"]))
    return verdict


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
