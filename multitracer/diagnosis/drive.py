"""A drive: its cells, its handovers, and the state of the connection in them.

Throughput is the captured TCP payload of each second, of all connections and both directions. It is taken at
the receiver if there is a capture, because a sender also sends during an outage. Without packets, throughput
is the rate that the phone's logger reports, in the direction with more bytes. Round trips, outages and limits
are those of the connection that the diagnosis explains.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from multitracer.analysis.mobility import around_handovers as windows
from multitracer.analysis.mobility.around_handovers import epochs
from multitracer.analysis.mobility.cells import cell_name, cells_of
from multitracer.analysis.mobility.seconds import DriveLimits, DriveSeries
from multitracer.analysis.mobility.series import Samples, Steps, payload_rate
from multitracer.analysis.mobility.stretches import stretches
from multitracer.clock.model.relation import PlacementStatus
from multitracer.diagnosis.diagnose import explain
from multitracer.diagnosis.limits.names import Limit
from multitracer.diagnosis.radio_cause import limits_of
from multitracer.errors import InputError
from multitracer.recording.phones import most_within, which_phone
from multitracer.recording.radio_context import RadioContext
from multitracer.recording.transfer import Transfer
from multitracer.schemas.mobility import AROUND, AROUND_LIMITS, STRETCHES
from multitracer.tables import NA, NOT_A_TIME, Table
from multitracer.units import NS_PER_MS, NS_PER_S
from multitracer.words import clock_time, count, duration, portable, rate

if TYPE_CHECKING:
    from collections.abc import Sequence

    from multitracer.analysis.mobility.route import Route
    from multitracer.diagnosis.diagnosis import Diagnosis
    from multitracer.recording.capture import Capture
    from multitracer.recording.phones import Phone
    from multitracer.recording.recording import Recording
    from multitracer.recording.window import Bounds
    from multitracer.tables import Document, Mask, Row, Times


_LOGGED_RATES = {"Radio_rate_down": "downlink", "Radio_rate_up": "uplink"}
"""Series of the logged rates, with the direction of each; of equal ones the first is used."""
_RUNS, _IDLE = {"downlink": "D", "uplink": "U"}, "I"
"""State that a test program (G-NetTrack) logs while it transfers data, by direction, and while it is idle."""
SEED = 1
"""Default seed for confidence intervals: the same recording gives the same figure."""


@dataclass(frozen=True)
class Drive:
    """A recording as a drive.

    Attributes
    ----------
    radio_context : RadioContext
        The radio and position data of the recording.
    diagnosis : Diagnosis or None
        Of the explained connection, on the clock of the radio context.
    shown_ns : pair of int or None
        Only segments of the route between these times are returned; they are rated within the complete drive.
    """

    radio_context: RadioContext
    diagnosis: Diagnosis | None = None
    shown_ns: Bounds = (None, None)

    @property
    def phones(self) -> list[Phone]:
        """The phones of the recording, the one with most readings first."""
        return self.radio_context.phones

    @cached_property
    def phone(self) -> Phone | None:
        """The phone whose radio is rated: the shown one with most readings; None without any."""
        if self.shown_ns == (None, None):
            return self.phones[0] if self.phones else None
        return next((complete for complete, _ in most_within(self.phones, self.shown_ns)), None)

    @cached_property
    def is_of_the_packets(self) -> bool:
        """Whether the radio was read during the capture; True without a capture."""
        span_ns = None if self.phone is None else self.phone.span_ns
        if self.throughput is None or not self.radio_context.recording.captures or span_ns is None:
            return True
        times = self.throughput.time_ns
        return bool(span_ns[0] <= times.max() and span_ns[1] >= times.min())

    @cached_property
    def part(self) -> Drive:
        """The drive, limited to the shown time: its cells, their changes, and its route."""
        return replace(self, radio_context=self.radio_context.shown(self.shown_ns))

    @property
    def route(self) -> Route | None:
        """The route of the drive; None without positions."""
        return None if self.radio_context.drive is None else self.radio_context.drive[1]

    @cached_property
    def throughput(self) -> Steps | None:
        """Throughput in bit/s; None if it was not recorded."""
        recording = self.radio_context.recording
        if recording.captures:
            return self._payload_rate(NS_PER_S)
        logged = self._logged_rate
        if logged is None:
            return None
        return Steps(logged["time_ns"], logged["value"], int(logged.provenance["gap_ns"]))

    @cached_property
    def _logged_rate(self) -> Table | None:
        """The rate that the phone's logger reports, in the direction with more bytes; None without one."""
        series = self.radio_context.series
        there = [series[label] for label in _LOGGED_RATES if label in series]
        return max(there, key=lambda each: float(np.nansum(each["value"])), default=None)

    @property
    def throughput_words(self) -> str:
        """A sentence about the source of the throughput; empty without one."""
        if self.throughput is None:
            return ""
        if self.radio_context.recording.captures:
            return "Throughput is the TCP payload that was captured, of all connections and both ways."
        way = _LOGGED_RATES[str(self._logged_rate.provenance["label"])] if self._logged_rate else ""
        return f"Throughput is what the logger of the phone saw of the {way}."

    @cached_property
    def rtt(self) -> Samples | None:
        """Round-trip times in ns of the explained connection; None without a diagnosis."""
        if self.diagnosis is None or self._capture is None:
            return None
        transfer = self.diagnosis.transfer
        samples = self._capture.analysis.rtt_samples(transfer.at_sender.connection)
        return Samples(samples["time_ns"], samples["rtt_ns"].astype(np.float64))

    @cached_property
    def outages(self) -> tuple[Times, Times] | None:
        """Start and end times of the outages; None without a diagnosis.

        Both are int64, ns, shape (n,).
        """
        if self.diagnosis is None:
            return None
        cells = self.diagnosis.limited.cells.joined()
        rows = np.flatnonzero(cells.limit == Limit.OUTAGE.value)
        return cells.begin[rows], cells.end[rows]

    def cells(self, phone: Phone) -> Table:
        """Return CELLS of a phone, the cell with the longest service time first."""
        return cells_of(
            phone.cell_visits, route=self.route, throughput=self.throughput, rtt=self.rtt, outages=self.outages
        )

    @cached_property
    def limits(self) -> DriveLimits | None:
        """What limited the connections of the explained group; None without a diagnosis."""
        if self.diagnosis is None:
            return None
        return limits_of(self.diagnosis.group.members)

    @property
    def _sends_ns(self) -> Times | None:
        """When the servers sent new data, as captured: int64, ns, ascending; None without a diagnosis."""
        if self.diagnosis is None:
            return None
        times = [
            seen.sends.time_ns[~seen.sends.again] + (each.begin_ns - each.limited.begin_ns)
            for each in self.diagnosis.group.members
            if each.limited.transfer.reverse and (seen := each.limited.seen) is not None
        ]
        return np.sort(np.concatenate(times)) if times else None

    @cached_property
    def around(self) -> tuple[Table, Table]:
        """AROUND and AROUND_LIMITS: the events in windows around each handover of the first phone."""
        if not self.phones:
            return Table.empty(AROUND), Table.empty(AROUND_LIMITS)
        limits = self.limits
        held = None if limits is None else windows.LimitIntervals(limits.begin_ns, limits.end_ns, limits.limit)
        traffic = windows.DriveTraffic(self.fine_throughput, self.rtt, self.segments, held)
        return windows.around(self.phones[0].handovers, traffic)

    def epochs(self, of: str, *, seed: int = SEED) -> Table:
        """Return EPOCHS of a quantity over all handovers of the first phone.

        Parameters
        ----------
        of : str
            "throughput" (bit/s), "rtt" (ns), or the label of a radio or position series.

        seed : int
            Seed for the confidence interval of the mean, a bootstrap over handovers.

        Raises
        ------
        InputError
            If the recording has no phone, or no values of that quantity.
        """
        name = self.radio_context.recording.name
        if not self.phones:
            raise InputError(
                f"{name}: this recording contains no radio log of a phone, which is needed to find handovers"
            )
        series = self._quantity(of)
        if series is None:
            measured = [each for each in ("throughput", "rtt") if self._quantity(each) is not None]
            there = ", ".join((*measured, *self.radio_context.series)) or "no other quantity"
            raise InputError(f"{name}: this recording contains no quantity {of!r}; the quantities are {there}")
        return epochs(self.phones[0].handovers, series, seed=seed)

    def _quantity(self, of: str) -> Steps | Samples | None:
        if of in ("throughput", "rtt"):
            return self.fine_throughput if of == "throughput" else self.rtt
        table = self.radio_context.series.get(of)
        return None if table is None else Samples(table["time_ns"], table["value"])

    @cached_property
    def fine_throughput(self) -> Steps | None:
        """Throughput in bit/s for each 100 ms, else at the interval of the phone's logger; or None."""
        recording = self.radio_context.recording
        if not recording.captures:
            return self.throughput
        return self._payload_rate(_FINE_NS)

    def throughput_of(self, *, reverse: bool) -> Steps | None:
        """Return the part of `throughput` from initiators, or from responders (`reverse`); None without a capture."""
        recording = self.radio_context.recording
        return self._payload_rate(NS_PER_S, reverse=reverse) if recording.captures else None

    def _payload_rate(self, step_ns: int, *, reverse: bool | None = None) -> Steps | None:
        """Return the rate of payload, bit/s, in intervals of `step_ns`; None without a capture.

        It is measured at the receiver if the clock of its capture is related to the sender's, else at the sender.
        """
        capture = self.radio_context.recording.captures[0] if self._capture is None else self._capture
        segments = capture.tables.segments
        time_ns = segments["time_ns"]
        if (arrived := self._arrived) is not None:
            segments, time_ns = arrived
        of = None if reverse is None else self._is_reverse(capture) == reverse
        return payload_rate(time_ns, segments["payload_bytes"], step_ns=step_ns, of=of, is_utc=True)

    def _is_reverse(self, capture: Capture) -> Mask:
        """Return for each segment that `_payload_rate` counts whether a responder sent it.

        A capture without the handshake may take the responder of the explained connection for its initiator.
        """
        place = None if self.diagnosis is None or self._arrived is None else self.diagnosis.transfer.at_receiver
        direction = (capture if place is None else place.capture).analysis.partition.direction
        is_reverse = (direction & 1) == 1
        if place is not None and place.is_turned:
            is_reverse ^= (direction >> 1) == place.connection - 1
        return np.asarray(is_reverse)

    @cached_property
    def _arrived(self) -> tuple[Table, Times] | None:
        """The segments of the receiver's capture, and their times by the clock of the sender's capture.

        It is None without a capture at the receiver whose clock is related.
        """
        clocks, place = self.radio_context.recording.clocks, None
        if self.diagnosis is not None:
            place = self.diagnosis.transfer.at_receiver
        if clocks is None or place is None or self._capture is None or place.capture is self._capture:
            return None
        segments = place.capture.tables.segments
        source, target = (clocks.of_point(capture.point.name) for capture in (place.capture, self._capture))
        if source == target:
            return segments, segments["time_ns"]
        placed = clocks.place(segments["time_ns"], source, target)
        known = placed.status != PlacementStatus.UNPLACED
        return (segments, np.where(known, placed.time_ns, NOT_A_TIME)) if known.all() else None

    @cached_property
    def segments(self) -> windows.SentSegments | None:
        """The data segments of the explained connection with their losses; None if losses are unknown."""
        seen = None if self.diagnosis is None else self.diagnosis.limited.seen
        if seen is None:
            return None
        known = seen.sends.lost != NA
        if not known.any():
            return None
        return windows.SentSegments(seen.sends.time_ns[known], seen.sends.lost[known] == 1)

    @cached_property
    def stretches(self) -> Table:
        """STRETCHES: the bad segments of the route with their reasons; the largest lost time first."""
        phone = self.phone
        if phone is None:
            return Table.empty(STRETCHES)
        fine = self.fine_throughput if self.radio_context.recording.captures else None
        if not self.is_of_the_packets:  # its readings say nothing of a transfer at another time
            phone = phone.within((0, 0))
        drive = DriveSeries(
            phone.cell_visits, phone.handovers, self.route, self.throughput, self.limits, self._sends_ns,
            fine, self.wanted(phone),
        )  # fmt: skip
        return stretches(drive, shown_ns=self.shown_ns)

    @cached_property
    def cell_names(self) -> list[str]:
        """The names of the cells of the rated phone, by row in CELLS."""
        return [] if self.phone is None else [cell_name(row) for row in self.cells(self.phone).rows()]

    def wanted(self, phone: Phone) -> Steps | None:
        """Return when a test program transferred data, by the state in its log; None without such a log."""
        if self.radio_context.recording.captures or self._logged_rate is None:
            return None
        runs = _RUNS[_LOGGED_RATES[str(self._logged_rate.provenance["label"])]]
        states = phone.radio.take(np.isin(phone.radio["state"], (*_RUNS.values(), _IDLE)))
        if not (states["state"] == runs).any():
            return None
        gap_ns = int(self._logged_rate.provenance["gap_ns"])
        return Steps(states["time_ns"], (states["state"] == runs).astype(np.float64), gap_ns)

    @property
    def _capture(self) -> Capture | None:
        return None if self.diagnosis is None else self.diagnosis.transfer.at_sender.capture


