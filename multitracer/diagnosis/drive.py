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
from multitracer.analysis.mobility.cells import cells_of
from multitracer.analysis.mobility.seconds import DriveLimits, DriveSeries
from multitracer.analysis.mobility.series import Samples, Steps, payload_rate
from multitracer.analysis.mobility.stretches import stretches
from multitracer.clock.model.relation import PlacementStatus
from multitracer.diagnosis.diagnose import explain
from multitracer.diagnosis.limits.names import Limit
from multitracer.diagnosis.radio_cause import limits_of
from multitracer.errors import InputError
from multitracer.recording.phones import most_within
from multitracer.recording.radio_context import RadioContext
from multitracer.recording.transfer import Transfer
from multitracer.schemas.mobility import AROUND, AROUND_LIMITS, STRETCHES
from multitracer.tables import NA, NOT_A_TIME, Table
from multitracer.units import NS_PER_MS, NS_PER_S

if TYPE_CHECKING:
    from multitracer.analysis.mobility.route import Route
    from multitracer.diagnosis.diagnosis import Diagnosis
    from multitracer.recording.capture import Capture
    from multitracer.recording.phones import Phone
    from multitracer.recording.recording import Recording
    from multitracer.recording.window import Bounds
    from multitracer.tables import Mask, Times


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
