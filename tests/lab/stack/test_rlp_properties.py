"""What RLP promises whatever the radio does: everything once, in order, until a reset; and a way back.

Invariants tested:

- Any pattern of destroyed frames short of a reset delivers both streams exactly.
- Random octets and mutated frames raise nothing, and once they end the link carries data again.
- The shortest fade that resets the link lasts N2 x T1.
"""

from __future__ import annotations

import random
from bisect import bisect_left
from typing import TYPE_CHECKING, Literal

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from multitracer.lab.rlp.entity import RlpEntity
from multitracer.lab.rlp.xid import Parameters, RlpConfig, RlpState
from multitracer.protocols.link_events import FrameSent, ResetStarted
from multitracer.protocols.rlp import FrameKind, decode, fcs24
from tests.examples import examples
from tests.lab.stack.rlp_talk import SLOT_NS, Radio

if TYPE_CHECKING:
    from collections.abc import Callable

Recovery = Literal["srej", "rej"]
PATIENT = Parameters(t1_ms=480, n2=255)


def _pair(mobile: RlpConfig | None = None, fixed: RlpConfig | None = None) -> tuple[RlpEntity, RlpEntity]:
    return (
        RlpEntity(mobile or RlpConfig(parameters=PATIENT)),
        RlpEntity(fixed or RlpConfig(role="fixed", parameters=PATIENT)),
    )


class Traffic:
    """Numbered units of which one always waits at one end, and what came out at the other."""

    def __init__(self, source: RlpEntity, sink: RlpEntity, units: int) -> None:
        self.source = source
        self.sink = sink
        self.units = units
        self.written = 0
        self.arrived: list[int] = []
        self.flushed: set[int] = set()
        """Units that a reset may have thrown away: what was not acknowledged just before it."""
        self._epoch = source.epoch
        self._at_risk = range(0)

    def move(self) -> None:
        if self.source.epoch != self._epoch:
            self._epoch = self.source.epoch
            self.flushed |= set(self._at_risk)
        waiting = self.source.unsent_bytes or self.source.state is not RlpState.ESTABLISHED
        if self.written < self.units and not waiting:
            self.source.write(self.written.to_bytes(4))
            self.written += 1
        self.arrived += [int.from_bytes(info[:4]) for info in self.sink.read()]
        pending = (self.source.unacked_bytes + self.source.unsent_bytes) // 4
        self._at_risk = range(self.written - pending, self.written)

    @property
    def is_complete(self) -> bool:
        return self.arrived == list(range(self.units))


def _errors(seed: int, share: float, burst: float, slots: int) -> Callable[[str, int], bool]:
    """Return a radio that loses about `share` of the frames in runs of about `burst`, for `slots` slots."""
    dice = random.Random(seed)
    bad = {"up": False, "down": False}

    def loses(direction: str, slot: int) -> bool:
        if slot >= slots:
            return False
        turn = 1 / burst if bad[direction] else share / (1 - share) / burst
        if dice.random() < turn:
            bad[direction] = not bad[direction]
        return bad[direction]

    return loses


def _transfer(radio: Radio[RlpEntity], units: tuple[int, int], slots: int) -> tuple[Traffic, Traffic]:
    up = Traffic(radio.mobile, radio.fixed, units[0])
    down = Traffic(radio.fixed, radio.mobile, units[1])
    radio.mobile.connect()
    for _ in range(slots):
        up.move()
        down.move()
        radio.step()
        if up.is_complete and down.is_complete and radio.mobile.unacked_bytes == 0:
            break
    return up, down


RECOVERIES = st.sampled_from(["srej", "rej"])


