"""The radio of cdma2000 1x: rates, frames, the pilot's Ec/Io, and the assignment of supplemental channels.

Input: `Cdma2000Config` and a seed. Output: for each frame, whether it fails; for each direction of a sector, the rates
that its mobiles are assigned, by backlog and channel. The source of each number is beside it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from math import exp, log10, pi, sqrt
from typing import TYPE_CHECKING, Literal, NamedTuple, Protocol

from multitracer.errors import LocalProtocolError
from multitracer.lab.channel.shared.packet_link import MOST_MOBILES
from multitracer.lab.channel.shared.queue import QueueConfig
from multitracer.units import BITS_PER_BYTE, NS_PER_MS, NS_PER_S

if TYPE_CHECKING:
    from collections.abc import Sequence
    from random import Random

    from multitracer.lab.channel.shared.frame_errors import FadingErrors

# Rates of cdma2000's traffic channels (spreading rate 1, radio configuration 3), and what a frame holds.


FRAME_NS = 20 * NS_PER_MS
"""Duration of a frame of both channels (C.S0002; frames of 5, 40 and 80 ms are left out)."""


class Rate(NamedTuple):
    """A data rate of a traffic channel, with the RLP octets of one frame."""

    bits_per_s: int
    info_bits: int
    """Information bits of a frame, without check sequence (12 or 16 bits) and tail (8 bits) (C.S0002)."""
    octets: int
    """RLP octets in a frame: 20 per 172 bits, or 41 per 360 bits.

    The other bits are headers of the multiplex sublayer and of RLP (C.S0003 and C.S0017, from memory)."""

    @property
    def walsh(self) -> float:
        """Fraction of the forward link's Walsh codes: 1/64 at 9.6 kbit/s, 1/4 at 153.6 kbit/s (C.S0002)."""
        return self.bits_per_s / _CODE_SPACE_BITS_PER_S


_CODE_SPACE_BITS_PER_S = 614_400
"""Rate of all codes together: four codes of length 4, each of 153.6 kbit/s (C.S0002, radio configuration 3)."""
FUNDAMENTAL = Rate(9_600, 172, 20)
SUPPLEMENTAL = (Rate(19_200, 360, 41), Rate(38_400, 744, 82), Rate(76_800, 1_512, 164), Rate(153_600, 3_048, 328))
"""Supplemental rates, ascending (C.S0002; 9.6 kbit/s and rates of other configurations are left out)."""
FASTEST = SUPPLEMENTAL[-1]
RATES = {rate.bits_per_s: rate for rate in (FUNDAMENTAL, *SUPPLEMENTAL)}


def octets_at(bits_per_s: float) -> float:
    """Return the mean RLP octets per frame at a constant rate.

    Headers take the same share as at 153.6 kbit/s.
    """
    frame_octets = bits_per_s * FRAME_NS / NS_PER_S / BITS_PER_BYTE
    return frame_octets * FASTEST.octets / (FASTEST.bits_per_s * FRAME_NS / NS_PER_S / BITS_PER_BYTE)


# The parameters of a cdma2000 1x packet data link in a scenario.
#
# Where a number comes from stands beside it. *Paper*: paper 003, pages 100 to 104. *C.S0002*, *C.S0003*,
# *C.S0005*, *C.S0017*: standards of 3GPP2, of memory, because their text was not at hand. *Ours*: chosen, low
# confidence.


