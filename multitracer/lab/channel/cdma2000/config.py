"""The parameters of a cdma2000 1x packet data link in a scenario.

Where a number comes from stands beside it. *Paper*: paper 003, pages 100 to 104. *C.S0002*, *C.S0003*,
*C.S0005*, *C.S0017*: standards of 3GPP2, of memory, because their text was not at hand. *Ours*: chosen, low
confidence.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from multitracer.errors import LocalProtocolError
from multitracer.lab.channel.cdma2000.rates import FASTEST, FUNDAMENTAL, RATES
from multitracer.lab.channel.shared.hosts import MOST_MOBILES
from multitracer.lab.channel.shared.queue import QueueConfig
from multitracer.units import NS_PER_MS, NS_PER_S

_LEAST_BUFFER_BYTES, _MOST_BUFFER_BYTES = 1_500, 10_000_000
"""One packet of an Ethernet; ten minutes of the fastest rate (ours: more is a mistake)."""
_WORST_ECIO_DB = -40.0
"""Nothing is decoded far above it (ours); the paper's worst is -16 dB."""
_MOST_M_PER_S = 150.0
"""540 km/h (ours); the paper's fastest is 75 mph, 33.5 m/s."""
_MOST_DB = 40.0
"""Of a deviation or a slope (ours: more is a mistake)."""
BURST_FRAMES = (1, 2, 3, 4, 5, 6, 7, 8, 16, 32, 64, 96, 128, 256)
"""Lengths that a supplemental channel can be assigned for, in frames of 20 ms (C.S0005, FOR_SCH_DURATION)."""


def _check(name: str, value: float, least: float, most: float) -> None:
    if not least <= value <= most:
        raise LocalProtocolError(f"{name} is {value:g}; choose {least:g} to {most:,.10g}")


@dataclass(frozen=True, slots=True, kw_only=True)
class RadioConfig:
    """The pilot's Ec/Io at each mobile, and what of fading is left after power control."""

    ecio_db: float = -4.0
    """Mean Ec/Io of the pilot (paper: averages of -9 to -2 dB, moving between 0 and -16)."""
    deviation_db: float = 2.0
    """Of the shadow fading around it, Gaussian in dB (ours)."""
    speed_m_per_s: float = 0.0
    """Of the mobile; the paper drives 45, 60 and 75 mph: 20.1, 26.8 and 33.5."""
    correlation_m: float = 50.0
    """Way in which the shadow's correlation falls to 1/e (ours; tens of metres in towns, Gudmundson 1991)."""
    still_ns: int = 30 * NS_PER_S
    """The same as a time for a mobile that does not move: people do (ours)."""
    remainder_db: float = 1.0
    """Deviation of what power control leaves of the fast fading, if it is too fast to follow (ours)."""
    carrier_mhz: float = 1_900.0
    """PCS band, for the Doppler frequency (paper: a commercial network of the United States)."""

    def __post_init__(self) -> None:
        _check("ecio_db", self.ecio_db, _WORST_ECIO_DB, 0)
        _check("deviation_db", self.deviation_db, 0, _MOST_DB)
        _check("speed_m_per_s", self.speed_m_per_s, 0, _MOST_M_PER_S)
        _check("correlation_m", self.correlation_m, 1, 100_000)
        _check("remainder_db", self.remainder_db, 0, _MOST_DB)
        _check("carrier_mhz", self.carrier_mhz, 100, 10_000)
        if self.still_ns < NS_PER_S:
            raise LocalProtocolError("still is at least 1 s")


@dataclass(frozen=True, slots=True, kw_only=True)
class ErrorMapConfig:
    """How Ec/Io becomes a rate that can be assigned, and a frame error rate (`pilot.py`)."""

    full_rate_ecio_db: float = -7.5
    """Ec/Io at which 153.6 kbit/s take all the power there is for supplemental channels; half the rate needs
    3 dB less (ours, so that one mobile has about 125 kbit/s and four have 75 each, paper, Figure 6)."""
    fundamental_error_rate: float = 0.01
    """Frame errors that power control keeps on the fundamental channel (ours; 1 % is usual)."""
    supplemental_error_rate: float = 0.05
    """... on the supplemental one (ours; 5 % is usual)."""
    decade_db: float = 2.0
    """Missing signal for which errors grow tenfold (ours)."""

    def __post_init__(self) -> None:
        _check("full_rate_ecio_db", self.full_rate_ecio_db, _WORST_ECIO_DB, _MOST_DB)
        for name in ("fundamental_error_rate", "supplemental_error_rate"):
            _check(name, getattr(self, name), 0, 0.9)
        _check("decade_db", self.decade_db, 0.1, _MOST_DB)


