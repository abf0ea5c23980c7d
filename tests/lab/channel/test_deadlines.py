"""No link falls silent: who has work and a deadline that has passed does something, whatever befell it."""

from __future__ import annotations

from dataclasses import replace
from random import Random
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from multitracer.lab.channel.bluetooth_piconet import BitErrorConfig, BluetoothConfig, RfcommConfig
from multitracer.lab.channel.cdma2000_radio import Cdma2000Config, Cdma2000RadioConfig, ErrorMapConfig
from multitracer.lab.channel.cdpd_config import CdpdConfig, CellConfig, MdlpConfig, OutageConfig
from multitracer.lab.channel.cdpd_mdlp import MdlpEntity, MdlpTransmission
from multitracer.lab.channel.gsm import LinkConfig
from multitracer.lab.channel.links import link_of
from multitracer.lab.channel.shared.frame_errors import ErrorConfig
from multitracer.lab.channel.shared.interface import SideJournal
from multitracer.lab.channel.shared.packet_link import FAR, SIDES
from multitracer.units import NS_PER_MS, NS_PER_S
from tests.examples import examples
from tests.lab.channel.link_table import busy_cell
from tests.lab.channel.over import number_of, packet

if TYPE_CHECKING:
    from multitracer.lab.channel.links import AnyLinkConfig
    from multitracer.lab.channel.shared.packet_link import PacketLink, Side

HOUR_NS = 3600 * NS_PER_S
ACK, LAST = 1 << 30, 1 << 29
"""Numbers of packets: acknowledgments from the first on, the end of a reply."""


class Exchange:
    """Two ends of MDLP over a medium that is away now and then, for longer than their timers run."""

    def __init__(self, luck: Random, *, loss: float, away_s: float) -> None:
        self.luck, self.loss, self.away_s = luck, loss, away_s
        self.now_ns = 0
        self.queues: dict[Side, list[bytes]] = {side: [] for side in SIDES}
        self.ends = {side: self._end(side) for side in SIDES}
        self.free_ns: dict[Side, int] = dict.fromkeys(SIDES, 0)
        self.sending: dict[Side, MdlpTransmission | None] = dict.fromkeys(SIDES)
        self.under_way: list[tuple[int, int, Side, MdlpTransmission]] = []
        self.sent = 0

    def _end(self, side: Side) -> MdlpEntity:
        queue = self.queues[side]
        return MdlpEntity(MdlpConfig(), lambda _: queue.pop(0) if queue else None, SideJournal(NS_PER_MS))

    def has_work(self, side: Side) -> bool:
        return self.ends[side].has_work(self.now_ns, has_packet=bool(self.queues[side]))

    def next_ns(self) -> int | None:
        busy = [self.free_ns[s] for s in SIDES if self.sending[s] or self.has_work(s)]
        due = [end.deadline_ns for end in self.ends.values()]
        times = [*busy, *(each[0] for each in self.under_way), *due]
        return min((max(time, self.now_ns) for time in times if time is not None), default=None)

    def step(self) -> None:
        for side, end in self.ends.items():
            if end.deadline_ns is not None and end.deadline_ns <= self.now_ns:
                end.expire(self.now_ns)
            if self.free_ns[side] <= self.now_ns:
                self._transmit(side)
        for arrival in [each for each in self.under_way if each[0] <= self.now_ns]:
            self.under_way.remove(arrival)
            self.ends[arrival[2]].receive(arrival[3], self.now_ns)
        for side, end in self.ends.items():
            if end.deadline_ns is not None and end.deadline_ns <= self.now_ns:
                end.expire(self.now_ns)
            self.check(side)

    def _transmit(self, side: Side) -> None:
        """End the frame that was being sent, and wait for the medium to begin the next."""
        end, frame = self.ends[side], self.sending[side]
        if frame is not None:
            end.sent(frame, self.now_ns)
            if self.luck.random() >= self.loss:
                self.sent += 1
                self.under_way.append((self.now_ns + 50 * NS_PER_MS, self.sent, FAR[side], frame))
        self.sending[side] = end.next_frame(self.now_ns)
        is_away = self.luck.random() < 0.1
        pause_s = self.luck.uniform(0, self.away_s) if is_away else 0.1
        self.free_ns[side] = self.now_ns + round(pause_s * NS_PER_S)

    def check(self, side: Side) -> None:
        end = self.ends[side]
        due_ns = end.deadline_ns
        assert due_ns is None or due_ns > self.now_ns, "a deadline has passed, and stays"
        busy = self.has_work(side) or any(self.sending.values()) or self.under_way
        assert end.is_drained or busy or due_ns is not None, "waits for nothing"