_MIN_BUFFER_BYTES, _MOST_BUFFER_BYTES = 1_500, 10_000_000
"""Bounds of the buffer: one Ethernet packet; ten minutes at the fastest rate (our choice: more is a mistake)."""
_WORST_ECIO_DB = -40.0
"""Minimum Ec/Io in a configuration, where nothing can be decoded (our choice); the paper's minimum is -16 dB."""
_MIN_M_PER_S = 0.01
"""Minimum speed of a mobile that crosses cells: 100 m take three hours (our choice: less is a mistake)."""
_MOST_M_PER_S = 150.0
"""Maximum speed, 540 km/h (our choice); the paper's fastest is 75 mph, 33.5 m/s."""
_MOST_DB = 40.0
"""Maximum of a standard deviation or a slope in dB (our choice: more is a mistake)."""
BURST_FRAMES = (1, 2, 3, 4, 5, 6, 7, 8, 16, 32, 64, 96, 128, 256)
"""Possible lengths of an assignment in frames of 20 ms (C.S0005, FOR_SCH_DURATION)."""


def _check(name: str, value: float, minimum: float, most: float) -> None:
    if not minimum <= value <= most:
        raise LocalProtocolError(f'"{name}" must be {minimum:g} to {most:,.10g}, but is {value:g}')


@dataclass(frozen=True, slots=True, kw_only=True)
class Cdma2000RadioConfig:
    """The pilot's Ec/Io at each mobile, and the fading that remains after power control."""

    ecio_db: float = -4.0
    """Mean Ec/Io of the pilot (paper: averages of -9 to -2 dB, moving between 0 and -16)."""
    deviation_db: float = 2.0
    """Standard deviation of the shadow fading, Gaussian in dB (our choice)."""
    speed_m_per_s: float = 0.0
    """Speed of the mobile (in the paper 45, 60 and 75 mph: 20.1, 26.8 and 33.5 m/s)."""
    correlation_m: float = 50.0
    """Distance over which the shadow's correlation falls to 1/e (our choice; tens of metres in towns, Gudmundson 1991).
    """
    still_ns: int = 30 * NS_PER_S
    """Correlation time of the shadow for a mobile that does not move: people around it do (our choice)."""
    remainder_db: float = 1.0
    """Standard deviation of the fast fading that power control cannot follow (our choice)."""
    carrier_mhz: float = 1_900.0
    """Carrier frequency, for the Doppler shift: PCS band (paper: a commercial network of the United States)."""
    cell_m: float = 0.0
    """Length of a cell along the route, after which a moving mobile is handed off; it starts in the middle of one.

    0: one cell without an end (paper: 2 to 3 miles)."""
    handoff_ns: int = 200 * NS_PER_MS
    """Duration of a hard handoff, in which no frame arrives (our choice)."""

    def __post_init__(self) -> None:
        _check("ecio_db", self.ecio_db, _WORST_ECIO_DB, 0)
        _check("deviation_db", self.deviation_db, 0, _MOST_DB)
        _check("speed_m_per_s", self.speed_m_per_s, 0, _MOST_M_PER_S)
        _check("correlation_m", self.correlation_m, 1, 100_000)
        _check("remainder_db", self.remainder_db, 0, _MOST_DB)
        _check("carrier_mhz", self.carrier_mhz, 100, 10_000)
        if self.cell_m:
            _check("cell_m", self.cell_m, 100, 100_000)
            if 0 < self.speed_m_per_s < _MIN_M_PER_S:
                raise LocalProtocolError(
                    f'"speed_m_per_s" must be 0, or at least {_MIN_M_PER_S:g} where "cell_m" is set, '
                    f"but is {self.speed_m_per_s:g}"
                )
        if not FRAME_NS <= self.handoff_ns <= 10 * NS_PER_S:
            raise LocalProtocolError('"handoff" must be 20 ms to 10 s')
        if self.still_ns < NS_PER_S:
            raise LocalProtocolError('"still" must be at least 1 s')

    def handoff_into_ns(self, cell: int) -> int | None:
        """Return when the mobile is handed off into a cell, in ns since the start; None if it never is.

        It starts in the middle of cell 0.
        """
        if not self.cell_m or not self.speed_m_per_s:
            return None
        return round((cell - 0.5) * self.cell_m / self.speed_m_per_s * NS_PER_S)


