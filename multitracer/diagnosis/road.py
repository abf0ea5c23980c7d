"""A drive: its cells, its handovers, and what the connection did in them.

Throughput is the TCP payload that was captured in each second, of all connections and both ways; in a
recording without packets, the rate that the logger of the phone saw. Round trips, outages and limits are
those of the connection that the diagnosis explains.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from multitracer.analysis.mobility.cells import cells_of
from multitracer.analysis.mobility.series import Samples, Steps
from multitracer.diagnosis.limits.names import Limit
from multitracer.tables import NOT_A_TIME
from multitracer.units import BITS_PER_BYTE, NS_PER_S

if TYPE_CHECKING:
    from multitracer.analysis.mobility.route import Route
    from multitracer.diagnosis.diagnose import Diagnosis
    from multitracer.recording.part import Part
    from multitracer.recording.phones import Phone
    from multitracer.recording.surroundings import Surroundings
    from multitracer.tables import Table, Times


@dataclass(frozen=True)
class Road:
    """A recording as a drive.

    Attributes
    ----------
    surroundings : Surroundings
    diagnosis : Diagnosis or None
        Of the connection that is explained, on the clock of the surroundings.
    """

    surroundings: Surroundings
    diagnosis: Diagnosis | None = None

    @property
    def phones(self) -> list[Phone]:
        """The phones of the recording, the one with most readings first."""
        return self.surroundings.phones

    @property
    def route(self) -> Route | None:
        """Where it went; None without positions."""
        return None if self.surroundings.drive is None else self.surroundings.drive[1]

    @cached_property
    def throughput(self) -> Steps | None:
        """Throughput in bit/s; None if nothing says it."""
        recording = self.surroundings.recording
        if recording.parts:
            part = recording.parts[0] if self._part is None else self._part
            return payload_rate(part)
        logged = self.surroundings.series.get("Radio_rate_down")
        if logged is None:
            return None
        return Steps(logged["time_ns"], logged["value"], int(logged.provenance["gap_ns"]))

    @property
    def throughput_words(self) -> str:
        """What the throughput is, in a sentence; empty if nothing says it."""
        if self.throughput is None:
            return ""
        if self.surroundings.recording.parts:
            return "Throughput is the TCP payload that was captured, of all connections and both ways."
        return "Throughput is what the logger of the phone saw of the downlink."

    @cached_property
    def rtt(self) -> Samples | None:
        """Round-trip times in ns, of the connection that is explained."""
        if self.diagnosis is None or self._part is None:
            return None
        layers = self.diagnosis.transfer.layers
        samples = self._part.analysis.rtt_samples(layers.connection)
        return Samples(samples["time_ns"], samples["rtt_ns"].astype(np.float64))

    @cached_property
    def outages(self) -> tuple[Times, Times] | None:
        """Begins and ends of the times in which nothing came through; None without a diagnosis.

        Both are int64, ns, shape (n,).
        """
        if self.diagnosis is None:
            return None
        cells = self.diagnosis.limited.cells.joined()
        rows = np.flatnonzero(cells.limit == Limit.OUTAGE.value)
        return cells.begin[rows], cells.end[rows]

    def cells(self, phone: Phone) -> Table:
        """Return CELLS of a phone, the one that served longest first."""
        return cells_of(
            phone.stays, route=self.route, throughput=self.throughput, rtt=self.rtt, outages=self.outages
        )

    @property
    def _part(self) -> Part | None:
        return None if self.diagnosis is None else self.diagnosis.transfer.layers.part


def payload_rate(part: Part) -> Steps | None:
    """Return the TCP payload of a capture, both ways, for each second of it; None without a time.

    Returns
    -------
    Steps
        bit/s; a second without payload is 0.
    """
    segments = part.capture.segments
    rows = np.flatnonzero((segments["time_ns"] != NOT_A_TIME) & (segments["payload_bytes"] > 0))
    if not len(rows):
        return None
    time_ns = segments["time_ns"][rows]
    first_ns = int(time_ns.min())
    second = (time_ns - first_ns) // NS_PER_S
    if int(second.max()) > _LONGEST_S:
        return None
    payload = np.bincount(second, weights=segments["payload_bytes"][rows])
    edges = first_ns + np.arange(len(payload)) * NS_PER_S
    return Steps(edges, payload * BITS_PER_BYTE, NS_PER_S)


_LONGEST_S = 100 * 86_400
"""A capture whose times span more than 100 days is not one of a drive, and would fill the memory."""