def drive_of(recording: Recording) -> Drive:
    """Return a recording as a drive, with the diagnosis that the report shows first.

    Parameters
    ----------
    recording : Recording
        Without a capture, or if packets have no time stamps, there is no diagnosis.
    """
    captures = recording.captures
    here = Drive(RadioContext(recording, captures[0].point.name if captures else None))
    if not here.phones or not len(recording) or Transfer.of(recording, None).without_time:
        return here
    diagnosis = explain(recording)
    return Drive(RadioContext(recording, diagnosis.transfer.at_sender.host), diagnosis)


_FINE_NS = 100 * NS_PER_MS
"""Interval of the fine throughput, in ns: a fifth of the bins around handovers, so that a bin is exact to 20 %."""


# The answer in words: where it was bad, and why.


_SEEN_S = 0.1
"""Resolution of the durations in these sentences, in seconds."""
CAUSE_WORDS = {
    "coverage": "weak signal (coverage)",
    "interference": "signal strong enough, but disturbed (interference)",
    "technology": "an older technology served",
    "handover": "a change of the cell",
    "load": "good radio, but the cell was loaded",
    "server": "the server had nothing to send",
    "TCP": "TCP itself",
    "unknown": "not known",
}
_SHORT = {
    "coverage": "weak coverage",
    "interference": "interference",
    "technology": "an older technology",
    "handover": "changes of the cell",
    "load": "a loaded cell",
    "server": "the server",
    "TCP": "TCP itself",
}
_OF_ANOTHER_TIME = (
    "No radio reading was logged while the packets were captured, so this shows the packets alone; "
    "`multitracer align` compares the clocks."
)
_OF_A_PART = "Only the part between --from and --to is listed; its thresholds are those of the whole drive."