@dataclass(frozen=True, slots=True, kw_only=True)
class ErrorMapConfig:
    """How Ec/Io determines which rate can be assigned, and how it determines the frame error rate."""

    full_rate_ecio_db: float = -7.5
    """Ec/Io at which 153.6 kbit/s need all power for supplemental channels; half the rate needs 3 dB less.

    Our choice, so that one mobile has about 125 kbit/s and each of four 75 kbit/s (paper, Figure 6)."""
    fundamental_error_rate: float = 0.01
    """Frame error rate that power control maintains on the fundamental channel (our choice; 1 % is typical)."""
    supplemental_error_rate: float = 0.05
    """Frame error rate on the supplemental channel (our choice; 5 % is typical)."""
    decade_db: float = 2.0
    """Drop of Ec/Io that makes the error rate ten times as high (our choice)."""

    def __post_init__(self) -> None:
        _check("full_rate_ecio_db", self.full_rate_ecio_db, _WORST_ECIO_DB, _MOST_DB)
        for name in ("fundamental_error_rate", "supplemental_error_rate"):
            _check(name, getattr(self, name), 0, 0.9)
        _check("decade_db", self.decade_db, 0.1, _MOST_DB)


@dataclass(frozen=True, slots=True, kw_only=True)
class AssignmentConfig:
    """Rules by which supplemental channels are assigned, separately in each direction."""

    most_bits_per_s: int = FASTEST.bits_per_s
    """The maximum rate; 9600 means no supplemental channel."""
    request_bytes: int = 400
    """Backlog from which a supplemental channel is requested (our choice: 0.4 s of the fundamental one)."""
    delay_ns: int = 200 * NS_PER_MS
    """Delay from the decision to the first frame of a burst (our choice)."""
    burst_frames: int = 64
    """Length of a burst in frames; a burst is never shortened (our choice among the lengths of C.S0005)."""
    load_percent: float = 0.0
    """Share of the sector's power that other users take, in percent (paper: none, at night)."""
    codes_percent: float = 75.0
    """Share of the forward codes that is available to supplemental channels, in percent.

    Pilot, sync, paging and voice have the rest (our choice: three of the four codes of length 4)."""

    def __post_init__(self) -> None:
        if self.most_bits_per_s not in RATES:
            known = ", ".join(map(str, RATES))
            raise LocalProtocolError(f'"most_bits_per_s" must be one of {known}, but is {self.most_bits_per_s}')
        if self.burst_frames not in BURST_FRAMES:
            known = ", ".join(map(str, BURST_FRAMES))
            raise LocalProtocolError(f'"burst_frames" must be one of {known}, but is {self.burst_frames}')
        _check("request_bytes", self.request_bytes, 1, _MOST_BUFFER_BYTES)
        _check("load_percent", self.load_percent, 0, 100)
        _check("codes_percent", self.codes_percent, 0, 100)
        if not 0 <= self.delay_ns <= 10 * NS_PER_S:
            raise LocalProtocolError('"delay" must be 0 to 10 s')


@dataclass(frozen=True, slots=True, kw_only=True)
class Rlp3Config:
    """Parameters of RLP type 3: how many rounds of NAKs request a missing octet, and how often each is sent.

    After the last round the octet is lost.
    """

    first_naks: int = 1
    second_naks: int = 2
    third_naks: int = 3
    """Copies of the NAK in the third round (C.S0017's defaults are 1, 2, 3 in the three rounds); 0: no such round."""
    timer_ns: int = 260 * NS_PER_MS
    """Time to wait for requested octets after the last NAK copy (our choice: a round trip of RLP and 80 ms)."""
    overhead_bytes: int = 7
    """Octets that PPP adds to each packet: flag, address, control, protocol, FCS (RFC 1662, RFC 1661)."""

    @property
    def rounds(self) -> tuple[int, ...]:
        """Number of NAK copies in each retransmission round; rounds without copies are left out."""
        return tuple(copies for copies in (self.first_naks, self.second_naks, self.third_naks) if copies)

    def __post_init__(self) -> None:
        for name in ("first_naks", "second_naks", "third_naks"):
            _check(name, getattr(self, name), 0, 7)
        if not 20 * NS_PER_MS <= self.timer_ns <= 10 * NS_PER_S:
            raise LocalProtocolError('"timer" must be 20 ms to 10 s')
        _check("overhead_bytes", self.overhead_bytes, 0, 100)


