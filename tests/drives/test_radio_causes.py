"""Modelled transfers beside radio logs: the fault is in the radio, beside it, or the radio has one at another time.

`python -m tests.drives.test_radio_causes FIRST COUNT` judges more of them. Our own TCP sends over a path that
stops or slows down once; the radio log is written to fit, or not to fit. Each parameter is drawn from its seed.
"""

from __future__ import annotations

import json
import sys
import tempfile
from dataclasses import dataclass, field, replace
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any

import pytest

from multitracer.diagnosis.diagnose import explain
from multitracer.lab.tcp.profile import MODERN
from multitracer.recording.read import read
from multitracer.units import NS_PER_MS, NS_PER_S
from tests.corpus.link import _BEGIN_NS, _LONGEST_NS, Drive, Transfer, capture_file

if TYPE_CHECKING:
    from collections.abc import Iterator

    from multitracer.lab.simulator.host import SimulatedHost

SEEDS = range(12)
"""Those in the suite: one of each kind."""
RADIO = ("hole", "weak", "interference", "handover", "load", "technology")
TRUTH = {"hole": "coverage", "weak": "coverage"}
OTHERS = ("beside-stop", "beside-slow", "elsewhere-stop", "elsewhere-slow", "late", "none")
KINDS = (*RADIO, *OTHERS)
AFTER_S = 13.0
"""A timer that doubled in the longest stop may expire so late."""
LIMITS = ("outage", "link", "recovery")


@dataclass
class FaultyTransfer(Transfer):
    """An upload over a path that loses all packets, or is slower, from one time to another."""

    fault_ns: tuple[int, int] = (0, 0)
    share: float = 0.0
    """Of the rate in that time; 0: nothing comes through."""
    whole: Drive | None = field(default=None, init=False)

    def transmit(self, host: SimulatedHost, data: bytes) -> bool:
        self.whole = self.whole or self.path
        is_in_it = self.fault_ns[0] <= self.now_ns < self.fault_ns[1]
        if is_in_it and not self.share:
            return True
        rate_bps = round(self.whole.rate_bps * (self.share if is_in_it and host.name == "mobile" else 1))
        self.path = replace(self.whole, rate_bps=rate_bps)
        return super().transmit(host, data)


@dataclass
class Case:
    """One session, and what is true of it."""

    seed: int
    kind: str
    begin_s: float
    end_s: float
    share: float
    words: str = ""

    @property
    def truth(self) -> str:
        return TRUTH.get(self.kind, self.kind) if self.kind in RADIO else "radio-normal"


@dataclass
class Verdict:
    """What the program says of a case: seconds by cause in the fault, and elsewhere."""

    case: Case
    within: dict[str | None, float]
    outside: dict[str | None, float]
    sentence: str

    @property
    def is_right(self) -> bool:
        known = {cause: seconds for cause, seconds in self.within.items() if cause is not None}
        if self.case.kind == "late":  # the radio is not normal, and not the cause
            return self.case.truth in known or not known
        return max(known, key=lambda each: known[each], default=None) == self.case.truth

    @property
    def false_s(self) -> float:
        """Seconds laid to a fault of the radio that was none."""
        own, fine = self.case.truth, (None, "radio-normal")
        near = sum(s for cause, s in self.within.items() if cause not in (*fine, own, *_also(self.case)))
        return near + sum(s for cause, s in self.outside.items() if cause not in (*fine, *_also(self.case)))


def _also(case: Case) -> tuple[str, ...]:
    return ("handover",) if case.kind == "technology" else ()


def made(seed: int, folder: Path) -> Case:
    """Write a session into a folder."""
    draw = Random(f"radio {seed}")
    kind = KINDS[seed % len(KINDS)]
    stops = kind in ("hole", "handover", "beside-stop", "elsewhere-stop", "late")
    lasts = {"hole": (3, 12), "handover": (1.5, 4), "technology": (15, 25)}.get(kind, (3, 10) if stops else (8, 20))
    begin_s = draw.uniform(18, 26)
    end_s = begin_s + draw.uniform(*lasts)
    share = 0.0 if stops else draw.uniform(0.05, 0.15) if kind == "technology" else draw.uniform(0.06, 0.25)
    if kind == "none":
        begin_s = end_s = 0.0
    rate_bps = round(10 ** draw.uniform(5.8, 6.5))
    road = Drive(
        rate_bps=rate_bps, delay_ns=round(draw.uniform(12, 80) * NS_PER_MS), queue_packets=draw.randrange(12, 36),
        loss=0, ack_loss=0, stalls=(), handshake_ns=0,
    )  # fmt: skip
    case = Case(seed, kind, begin_s, end_s, share)
    size = round(rate_bps / 8 * (begin_s + (end_s - begin_s) * share + draw.uniform(22, 32)))
    profile = replace(MODERN, congestion=draw.choice(["reno", "cubic"]))
    fault_ns = (round(begin_s * NS_PER_S), round(end_s * NS_PER_S))
    run = FaultyTransfer(road, profile, size, seed, fault_ns=fault_ns, share=share)
    run.run()
    for name in ("mobile", "fixed") if draw.random() < 0.6 else ("mobile",):
        (folder / name).mkdir(parents=True)
        capture_file(folder / name / "tcp-0.pcap", [run.captures[name]])
    first_ns = _BEGIN_NS + seed * _LONGEST_NS
    lines = list(_radio(case, draw, first_ns, run.now_ns / NS_PER_S))
    (folder / "mobile" / "radio.csv").write_text("\n".join(lines) + "\n")
    listed = [{"path": "mobile/radio.csv", "host": "mobile"}]
    manifest = {"schema": "multitracer.session/1", "hosts": {"mobile": {"role": "mobile"}}, "files": listed}
    (folder / "manifest.json").write_text(json.dumps(manifest))
    return case