def answer_of(drive: Drive) -> str:
    """Return a sentence: how long the segments of the route were bad, and what was their main cause."""
    table = drive.stretches
    judged = table.provenance.get("judged_s", {})
    seconds = sum(judged.get(name, 0) for name in ("by rate", "by radio"))
    if not seconds:
        if drive.shown_ns != (None, None) and drive.phone is None:
            return "Nothing can be said: no reading of the radio lies between --from and --to."
        return (
            "Nothing can be said: no second of it has a rate that was wanted, nor a level of the radio. To find out, "
            "record received power (RSRP or RSSI) each second, or the packets of a transfer."
        )
    if not len(table):
        return f"Nowhere: none of the {seconds:,} seconds that can be judged was bad."
    seconds = table.provenance["of_s"]
    bad = min(float(table["seconds"].sum()), float(seconds))  # edges of stretches are finer than seconds
    weights = {str(cause): float(table["seconds"][table["cause"] == cause].sum()) for cause in table["cause"]}
    first = max(weights, key=weights.__getitem__)
    share = f"{100 * min(weights[first] / bad, 1):.0f} % of that "
    share += "for a cause that is not known" if first == "unknown" else f"for one cause: {_SHORT[first]}"
    what = "It was bad" if judged.get("by rate") else "The radio was bad"
    return f"{what} for {duration(bad * NS_PER_S)} of {duration(seconds * NS_PER_S)}, {share}."