@dataclass(frozen=True, slots=True, kw_only=True)
class WiredConfig:
    """The wired parts of the path; their delays are constant, and they lose nothing."""

    backhaul_ns: int = 40 * NS_PER_MS
    """One-way delay from the mobile to the base station controller, where RLP ends, without the frame itself (our
    choice)."""
    fixed_ns: int = 60 * NS_PER_MS
    """One-way delay from the base station controller to the fixed host (our choice)."""

    def __post_init__(self) -> None:
        for name, value in (("backhaul", self.backhaul_ns), ("fixed", self.fixed_ns)):
            if not 0 <= value <= 10 * NS_PER_S:
                raise LocalProtocolError(f'"{name}" must be 0 to 10 s')


@dataclass(frozen=True, slots=True, kw_only=True)
class Cdma2000Config:
    """A sector of cdma2000 1x, and the mobiles that share it."""

    mobiles: int = 1
    """Number of mobiles; each has its own radio, buffer and RLP, and all share power and codes."""
    rate: Literal["scheduled", "mean", "mean-rlp"] = "scheduled"
    """How rates are decided.

    scheduled: the fundamental channel, and supplemental ones by backlog and channel. mean: the control
    experiment of the paper (Figure 5): each mobile has a channel of a steady rate that carries only packets,
    and no frame is lost. mean-rlp: a steady rate, but with the headers, errors and RLP of `scheduled`."""
    mean_bits_per_s: int = 0
    """Rate to the mobile without a scheduler; set it to the mean assigned rate of a scheduled run."""
    mean_up_bits_per_s: int = FUNDAMENTAL.bits_per_s
    """The same from the mobile."""
    buffer_bytes: int = 30_000
    """Buffer of each mobile at the base station controller (paper: 25 to 35 KB); packets above it are dropped."""
    queue: QueueConfig = field(default_factory=QueueConfig)
    """Interface queue at the mobile."""
    radio: Cdma2000RadioConfig = field(default_factory=Cdma2000RadioConfig)
    errors: ErrorMapConfig = field(default_factory=ErrorMapConfig)
    forward: AssignmentConfig = field(default_factory=AssignmentConfig)
    """Assignment of supplemental channels to the mobiles."""
    reverse: AssignmentConfig = field(default_factory=AssignmentConfig)
    """Assignment of supplemental channels from the mobiles; codes do not limit it."""
    rlp: Rlp3Config = field(default_factory=Rlp3Config)
    wired: WiredConfig = field(default_factory=WiredConfig)
    report_ns: int = 1 * NS_PER_S
    """Interval over which the frame error rate of a reading is computed (our choice)."""

    def __post_init__(self) -> None:
        _check("mobiles", self.mobiles, 1, MOST_MOBILES)
        _check("buffer_bytes", self.buffer_bytes, _MIN_BUFFER_BYTES, _MOST_BUFFER_BYTES)
        if self.rate != "scheduled":
            for name in ("mean_bits_per_s", "mean_up_bits_per_s"):
                _check(name, getattr(self, name), 1_000, 10_000_000)
        elif self.mean_bits_per_s or self.mean_up_bits_per_s != FUNDAMENTAL.bits_per_s:
            raise LocalProtocolError(
                'a mean rate can be given only if "rate" is "mean" or "mean-rlp"; set "rate" '
                "to one of these values, or remove the mean rate"
            )
        if not NS_PER_MS <= self.report_ns <= 3_600 * NS_PER_S:
            raise LocalProtocolError('"report" must be 0.001 to 3,600 s')