def _radio(case: Case, draw: Random, first_ns: int, length_s: float) -> Iterator[str]:
    """Yield the lines of the log of a radio that fits the case."""
    step_s, noise_db = draw.choice([0.5, 1.0, 1.0, 2.0]), draw.uniform(0.3, 1.5)
    rsrp, sinr, rsrq = draw.uniform(-102, -76), draw.uniform(9, 22), draw.uniform(-10.0, -6.5)
    has_sinr, has_busy = draw.random() < 0.7, draw.random() < 0.4
    bad, begin_s, end_s = case.kind, case.begin_s, case.end_s
    if case.kind.startswith(("beside", "none")):
        bad = ""
    elif case.kind.startswith("elsewhere"):
        bad = draw.choice(["weak", "interference", "handover", "load"])
        begin_s = draw.choice([3.0, end_s + AFTER_S + 2])
        end_s = begin_s + (0.4 if bad == "handover" else draw.uniform(5, 9))
    elif case.kind == "late":
        bad, begin_s = draw.choice(["weak", "interference"]), begin_s + draw.uniform(4.5, 6)
        end_s = max(end_s, begin_s + 5)
    searches = draw.random() < 0.4
    case.words = f"{bad} {begin_s:.1f} to {end_s:.1f} s, each {step_s} s, SINR {has_sinr}, busy {has_busy}"
    yield "time_ns,source,role,rat,registration,rsrp_dbm,rsrq_db,sinr_db,cell_busy_pct,cell_id,physical_cell_id,channel"
    depth, worse = draw.uniform(-125, -114), draw.uniform(-6, -2)
    at_s = draw.uniform(-step_s, 0)
    while at_s < length_s + 2:
        is_bad = begin_s <= at_s < end_s and bad != ""
        kind = bad if is_bad else ""
        cell = 7 if bad == "handover" and at_s >= end_s - 0.3 * step_s else 5
        rat, cell = ("UMTS", 9) if kind == "technology" else ("LTE", cell)
        values = {"rsrp": rsrp, "sinr": sinr, "rsrq": rsrq}
        values |= {"rsrp": depth, "sinr": worse + 2} if kind in ("hole", "weak") else {}
        values |= {"sinr": worse, "rsrq": -17.5} if kind == "interference" else {}
        values |= {"rsrq": min(rsrq - 3, -10.5)} if kind == "load" else {}
        busy = 94.0 if kind == "load" else 25.0
        row = {name: f"{value + draw.gauss(0, noise_db):.1f}" for name, value in values.items()}
        out = kind == "hole" and searches
        numbers = ["", "", ""] if out else [row["rsrp"], row["rsrq"], row["sinr"] if has_sinr else ""]
        numbers += ["" if out or not has_busy else f"{busy + draw.gauss(0, 3):.0f}"]
        names = ["", "", ""] if out else [str(1000 + cell), str(100 + cell), "1300"]
        stamp = str(first_ns + round(at_s * NS_PER_S))
        yield ",".join([stamp, "csv", "serving", "" if out else rat, "2" if out else "1", *numbers, *names])
        at_s += step_s * draw.uniform(0.9, 1.1)


def judged(seed: int, folder: Path) -> Verdict:
    """Make a session, and return what the program says of it."""
    case = made(seed, folder)
    document = explain(read(str(folder))).document(intervals=True)
    within: dict[str | None, float] = {}
    outside: dict[str | None, float] = {}
    for each in document["intervals"]:
        if each["limit"] not in LIMITS:
            continue
        begin_s, end_s = each["begin_s"], each["end_s"]
        inside_s = max(min(end_s, case.end_s) - max(begin_s, case.begin_s), 0.0)
        near_s = max(min(end_s, case.end_s + AFTER_S) - max(begin_s, case.begin_s - 2), 0.0)
        if case.kind == "none":
            inside_s = near_s = end_s - begin_s
        within[each["cause"]] = within.get(each["cause"], 0.0) + inside_s
        rest_s = end_s - begin_s - (near_s if each["cause"] == case.truth else inside_s)
        outside[each["cause"]] = outside.get(each["cause"], 0.0) + max(rest_s, 0.0)
    within = {cause: round(s, 1) for cause, s in within.items() if s > 0}
    outside = {cause: round(s, 1) for cause, s in outside.items() if s > 0.05}
    return Verdict(case, within, outside, document["headline"]["sentence"])


@pytest.mark.slow
@pytest.mark.parametrize("seed", SEEDS)
def test_fault_of_a_modelled_transfer_has_its_cause_and_no_other(seed: int, tmp_path: Path) -> None:
    verdict = judged(seed, tmp_path / "session")
    assert verdict.is_right, verdict
    assert verdict.false_s < 1, verdict


def main() -> None:
    """Judge some sessions, and print those that are not right."""
    first, count = int(sys.argv[1]), int(sys.argv[2])
    table: dict[str, list[int]] = {kind: [0, 0, 0] for kind in KINDS}
    for seed in range(first, first + count):
        with tempfile.TemporaryDirectory() as place:
            verdict: Any = judged(seed, Path(place) / "session")
        row = table[verdict.case.kind]
        row[0] += 1
        row[1] += verdict.is_right
        row[2] += verdict.false_s >= 1
        if not verdict.is_right or verdict.false_s >= 1:
            print(verdict.case, "right" if verdict.is_right else "WRONG", verdict.within, verdict.outside)
            print("   ", verdict.sentence)
    for kind, (total, right, false) in table.items():
        print(f"{kind:15} {total:3} sessions, {right} right, {false} with a false cause")


if __name__ == "__main__":
    main()