def caveats_of(drive: Drive) -> list[str]:
    """Return sentences on what the answer does not show: another time, doubtful times, other phones and drives."""
    phones = drive.part.phones
    of_drive = which_phone(phones) if len(phones) > 1 else ""
    of_drive = f"{of_drive[:1].upper()}{of_drive[1:]}." if of_drive else ""
    other_time = "" if drive.is_of_the_packets else _OF_ANOTHER_TIME
    return [words for words in (other_time, drive.radio_context.caveats, of_drive) if words]


def rule_of(drive: Drive, origin_ns: int, speed: float) -> str:
    """Return a text about the rule by which a second of the drive is bad."""
    facts = drive.stretches.provenance
    judged = facts.get("judged_s", {})
    words = [_OF_A_PART] if drive.shown_ns != (None, None) and any(judged.values()) else []
    were = {name: f"{count(n, 'second')} {'is' if n == 1 else 'are'}" for name, n in judged.items()}
    if judged.get("by rate"):
        poor, typical = rate(facts["poor_bps"]), rate(facts["typical_bps"])
        words.append(
            f"{were['by rate']} judged by the rate: less than {poor}, a fifth of what is typical "
            f"here ({typical}), is bad."
        )
    if judged.get("by radio"):
        words.append(f"{were['by radio']} judged by the radio alone: nothing shows that data were wanted.")
    if facts.get("slow_s"):
        begin_s = (facts["slow_longest_ns"] - origin_ns) * speed / NS_PER_S
        longest = duration(facts["slow_longest_s"] * NS_PER_S)
        words.append(
            f"In {count(facts['slow_s'], 'second')} with a good radio the logger saw less than "
            f"{rate(facts['slow_bps'])}, a fifth of its median (longest for {longest}, from {clock_time(begin_s)} "
            "on): nothing shows whether data were wanted then; a log of the test program's state, or a "
            "capture, would."
        )
    if facts.get("by_logger_s"):
        words.append(
            f"In {count(facts['by_logger_s'], 'second')} with a bad radio the logger saw "
            f"{rate(facts['good_bps'])} or more all the same, or its typical rate: they were not bad."
        )
    if judged.get("not"):
        words.append(f"{count(judged['not'], 'second')} cannot be judged.")
    return " ".join(words)