# The pilot's Ec/Io at a mobile over time, and what follows from it.
#
# **Assignable.** A supplemental channel of rate r needs the share (r / 153.6 kbit/s) × 10^((F − Ec/Io) / 10)
# of the power that the sector has for such channels; F is `full_rate_ecio_db`. Power control gives it so
# much.
#
# **Frame errors.** Power control holds the target error rate q as long as there is power. Where Ec/Io is
# lower than F + 10 log10(r / 153.6 kbit/s), so many dB are missing; what it leaves of fast fading is added.
# With m dB (negative: missing) the odds of an error are q / (1 − q) × 10^(−m / `decade_db`).
#
# **Fading.** The shadow is an autoregression of the first order (Gudmundson 1991), over the way that the
# mobile makes. What power control leaves of the fast fading is Gaussian in dB, correlated over the coherence
# time 9 / (16 π f) of the Doppler frequency f (Clarke's model); a frame sees its mean. Slow fading is
# followed, and fast fading is averaged over a frame: it is worst in between.


STEP_NS = 100 * NS_PER_MS
"""Interval at which the shadow fading changes (our choice): 3 m at 75 mph, far below its correlation length."""
_BEST_DB, _WORST_DB = 0.0, -31.5
"""Bounds of a pilot's Ec/Io: no power but the pilot's; the lowest value that can be reported (C.S0005, steps of 0.5
dB)."""
_LIGHT_M_PER_S = 299_792_458
_FOLLOWED_HZ = 20.0
"""Fading rate at which power control compensates 1 - 1/e of the fading (our choice; C.S0002: 800 steps of 1 dB per
second)."""


class Pilot:
    """Ec/Io of one mobile; the times of calls must not decrease.

    Parameters
    ----------
    config : Cdma2000RadioConfig
    luck : Random
        Random generator; equal generators give equal pilots.
    """

    def __init__(self, config: Cdma2000RadioConfig, *, luck: Random) -> None:
        correlation_s = config.still_ns / NS_PER_S
        if config.speed_m_per_s > 0:
            correlation_s = min(correlation_s, config.correlation_m / config.speed_m_per_s)
        self._config = config
        self._gauss = luck.gauss
        self._keep = exp(-STEP_NS / NS_PER_S / correlation_s)
        self._renew_db = config.deviation_db * sqrt(1 - self._keep**2)
        self._shadow_db = self._gauss(0.0, config.deviation_db)
        self._until_ns = STEP_NS
        self.cell = 0
        """Number of the cell whose pilot this is, along the route."""
        self._handoff_ns = config.handoff_into_ns(1)

    def db(self, now_ns: int) -> float:
        """Return the pilot's Ec/Io in dB, at most 0."""
        while now_ns >= self._until_ns:
            if self._handoff_ns is not None and self._until_ns >= self._handoff_ns:  # another pilot, another shadow
                self._shadow_db = self._gauss(0.0, self._config.deviation_db)
                self.cell += 1
                self._handoff_ns = self._config.handoff_into_ns(self.cell + 1)
            else:
                self._shadow_db = self._keep * self._shadow_db + self._gauss(0.0, self._renew_db)
            self._until_ns += STEP_NS
        return min(_BEST_DB, max(_WORST_DB, self._config.ecio_db + self._shadow_db))


def needed_db(rate: Rate, config: ErrorMapConfig) -> float:
    """Return the minimum Ec/Io in dB at which a rate has enough power."""
    return config.full_rate_ecio_db - 10 * log10(FASTEST.bits_per_s / rate.bits_per_s)


def power_share(rate: Rate, ecio_db: float, config: ErrorMapConfig) -> float:
    """Return the fraction of the supplemental channel's power that a rate needs at this Ec/Io.

    Above 1, the rate is impossible.
    """
    share: float = 10 ** ((needed_db(rate, config) - ecio_db) / 10)
    return share