@examples(60)
@given(
    seed=st.integers(0, 2**32),
    share=st.floats(0.0, 0.6),
    burst=st.floats(1.0, 40.0),
    delay=st.integers(0, 11),
    recovery=st.tuples(RECOVERIES, RECOVERIES),
    window=st.integers(1, 61),
)
def test_any_pattern_of_errors_delivers_both_streams_exactly(
    seed: int, share: float, burst: float, delay: int, recovery: tuple[Recovery, Recovery], window: int
) -> None:
    parameters = Parameters(t1_ms=480, n2=255, window_ms_to_iwf=window)
    mobile, fixed = _pair(
        RlpConfig(parameters=parameters, recovery=recovery[0]),
        RlpConfig(role="fixed", parameters=parameters, recovery=recovery[1]),
    )
    radio = Radio(mobile, fixed, loses=_errors(seed, share, burst, 1500), delay=delay)
    up, down = _transfer(radio, (250, 120), 12_000)
    resets = [e for e in (*mobile.events(), *fixed.events()) if isinstance(e, ResetStarted)]
    assert resets == []
    assert up.is_complete
    assert down.is_complete


@examples(60)
@given(up=st.sets(st.integers(5, 150)), down=st.sets(st.integers(5, 150)))
@example(up=set(range(40, 101)), down=set())
@example(up=set(range(30, 92)), down=set(range(60, 120)))
def test_any_set_of_lost_frames_delivers_exactly(up: set[int], down: set[int]) -> None:
    lost = {"up": up, "down": down}
    radio = Radio(*_pair(), loses=lambda direction, slot: slot in lost[direction])
    one, other = _transfer(radio, (150, 40), 2_000)
    assert one.is_complete
    assert other.is_complete


@pytest.mark.slow
@examples(80)
@given(
    seed=st.integers(0, 2**32),
    share=st.floats(0.0, 0.5),
    resets=st.lists(st.tuples(st.integers(30, 700), st.sampled_from(["mobile", "fixed", "both"])), max_size=12),
    n2=st.sampled_from([1, 2, 6]),
    recovery=st.tuples(RECOVERIES, RECOVERIES),
)
@example(seed=0, share=0.0, resets=[(134, "both"), (145, "mobile"), (164, "mobile")], n2=1, recovery=("srej",) * 2)
def test_whatever_is_reset_nothing_comes_twice_and_nothing_is_lost_but_by_a_flush(
    seed: int, share: float, resets: list[tuple[int, str]], n2: int, recovery: tuple[Recovery, Recovery]
) -> None:
    parameters = Parameters(t1_ms=480, n2=n2)
    mobile, fixed = _pair(
        RlpConfig(parameters=parameters, recovery=recovery[0]),
        RlpConfig(role="fixed", parameters=parameters, recovery=recovery[1]),
    )
    radio = Radio(mobile, fixed, loses=_errors(seed, share, 3.0, 800))
    ways = Traffic(mobile, fixed, 10**6), Traffic(fixed, mobile, 10**6)
    for slot in range(1_400):
        for side, entity in (("mobile", mobile), ("fixed", fixed)):
            due = (slot, side) in resets or (slot, "both") in resets
            if due and entity.state is RlpState.ESTABLISHED:
                entity.reset(now_ns=slot * SLOT_NS)
        if mobile.state is fixed.state is RlpState.ATTACHED:
            mobile.connect()
        for way in ways:
            way.move()
        radio.step()
    marks = [way.written for way in ways]
    for _ in range(400):
        for way in ways:
            way.move()
        radio.step()
    for way, mark in zip(ways, marks, strict=True):
        assert way.arrived == sorted(set(way.arrived))
        assert set(range(way.arrived[-1])) - set(way.arrived) <= way.flushed
        assert way.arrived[-1] > mark + 300


def test_nothing_is_sent_twice_without_errors() -> None:
    radio = Radio(*_pair(), loses=lambda *_: False)
    up, _ = _transfer(radio, (500, 500), 2_000)
    assert up.is_complete
    sent = [e for e in (*radio.mobile.events(), *radio.fixed.events()) if isinstance(e, FrameSent)]
    assert {e.attempt for e in sent if decode(e.octets).kind is FrameKind.IS} == {1}


def test_the_link_runs_at_one_frame_a_slot() -> None:
    radio = Radio(*_pair(), loses=lambda *_: False)
    up, _ = _transfer(radio, (1_000, 0), 2_000)
    assert up.is_complete
    assert radio.slot < 1_000 + 4 * 19 + 5