def place_of(row: Row, cells: Sequence[str]) -> str:
    """Return the place of a bad segment, its cell, and its rate beside the typical one; `cells` are names."""
    place = [f"at {row['lat_deg']:.5f}, {row['lon_deg']:.5f}"] if _is_known(row["lat_deg"]) else []
    if _is_known(row["begin_m"]) and _is_known(row["end_m"]):
        length = row["end_m"] - row["begin_m"]
        place.append(f"{row['begin_m'] / 1000:.1f} km along the route, {length:.0f} m long")
    place += [cells[row["cell"]]] if row["cell"] not in (None, NA) else []
    if _is_known(row["throughput_bps"]) and _is_known(row["typical_bps"]):
        place.append(f"{rate(row['throughput_bps'])} instead of {rate(row['typical_bps'])}")
    return "; ".join(place)


def evidence_of(row: Row) -> str:
    """Return what shows the cause of a bad segment, or what would have to be recorded to know it."""
    evidence = f"Evidence: {row['evidence']}." if row["evidence"] else ""
    return evidence + (f" To find out, record: {row['missing']}." if row["missing"] else "")


def span_of_the_cause(row: Row) -> str:
    """Return a text: the duration of the cause, and the rate before and after it; empty if unknown."""
    begin, end = ((row[name], row[f"cause_{name}"]) for name in ("begin_ns", "end_ns"))
    if any(time in (None, NOT_A_TIME) for time in (*begin, *end)):
        return ""
    words = [f"The cause lasted {(end[1] - begin[1]) / NS_PER_S:.1f} s"]
    if row["cause_within_s"] >= _SEEN_S:
        words[0] += f" (begin and end known within {row['cause_within_s']:.1f} s)"
    if not _is_known(row["lost_s"]):  # judged by the radio alone: no rate was looked at
        return f"{words[0]}."
    if (lead := begin[0] - begin[1]) >= NS_PER_S:
        words.append(f"the rate fell {lead / NS_PER_S:.1f} s after it began")
    if (late := end[0] - end[1]) >= NS_PER_S:
        words.append(f"the rate rose again {late / NS_PER_S:.1f} s after it ended")
    elif late <= -NS_PER_S:
        words.append(f"the rate rose again {-late / NS_PER_S:.1f} s before it ended")
    return "; ".join(words) + "."