class FrameErrors:
    """Decides which frames of one direction are lost; calls must be in the order of frames.

    Parameters
    ----------
    radio : Cdma2000RadioConfig
    errors : ErrorMapConfig
    fades : FadingErrors
        Fades of the script.
    luck : Random
        Random generator; a number is drawn for each frame, even if no frame is sent.
    """

    def __init__(
        self, radio: Cdma2000RadioConfig, errors: ErrorMapConfig, fades: FadingErrors, *, luck: Random
    ) -> None:
        self._config = errors
        self._fades = fades
        self._random, self._gauss = luck.random, luck.gauss
        self._keep, self._deviation_db = _remainder(radio)
        self._renew_db = self._deviation_db * sqrt(1 - self._keep**2)
        self._frame = -1
        self._chance = 0.0
        self._remainder_db = 0.0
        self._is_faded = False
        self._targets = {True: errors.fundamental_error_rate, False: errors.supplemental_error_rate}
        self._needed: dict[int, float] = {}

    def rate_of(self, rate: Rate, ecio_db: float, remainder_db: float = 0.0) -> float:
        """Return the frame error rate, 0 to 1, of a data rate at an Ec/Io in dB.

        `remainder_db` is the fast fading that remains after power control, in dB.
        """
        target = self._targets[rate is FUNDAMENTAL]
        if target <= 0:
            return 0.0
        needed = self._needed.get(rate.bits_per_s)
        if needed is None:
            needed = self._needed[rate.bits_per_s] = needed_db(rate, self._config)
        margin_db = min(0.0, ecio_db - needed) + remainder_db
        odds = target / (1 - target) * 10 ** (-margin_db / self._config.decade_db)
        return odds / (1 + odds)

    def is_lost(self, frame: int, rate: Rate, ecio_db: float) -> bool:
        """Return whether a frame is lost; both channels of a frame use the same random number."""
        while self._frame < frame:
            self._frame += 1
            self._chance = self._random()
            if self._deviation_db:
                self._remainder_db = self._keep * self._remainder_db + self._gauss(0.0, self._renew_db)
            self._is_faded = self._fades.lost(self._frame)
        return self._is_faded or self._chance < self.rate_of(rate, ecio_db, self._remainder_db)


def _remainder(radio: Cdma2000RadioConfig) -> tuple[float, float]:
    """Return two numbers about the fast fading that remains after power control.

    They are its correlation from frame to frame, 0 to 1, and its standard deviation in dB; both are
    0 for a mobile that stands still.
    """
    if radio.speed_m_per_s <= 0 or radio.remainder_db <= 0:
        return 0.0, 0.0
    doppler_hz = radio.speed_m_per_s * radio.carrier_mhz * 1e6 / _LIGHT_M_PER_S
    coherence = 9 / (16 * pi * doppler_hz) * NS_PER_S / FRAME_NS
    averaged = sqrt(min(1.0, coherence))
    missed = 1 - exp(-doppler_hz / _FOLLOWED_HZ)
    return exp(-1 / coherence), radio.remainder_db * missed * averaged


# Who gets a supplemental channel, of which rate and when: one direction of a sector.
#
# Rules of the file:
#
# - A mobile wants a channel when its backlog is `request_bytes` or more: the lowest rate that carries the
#   backlog within a burst. It may ask when it has none, and from `delay` before its present burst ends on.
# - Who has the largest backlog is served first. It gets the highest rate up to the wanted one for which there
#   are power (`pilot.power_share`, at the Ec/Io of that time) and codes; others keep what they have or were
#   promised.
# - A burst begins `delay` after the decision, and not before the present one is over. It is never cut short,
#   and what it leaves unused is lost. Who finds no room asks again in the next frame.
#
# That backlog decides is paper 003's finding ("highly dependent on the transport data rate"); all numbers and
# the order are ours.