@dataclass(frozen=True, slots=True, kw_only=True)
class AssignmentConfig:
    """How supplemental channels are assigned, in each direction by itself."""

    most_bits_per_s: int = FASTEST.bits_per_s
    """The highest rate; 9600 is no supplemental channel at all."""
    request_bytes: int = 400
    """Backlog from which on a supplemental channel is wanted (ours: 0.4 s of the fundamental one)."""
    delay_ns: int = 200 * NS_PER_MS
    """From the decision to the first frame: messages, and the time at which the burst starts (ours)."""
    burst_frames: int = 64
    """Length of a burst; it is never cut short (ours; C.S0005 knows these lengths)."""
    load_percent: float = 0.0
    """Power of the sector that other users hold (paper: nobody else, at night)."""
    codes_percent: float = 75.0
    """Forward codes for supplemental channels; pilot, sync, paging and voice have the rest (ours: three of
    the four codes of length 4)."""

    def __post_init__(self) -> None:
        if self.most_bits_per_s not in RATES:
            known = ", ".join(map(str, RATES))
            raise LocalProtocolError(f"most_bits_per_s is {self.most_bits_per_s}; choose one of {known}")
        if self.burst_frames not in BURST_FRAMES:
            known = ", ".join(map(str, BURST_FRAMES))
            raise LocalProtocolError(f"burst_frames is {self.burst_frames}; choose one of {known}")
        _check("request_bytes", self.request_bytes, 1, _MOST_BUFFER_BYTES)
        _check("load_percent", self.load_percent, 0, 100)
        _check("codes_percent", self.codes_percent, 0, 100)
        if not 0 <= self.delay_ns <= 10 * NS_PER_S:
            raise LocalProtocolError("delay is 0 to 10 s")


@dataclass(frozen=True, slots=True, kw_only=True)
class RlpConfig:
    """RLP type 3: rounds of NAKs, each with so many copies; after the last one a hole is given up."""

    first_naks: int = 1
    second_naks: int = 2
    third_naks: int = 3
    """Copies in each round (C.S0017's default is 1, 2, 3); 0: there is no such round."""
    timer_ns: int = 260 * NS_PER_MS
    """Wait after the last copy for something of the hole (ours: a round trip of RLP and 80 ms)."""
    overhead_bytes: int = 7
    """PPP around each packet: flag, address, control, protocol, FCS (RFC 1662, RFC 1661)."""

    @property
    def rounds(self) -> tuple[int, ...]:
        """Copies of each round that there is."""
        return tuple(copies for copies in (self.first_naks, self.second_naks, self.third_naks) if copies)

    def __post_init__(self) -> None:
        for name in ("first_naks", "second_naks", "third_naks"):
            _check(name, getattr(self, name), 0, 7)
        if not 20 * NS_PER_MS <= self.timer_ns <= 10 * NS_PER_S:
            raise LocalProtocolError("timer is 20 ms to 10 s")
        _check("overhead_bytes", self.overhead_bytes, 0, 100)


@dataclass(frozen=True, slots=True, kw_only=True)
class WiredConfig:
    """The parts of the way that are no radio; their delays are constant, and they lose nothing."""

    backhaul_ns: int = 40 * NS_PER_MS
    """Mobile to base station controller, where RLP ends, one way besides the frame (ours)."""
    fixed_ns: int = 60 * NS_PER_MS
    """From there to the fixed host (ours)."""

    def __post_init__(self) -> None:
        for name, value in (("backhaul", self.backhaul_ns), ("fixed", self.fixed_ns)):
            if not 0 <= value <= 10 * NS_PER_S:
                raise LocalProtocolError(f"{name} is 0 to 10 s")


@dataclass(frozen=True, slots=True, kw_only=True)
class Cdma2000Config:
    """A sector of cdma2000 1x, and the mobiles that share it."""

    mobiles: int = 1
    """Each with its own radio, buffer and RLP; they share power and codes."""
    rate: Literal["scheduled", "mean", "mean-rlp"] = "scheduled"
    """scheduled: the fundamental channel, and supplemental ones by backlog and channel. mean: the control of
    the paper (Figure 5), for each mobile a channel of a steady rate, whose bits are those of packets, and no
    frame is lost. mean-rlp: the same with the headers, errors and RLP of the scheduled one."""
    mean_bits_per_s: int = 0
    """Without scheduler: to the mobile; the mean assigned rate of a run that is scheduled."""
    mean_up_bits_per_s: int = FUNDAMENTAL.bits_per_s
    """... from the mobile."""
    buffer_bytes: int = 30_000
    """For each mobile at the base station controller (paper: 25 to 35 KB); what does not fit is lost."""
    queue: QueueConfig = field(default_factory=QueueConfig)
    """Interface queue at the mobile."""
    radio: RadioConfig = field(default_factory=RadioConfig)
    errors: ErrorMapConfig = field(default_factory=ErrorMapConfig)
    forward: AssignmentConfig = field(default_factory=AssignmentConfig)
    """To the mobiles."""
    reverse: AssignmentConfig = field(default_factory=AssignmentConfig)
    """From them; codes do not limit it."""
    rlp: RlpConfig = field(default_factory=RlpConfig)
    wired: WiredConfig = field(default_factory=WiredConfig)
    report_ns: int = 1 * NS_PER_S
    """The frame error rate of a reading is that of the last so many seconds (ours)."""

    def __post_init__(self) -> None:
        _check("mobiles", self.mobiles, 1, MOST_MOBILES)
        _check("buffer_bytes", self.buffer_bytes, _LEAST_BUFFER_BYTES, _MOST_BUFFER_BYTES)
        if self.rate != "scheduled":
            for name in ("mean_bits_per_s", "mean_up_bits_per_s"):
                _check(name, getattr(self, name), 1_000, 10_000_000)
        elif self.mean_bits_per_s or self.mean_up_bits_per_s != FUNDAMENTAL.bits_per_s:
            raise LocalProtocolError(
                'a mean rate is for rate = "mean" or "mean-rlp"; leave it out, or choose one'
            )
        if not NS_PER_MS <= self.report_ns <= 3_600 * NS_PER_S:
            raise LocalProtocolError("report is 0.001 to 3,600 s")
