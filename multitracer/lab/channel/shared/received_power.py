"""Received power over time: a mean and slow fading whose value in dB is Gaussian and correlated in time."""

from __future__ import annotations

from math import exp, sqrt
from typing import TYPE_CHECKING, Protocol

from multitracer.units import NS_PER_S

if TYPE_CHECKING:
    from random import Random


class SignalParameters(Protocol):
    """The parameters of the received power."""

    @property
    def mean_dbm(self) -> float: ...  # noqa: D102
    @property
    def deviation_db(self) -> float: ...  # noqa: D102
    @property
    def correlation_ns(self) -> int: ...  # noqa: D102
    @property
    def zero_dbm(self) -> float: ...  # noqa: D102


class Signal:
    """Power that changes once a second (Gudmundson's model of 1991: an autoregression of the first order).

    Parameters
    ----------
    config : SignalParameters
        Mean, deviation, correlation time and the least value.
    luck : Random
        Where chance comes from.
    """

    def __init__(self, config: SignalParameters, *, luck: Random) -> None:
        self._config = config
        self._gauss = luck.gauss
        self._keep = exp(-NS_PER_S / config.correlation_ns)
        self._renew = config.deviation_db * sqrt(1 - self._keep**2)
        self._fading_db = self._gauss(0.0, config.deviation_db)
        self.until_ns = NS_PER_S
        """Up to then the power is that of the last call."""

    def dbm(self, now_ns: int) -> float:
        """Return the power at a time not before that of the last call."""
        while now_ns >= self.until_ns:
            self._fading_db = self._keep * self._fading_db + self._gauss(0.0, self._renew)
            self.until_ns += NS_PER_S
        return max(self._config.zero_dbm, self._config.mean_dbm + self._fading_db)

    def is_zero(self, now_ns: int) -> bool:
        """Return whether there is no signal."""
        return self.dbm(now_ns) <= self._config.zero_dbm