def _is_known(value: float | None) -> bool:
    return value is not None and bool(np.isfinite(value))


def length_s(drive: Drive, speed: float) -> float:
    """Return the length of the drive in seconds of the figure."""
    return float(drive.stretches.provenance.get("of_s", 0)) * speed


DRIVE_SCHEMA = "multitracer.drive/1"


def drive_document(drive: Drive, origin_ns: int) -> Document:
    """Return the answer as JSON (docs/schemas/drive.schema.json); a missing value is null.

    Raises
    ------
    InputError
        If the drive's times are those of two clocks.
    """
    facts, phone = drive.stretches.provenance, drive.phone
    judged = facts.get("judged_s", {})
    span_ns = None if phone is None else phone.span_ns
    return {
        "schema": DRIVE_SCHEMA,
        "answer": answer_of(drive),
        "caveats": caveats_of(drive),
        "rule": rule_of(drive, origin_ns, 1),
        "throughput": drive.throughput_words or None,
        "phone": None if phone is None else {
            "host": portable(phone.host),
            "logs": [portable(path) for path in phone.paths],
            "begin_ns": None if span_ns is None else span_ns[0],
            "end_ns": None if span_ns is None else span_ns[1],
        },
        "phones": list(dict.fromkeys(portable(each.host) for each in drive.phones)),
        "origin_ns": origin_ns,
        "seconds": {
            "judged_by_rate": judged.get("by rate", 0),
            "judged_by_radio": judged.get("by radio", 0),
            "not_judged": judged.get("not", 0),
        },
        "typical_bps": _known(facts.get("typical_bps")),
        "poor_bps": _known(facts.get("poor_bps")),
        "stretches": [_stretch(row, drive.cell_names, origin_ns) for row in drive.stretches.rows()],
    }  # fmt: skip


def _stretch(row: Row, cells: Sequence[str], origin_ns: int) -> Document:
    names = [column.name for column in STRETCHES if column.name != "cell"]
    values = {name: _known(row[name]) for name in names}
    cell = None if row["cell"] in (None, NA) else cells[row["cell"]]
    ends = {name: round((row[f"{name[:-2]}_ns"] - origin_ns) / NS_PER_S, 6) for name in ("begin_s", "end_s")}
    return ends | values | {"cell": cell, "missing": row["missing"] or None, "evidence": row["evidence"] or None}


def _known(value: object) -> object:
    """Return a value of a row for JSON; None if it is missing."""
    is_missing = value in (None, NOT_A_TIME) or (isinstance(value, float) and not np.isfinite(value))
    return None if is_missing else value