@given(seed=st.integers(0, 1 << 20), loss=st.sampled_from([0.0, 0.05, 0.3]), away_s=st.floats(0.1, 40))
@examples(60)
def test_a_data_link_with_work_always_has_a_deadline_ahead(seed: int, loss: float, away_s: float) -> None:
    luck = Random(seed)
    exchange = Exchange(luck, loss=loss, away_s=away_s)
    offers = sorted((luck.randrange(300 * NS_PER_S), luck.choice(SIDES)) for _ in range(40))
    while True:
        next_ns = exchange.next_ns()
        if offers and (next_ns is None or offers[0][0] <= next_ns):
            exchange.now_ns, side = offers.pop(0)
            exchange.queues[side].append(packet(len(offers), luck.randrange(40, 900)))
        elif next_ns is None:
            break
        else:
            exchange.now_ns = next_ns
            exchange.step()
        assert exchange.now_ns < HOUR_NS, "never comes to rest"
    assert all(end.is_drained for end in exchange.ends.values())
    assert not any(exchange.queues.values())


def replies_acknowledged(link: PacketLink, luck: Random, *, seconds: float) -> list[int]:
    """Ask for one reply of 128 to 8192 bytes after the other, acknowledge every second packet of it.

    Returns
    -------
    list of int
        When the host heard the mobile.
    """
    heard, now_ns, asked_ns, questions, taken = [0], 0, 0, 0, 0
    waits = False
    while now_ns < seconds * NS_PER_S:
        if not waits or now_ns - asked_ns > 120 * NS_PER_S:
            link.send("mobile", packet(questions, 128), now_ns=now_ns)
            waits, asked_ns, questions = True, now_ns, questions + 1
        assert link.next_ns is not None
        now_ns = link.next_ns
        for side, data in link.advance(now_ns):
            if side == "mobile":
                taken += 1
                if taken % 2 == 0:
                    link.send("mobile", packet(ACK + taken, 64), now_ns=now_ns)
                waits = waits and number_of(data) != LAST
                continue
            heard.append(now_ns)
            if number_of(data) < ACK:
                octets = luck.randint(128, 8192)
                for left in range(octets, 0, -576):
                    number = LAST if left <= 576 else 0
                    link.send("fixed", packet(number, max(64, min(576, left))), now_ns=now_ns)
    return heard


@pytest.mark.parametrize("seed", [2, 3, 4])
def test_a_busy_cell_never_silences_the_mobile(seed: int) -> None:
    heard = replies_acknowledged(link_of(busy_cell(80), seed=seed), Random(seed), seconds=600)
    idle_gaps = [b - a for a, b in zip(heard, [*heard[1:], 600 * NS_PER_S], strict=True)]
    assert max(idle_gaps) < 200 * NS_PER_S  # seed 2 fell silent at 180 s for good, an ACK hid its T200


ROUGH: list[AnyLinkConfig] = [
    CdpdConfig(
        up=ErrorConfig(kind="independent", rate=0.1),
        cell=CellConfig(busy_percent=70, spread_percent=20, holds_ns=5 * NS_PER_S),
        mdlp=MdlpConfig(t200_ns=2 * NS_PER_S, n200=1),
        outages=OutageConfig(hop_every_ns=30 * NS_PER_S, ejection_every_ns=90 * NS_PER_S, blackout_every_ns=0),
    ),
    BluetoothConfig(
        errors=BitErrorConfig(good_s=1, bad_s=1, good_ber=1e-4, bad_ber=2e-2),
        rfcomm=RfcommConfig(credits=2, grant_at=1),
        supervision_ns=2 * NS_PER_S,
    ),
    Cdma2000Config(
        radio=Cdma2000RadioConfig(ecio_db=-12, deviation_db=6, speed_m_per_s=20),
        errors=ErrorMapConfig(fundamental_error_rate=0.3, supplemental_error_rate=0.5),
    ),
    replace(LinkConfig(), up=ErrorConfig(kind="independent", rate=0.2), down=ErrorConfig(rate=0.1)),
]


@given(config=st.sampled_from(ROUGH), seed=st.integers(0, 1 << 16), spread_s=st.floats(0, 60))
@examples(20)
def test_every_link_comes_to_rest(config: AnyLinkConfig, seed: int, spread_s: float) -> None:
    luck, link = Random(seed), link_of(config, seed=seed)
    times = sorted(round(luck.uniform(0, spread_s) * NS_PER_S) for _ in range(12))
    for number, now_ns in enumerate(times):
        link.advance(now_ns)
        link.send(luck.choice(SIDES), packet(number, luck.randrange(40, 900)), now_ns=now_ns)
    now_ns = times[-1]
    while not link.is_drained:
        assert link.next_ns is not None, "work, and nothing is going to happen"
        assert link.next_ns > now_ns or now_ns == times[-1], "what was due has not been done"
        now_ns = link.next_ns
        link.advance(now_ns)
        assert now_ns < times[-1] + HOUR_NS, "never comes to rest"
