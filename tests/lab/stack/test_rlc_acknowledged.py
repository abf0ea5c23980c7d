"""RLC in acknowledged mode: everything arrives once and in order, and only what was lost is sent again."""

from __future__ import annotations

from collections import deque
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from multitracer.errors import LocalProtocolError
from multitracer.lab.channel.gsm import LinkConfig
from multitracer.lab.rlp.acknowledged import AcknowledgedMode, AmConfig, _Status
from multitracer.lab.rlp.xid import RlpState
from multitracer.protocols.link_events import CallDropped, PieceSent
from tests.examples import examples

CONFIG = AmConfig(frame_octets=42, slot_ns=5_000_000, timer_ticks=30, most_transmissions=40)
PIPE_SLOTS = 12


class Pair:
    """Two ends and the PDUs between them; `lost(side, slot)` decides what the radio destroys."""

    def __init__(self, *, rate: float = 0.0, seed: int = 1, config: AmConfig = CONFIG) -> None:
        self.ends = [AcknowledgedMode(config), AcknowledgedMode(config)]
        self.pipes: list[deque[bytes | None]] = [deque([None] * PIPE_SLOTS) for _ in self.ends]
        self.received: list[list[bytes]] = [[], []]
        self.rate, self.luck, self.slot = rate, Random(seed), 0

    def tick(self) -> None:
        """Run one slot in both directions."""
        self.slot += 1
        now_ns = self.slot * CONFIG.slot_ns
        for end, pipe in zip(self.ends, self.pipes, strict=True):
            pipe.append(end.outgoing(now_ns))
        for side, pipe in enumerate(self.pipes):
            octets, far = pipe.popleft(), 1 - side
            self.ends[far].receive(None if self.luck.random() < self.rate else octets, now_ns)
            self.received[far] += self.ends[far].read()

    def transfer(self, count: int, *, slots: int = 20_000) -> list[bytes]:
        """Send `count` units from the first end; return them when all are acknowledged."""
        units = [number.to_bytes(4, "big").ljust(CONFIG.info_octets, b"x") for number in range(count)]
        waiting, near = deque(units), self.ends[0]
        for _ in range(slots):
            while waiting and near.ready:
                near.write(waiting.popleft(), offset_bytes=4 * (count - len(waiting)))
            self.tick()
            if not waiting and not near.unacked_bytes and not near.unsent_bytes:
                break
        return units

    def transmissions(self) -> int:
        return sum(isinstance(event, PieceSent) for event in self.ends[0].events())


@examples(30)
@given(rate=st.floats(0, 0.4), seed=st.integers(0, 2**32), count=st.integers(1, 700))
def test_all_units_arrive_once_and_in_order(rate: float, seed: int, count: int) -> None:
    pair = Pair(rate=rate, seed=seed)
    units = pair.transfer(count)
    assert pair.received[1] == units
    assert pair.ends[0].unacked_bytes == 0


def test_more_units_than_numbers_exist() -> None:
    pair = Pair(rate=0.02)
    units = pair.transfer(6000)
    assert pair.received[1] == units


def test_only_what_was_lost_is_sent_again() -> None:
    """Beside it the last one is, each time that the sender asks what has arrived."""
    pair = Pair(rate=0.1, seed=5)
    pair.transfer(2000)
    assert 2000 / 0.9 * 0.97 < pair.transmissions() < 2000 / 0.9 * 1.06


def test_a_burst_longer_than_one_status_lists_is_recovered() -> None:
    pair = Pair()
    dropped = iter(range(10**9))
    receive = pair.ends[1].receive
    pair.ends[1].receive = lambda octets, now_ns: receive(  # type: ignore[method-assign]
        None if 100 < (at := next(dropped)) < 400 and at % 2 else octets, now_ns
    )
    units = pair.transfer(500)
    assert pair.received[1] == units


def test_a_dead_radio_ends_the_link() -> None:
    pair = Pair(rate=1.0)
    pair.transfer(10)
    near = pair.ends[0]
    assert near.state is RlpState.DROPPED
    assert any(isinstance(event, CallDropped) for event in near.events())
    assert near.outgoing(10**12) is None


@given(before=st.integers(0, 4095), missing=st.lists(st.tuples(st.integers(0, 4095), st.integers(1, 16)), max_size=15))
def test_a_status_is_read_as_it_was_written(before: int, missing: list[tuple[int, int]]) -> None:
    status = _Status(before, tuple(missing))
    octets = status.encode(42)
    assert len(octets) == 42
    assert _Status.decode(octets) == status


def test_what_is_not_modelled_is_refused() -> None:
    with pytest.raises(LocalProtocolError, match='recovery = "am" is modelled only with'):
        LinkConfig(recovery="am")
    assert LinkConfig(recovery="am", when_exhausted="drop-call", frame_bits=336).payload_bytes == 39
    with pytest.raises(LocalProtocolError, match="not modelled"):
        AcknowledgedMode(CONFIG).reset(now_ns=0)
    with pytest.raises(LocalProtocolError, match="holds 40 octets"):
        AcknowledgedMode(CONFIG).write(bytes(41))
