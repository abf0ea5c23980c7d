"""The wired part of a path: a delay with an exponential tail, a random loss, order kept."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable
    from random import Random

    from multitracer.lab.channel.shared.scheduler import Agenda


class FixedNetwork:
    """One direction.

    Parameters
    ----------
    delay_ns : int
        The least delay.
    jitter_ns : int
        Mean of the exponential delay on top of it.
    loss : float
        Probability that a packet is lost.
    agenda : Agenda
    luck : Random
        Where chance comes from.
    arrived : callable
        Called with a packet that has arrived, and when.
    """

    def __init__(
        self,
        *,
        delay_ns: int,
        jitter_ns: int,
        loss: float,
        agenda: Agenda,
        luck: Random,
        arrived: Callable[[bytes, int], None],
    ) -> None:
        self._delay_ns = delay_ns
        self._jitter_ns = jitter_ns
        self._loss = loss
        self._agenda = agenda
        self._luck = luck
        self._arrived = arrived
        self._last_ns = 0
        self.under_way = 0
        """Packets that have not arrived."""

    def send(self, packet: bytes, now_ns: int) -> bool:
        """Send a packet; False if it gets lost."""
        is_lost = self._luck.random() < self._loss
        extra_ns = round(self._luck.expovariate(1.0) * self._jitter_ns)
        if is_lost:
            return False
        self.under_way += 1
        self._last_ns = max(self._last_ns, now_ns + self._delay_ns + extra_ns)
        self._agenda.at(self._last_ns, lambda then_ns: self._arrive(packet, then_ns))
        return True

    def _arrive(self, packet: bytes, now_ns: int) -> None:
        self.under_way -= 1
        self._arrived(packet, now_ns)