# -- hostile input -------------------------------------------------------------------------------------


def _mutated(octets: bytes, dice: random.Random) -> bytes:
    """Return random octets, a frame with flipped bits, or one whose FCS fits what was done to it."""
    how = dice.randrange(4)
    if how == 0:
        return dice.randbytes(dice.choice([0, 1, 29, 30, 30, 31, 72]))
    body = bytearray(octets[:-3])
    for _ in range(dice.randrange(1, 4)):
        body[dice.randrange(3 if how > 1 else len(body))] ^= 1 << dice.randrange(8)
    fcs = fcs24(bytes(body)).to_bytes(3, "little") if how > 1 else octets[-3:]
    return bytes(body) + fcs


@examples(60)
@given(seed=st.integers(0, 2**32), share=st.floats(0.01, 1.0))
def test_mutated_frames_raise_nothing_and_the_link_recovers(seed: int, share: float) -> None:
    mobile, fixed = _pair(RlpConfig(), RlpConfig(role="fixed"))
    dice = random.Random(seed)
    radio = Radio(mobile, fixed, loses=lambda *_: False)
    _transfer(radio, (50, 50), 80)
    for entity in (mobile, fixed):
        for _ in range(100):
            if dice.random() < share:
                frame = entity.outgoing(radio.slot * SLOT_NS)
                entity.receive(_mutated(frame or bytes(30), dice), radio.slot * SLOT_NS)
            else:
                radio.step()
        mobile.read()
        fixed.read()
    _recover(radio)
    mobile.read()
    fixed.read()
    later = Traffic(mobile, fixed, 100)
    for _ in range(500):
        later.move()
        radio.step()
    assert later.is_complete


def _recover(radio: Radio[RlpEntity]) -> None:
    """Let the link find its own way back, by writing until both ends have carried a probe through."""
    for _ in range(40):
        for entity in (radio.mobile, radio.fixed):
            if entity.state is RlpState.ATTACHED and entity is radio.mobile:
                entity.connect()
            if entity.state is RlpState.ESTABLISHED and entity.ready:
                entity.write(b"\xff probe")
        for _ in range(60):
            radio.step()
    assert radio.mobile.state is radio.fixed.state is RlpState.ESTABLISHED


@examples(60)
@given(st.lists(st.binary(min_size=30, max_size=30) | st.none(), max_size=60))
def test_random_octets_raise_nothing(received: list[bytes | None]) -> None:
    mobile, _ = _pair()
    mobile.connect()
    for slot, octets in enumerate(received):
        mobile.outgoing(slot * SLOT_NS)
        mobile.receive(octets, slot * SLOT_NS)


# -- fades ---------------------------------------------------------------------------------------------


def _resets(fade_slots: int, n2: int, directions: str) -> bool:
    parameters = Parameters(t1_ms=480, n2=n2)
    mobile, fixed = _pair(RlpConfig(parameters=parameters), RlpConfig(role="fixed", parameters=parameters))
    fade = range(200, 200 + fade_slots)
    radio = Radio(mobile, fixed, loses=lambda way, slot: way in directions and slot in fade)
    up = Traffic(mobile, fixed, 10**6)
    mobile.connect()
    for _ in radio.run(200 + fade_slots + 100):
        up.move()
    return any(isinstance(event, ResetStarted) for event in mobile.events())


@pytest.mark.parametrize("directions", ["up", "down", "up and down"])
@pytest.mark.parametrize("n2", [6, 10, 20])
def test_the_shortest_fade_that_resets_lasts_n2_times_t1(n2: int, directions: str) -> None:
    expected = n2 * 24
    lengths = range(expected // 2, expected * 2)
    shortest = lengths[bisect_left(lengths, 1, key=lambda n: _resets(n, n2, directions))]
    assert shortest == pytest.approx(expected, rel=0.1)
    assert _resets(shortest + 5, n2, directions)
