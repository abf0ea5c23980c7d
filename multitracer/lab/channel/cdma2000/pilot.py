"""The pilot's Ec/Io at a mobile over time, and what follows from it.

**Assignable.** A supplemental channel of rate r needs the share (r / 153.6 kbit/s) × 10^((F − Ec/Io) / 10) of
the power that the sector has for such channels; F is `full_rate_ecio_db`. Power control gives it so much.

**Frame errors.** Power control holds the target error rate q as long as there is power. Where Ec/Io is lower
than F + 10 log10(r / 153.6 kbit/s), so many dB are missing; what it leaves of fast fading is added. With m dB
(negative: missing) the odds of an error are q / (1 − q) × 10^(−m / `decade_db`).

**Fading.** The shadow is an autoregression of the first order (Gudmundson 1991), over the way that the mobile
makes. What power control leaves of the fast fading is Gaussian in dB, correlated over the coherence time
9 / (16 π f) of the Doppler frequency f (Clarke's model); a frame sees its mean. Slow fading is followed, and
fast fading is averaged over a frame: it is worst in between.
"""

from __future__ import annotations

from math import exp, log10, pi, sqrt
from typing import TYPE_CHECKING

from multitracer.lab.channel.cdma2000.rates import FASTEST, FRAME_NS, FUNDAMENTAL
from multitracer.units import NS_PER_MS, NS_PER_S

if TYPE_CHECKING:
    from random import Random

    from multitracer.lab.channel.cdma2000.config import ErrorMapConfig, RadioConfig
    from multitracer.lab.channel.cdma2000.rates import Rate
    from multitracer.lab.channel.shared.frame_errors import FadingErrors

STEP_NS = 100 * NS_PER_MS
"""The shadow changes so often (ours): 3 m at 75 mph, little against its correlation."""
_BEST_DB, _WORST_DB = 0.0, -31.5
"""Of a pilot's Ec/Io: all power is its own; the least that a mobile reports (C.S0005, steps of -0.5 dB)."""
_LIGHT_M_PER_S = 299_792_458
_FOLLOWED_HZ = 20.0
"""Fades of so many a second are followed by 1 - 1/e (ours; 800 steps of 1 dB a second, C.S0002)."""


class Pilot:
    """Ec/Io of one mobile; it may be asked at times that do not go back.

    Parameters
    ----------
    config : RadioConfig
    luck : Random
        Where chance comes from; two pilots with the same chance agree.
    """

    def __init__(self, config: RadioConfig, *, luck: Random) -> None:
        correlation_s = config.still_ns / NS_PER_S
        if config.speed_m_per_s > 0:
            correlation_s = min(correlation_s, config.correlation_m / config.speed_m_per_s)
        self._mean_db = config.ecio_db
        self._gauss = luck.gauss
        self._keep = exp(-STEP_NS / NS_PER_S / correlation_s)
        self._renew_db = config.deviation_db * sqrt(1 - self._keep**2)
        self._shadow_db = self._gauss(0.0, config.deviation_db)
        self._until_ns = STEP_NS

    def db(self, now_ns: int) -> float:
        """Return Ec/Io in dB, at most 0."""
        while now_ns >= self._until_ns:
            self._shadow_db = self._keep * self._shadow_db + self._gauss(0.0, self._renew_db)
            self._until_ns += STEP_NS
        return min(_BEST_DB, max(_WORST_DB, self._mean_db + self._shadow_db))


def needed_db(rate: Rate, config: ErrorMapConfig) -> float:
    """Return the Ec/Io in dB below which a rate lacks power."""
    return config.full_rate_ecio_db - 10 * log10(FASTEST.bits_per_s / rate.bits_per_s)


def power_share(rate: Rate, ecio_db: float, config: ErrorMapConfig) -> float:
    """Return which share of the power for supplemental channels a rate takes; above 1 there is not enough."""
    share: float = 10 ** ((needed_db(rate, config) - ecio_db) / 10)
    return share


class FrameErrors:
    """Which frames of one direction are lost; frames are asked for in order.

    Parameters
    ----------
    radio : RadioConfig
    errors : ErrorMapConfig
    fades : FadingErrors
        Those of the script.
    luck : Random
        Where chance comes from. It is drawn for each frame, whether one is sent or not.
    """

    def __init__(
        self, radio: RadioConfig, errors: ErrorMapConfig, fades: FadingErrors, *, luck: Random
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
        """Return the error rate of frames of a rate at an Ec/Io."""
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
        """Return whether a frame of a rate is lost; both channels of one time have the same chance."""
        while self._frame < frame:
            self._frame += 1
            self._chance = self._random()
            if self._deviation_db:
                self._remainder_db = self._keep * self._remainder_db + self._gauss(0.0, self._renew_db)
            self._is_faded = self._fades.lost(self._frame)
        return self._is_faded or self._chance < self.rate_of(rate, ecio_db, self._remainder_db)


def _remainder(radio: RadioConfig) -> tuple[float, float]:
    """Return the correlation of the remainder from frame to frame, and its deviation in dB within a frame."""
    if radio.speed_m_per_s <= 0 or radio.remainder_db <= 0:
        return 0.0, 0.0
    doppler_hz = radio.speed_m_per_s * radio.carrier_mhz * 1e6 / _LIGHT_M_PER_S
    coherence = 9 / (16 * pi * doppler_hz) * NS_PER_S / FRAME_NS
    averaged = sqrt(min(1.0, coherence))
    missed = 1 - exp(-doppler_hz / _FOLLOWED_HZ)
    return exp(-1 / coherence), radio.remainder_db * missed * averaged