class BurstAssignment(NamedTuple):
    """A supplemental channel assigned for some frames; frame 0 is the start of the link."""

    rate: Rate
    begin: int
    end: int
    """The first frame after the burst."""
    power: float
    """Share of the supplemental power that the burst takes, 0 to 1."""


class Assigned:
    """The active and the scheduled burst of one mobile in one direction."""

    def __init__(self) -> None:
        self.present: BurstAssignment | None = None
        self.promised: BurstAssignment | None = None

    @property
    def power(self) -> float:
        """Fraction of the power that the active or the scheduled burst needs; of two, the larger."""
        return max((burst.power for burst in (self.present, self.promised) if burst), default=0.0)

    @property
    def walsh(self) -> float:
        """Fraction of the Walsh codes that the active or the scheduled burst needs; of two, the larger."""
        return max((burst.rate.walsh for burst in (self.present, self.promised) if burst), default=0.0)

    def step(self, frame: int) -> None:
        """Begin a frame: remove the active burst if it has ended; start the scheduled burst if it is due."""
        if self.present is not None and frame >= self.present.end:
            self.present = None
        if self.promised is not None and frame >= self.promised.begin:
            self.present, self.promised = self.promised, None

    def end(self) -> None:
        """Remove both bursts: the cell that assigned them no longer serves the mobile."""
        self.present = self.promised = None


class User(Protocol):
    """Interface of one direction of a mobile, as the scheduler uses it."""

    assigned: Assigned

    @property
    def backlog_bytes(self) -> int:
        """Bytes that wait to be sent."""

    def ecio_db(self, now_ns: int) -> float:
        """Ec/Io that the mobile reports now, in dB."""


class Scheduler:
    """Assigns the supplemental channels of one direction.

    Parameters
    ----------
    config : AssignmentConfig
    errors : ErrorMapConfig
        Ec/Io that each rate needs.
    has_codes : bool
        Whether codes limit the assignments: only in the forward direction.
    """

    def __init__(self, config: AssignmentConfig, errors: ErrorMapConfig, *, has_codes: bool) -> None:
        self._config = config
        self._errors = errors
        self._delay = -(-config.delay_ns // FRAME_NS)
        self._power = 1 - config.load_percent / 100
        self._codes = config.codes_percent / 100 if has_codes else float("inf")
        self._rates = [rate for rate in SUPPLEMENTAL if rate.bits_per_s <= config.most_bits_per_s]

    def decide(self, frame: int, users: Sequence[User]) -> None:
        """Assign bursts to the users that request one in this frame."""
        asking = [(-user.backlog_bytes, place) for place, user in enumerate(users) if self._may(user, frame)]
        for backlog, place in sorted(asking):
            if -backlog >= self._config.request_bytes:
                self._serve(users[place], -backlog, frame, users)

    def _may(self, user: User, frame: int) -> bool:
        present = user.assigned.present
        is_free = present is None or frame >= present.end - self._delay
        return is_free and user.assigned.promised is None

    def _serve(self, user: User, backlog: int, frame: int, users: Sequence[User]) -> None:
        others = [each.assigned for each in users if each is not user]
        power = self._power - sum(each.power for each in others)
        codes = self._codes - sum(each.walsh for each in others)
        ecio_db = user.ecio_db(frame * FRAME_NS)
        for rate in reversed(self._wanted(backlog)):
            share = power_share(rate, ecio_db, self._errors)
            if share <= power and rate.walsh <= codes:
                present = user.assigned.present
                begin = max(frame + self._delay, present.end if present else 0)
                user.assigned.promised = BurstAssignment(rate, begin, begin + self._config.burst_frames, share)
                return

    def _wanted(self, backlog: int) -> list[Rate]:
        """Return the rates to try, in ascending order.

        The last one is the lowest rate that sends the backlog in one burst.
        """
        frames = self._config.burst_frames
        enough = sum(rate.octets * frames < backlog for rate in self._rates)
        return self._rates[: enough + 1]
