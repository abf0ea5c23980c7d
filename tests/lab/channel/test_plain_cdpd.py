"""Paper 001's channel: whole packets at the full rate, and losses that nothing recovers."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from math import sqrt

import pytest

from multitracer.errors import LocalProtocolError
from multitracer.lab.channel.cdpd import CdpdLink
from multitracer.lab.channel.cdpd_config import CdpdConfig, LossConfig, MdlpConfig, NetworkConfig, SignalConfig
from multitracer.lab.channel.shared.frame_errors import ErrorConfig
from multitracer.lab.channel.shared.scheduler import ScriptEvent
from multitracer.protocols.link_events import BurstSent, PacketDropped, PieceLost, PieceSent
from multitracer.units import NS_PER_S
from tests.lab.channel.cell import MDLP, Fates, between, full, plain
from tests.narrowed import of_kind

DOWN, UP = ("fixed", "mobile"), ("mobile", "fixed")


@pytest.mark.parametrize("bits_per_s", [19_200, 50_000])
def test_the_channel_carries_its_full_rate_down(bits_per_s: int) -> None:
    fates = full(CdpdLink(plain(bits_per_s=bits_per_s), seed=1), [DOWN], seconds=200)
    times = sorted(fates.arrived_ns.values())
    rate = (len(times) - 1) / ((times[-1] - times[0]) / NS_PER_S)
    assert rate == pytest.approx(bits_per_s / 4000, rel=0.01)
    assert not fates.lost


def test_up_a_burst_costs_its_preamble_and_a_pause_but_no_code() -> None:
    fates = full(CdpdLink(plain(), seed=1), [UP], seconds=200)
    assert 0.93 * 4.8 < len(fates.arrived_ns) / 200 < 4.8


def test_with_recovery_a_faster_channel_carries_as_much_more_if_the_window_allows() -> None:
    """15 frames of MDLP are on the way for a round trip of the backhaul: 17 kb/s."""
    config = replace(MDLP, mdlp=MdlpConfig(window=63, t200_ns=60 * NS_PER_S))
    links = (CdpdLink(replace(config, bits_per_s=rate), seed=1) for rate in (19_200, 50_000))
    slow, fast = (len(full(link, [DOWN], seconds=200, ahead=20).arrived_ns) for link in links)
    assert fast / slow == pytest.approx(50_000 / 19_200, rel=0.05)


def test_a_packet_of_500_bytes_is_one_piece() -> None:
    fates = full(CdpdLink(plain(), seed=1), [DOWN, UP], seconds=60)
    for host in ("mobile", "fixed"):
        chunks = of_kind(PieceSent, fates.events[host])
        assert {(chunk.wire_bytes, chunk.attempts, chunk.cause) for chunk in chunks} == {(500, 1, "")}
        assert [b.offset_bytes - a.offset_bytes for a, b in pairwise(chunks)] == [500] * (len(chunks) - 1)


@pytest.mark.parametrize(("way", "rate"), [(DOWN, 0.04), (UP, 0.06), (DOWN, 0.5)])
def test_packets_are_lost_independently_at_the_rate_asked_for(way: tuple[str, str], rate: float) -> None:
    config = plain(bits_per_s=1_000_000, up=rate if way == UP else 0, down=rate if way == DOWN else 0)
    fates = full(CdpdLink(config, seed=1), [way, (way[1], way[0])], seconds=60, ahead=14)
    numbers = [number for number, each in fates.ways.items() if each == way and number not in fates.inside]
    gone = [number in fates.lost for number in numbers]
    count, share = len(gone), sum(gone) / len(gone)
    assert count > 1000
    assert share == pytest.approx(rate, abs=4 * sqrt(rate * (1 - rate) / count))
    after_a_loss = [b for a, b in pairwise(gone) if a]
    minimum = max(1, len(after_a_loss))
    assert sum(after_a_loss) / minimum == pytest.approx(rate, abs=4 * sqrt(rate * (1 - rate) / minimum))
    assert set(fates.lost.values()) == {"loss"}
    assert all(fates.ways[number] == way for number in fates.lost)


def test_a_packet_is_lost_behind_the_channel_which_it_has_used() -> None:
    lossless, lossy = (full(CdpdLink(plain(down=rate), seed=1), [DOWN], seconds=100, ahead=12) for rate in (0.0, 0.5))
    sent = [len(of_kind(PieceSent, fates.events["fixed"])) for fates in (lossless, lossy)]
    assert sent[0] == pytest.approx(sent[1], abs=3)
    assert of_kind(PieceLost, lossy.events["mobile"])


def test_bad_radio_and_weak_signal_lose_nothing_but_a_blackout_does() -> None:
    config = replace(plain(), up=CdpdConfig().up, down=CdpdConfig().down, signal=SignalConfig(mean_dbm=-140))
    assert not full(CdpdLink(config, seed=1), [DOWN, UP], seconds=100).lost
    blackout = ScriptEvent(kind="blackout", at_s=20, duration_s=13)
    fates = full(CdpdLink(config, seed=1, script=[blackout]), [DOWN], seconds=100)
    assert len(fates.lost) == pytest.approx(13 * 4.8, abs=2)  # back to back, as in Figure 1
    assert list(fates.lost.values()).count("outage") >= len(fates.lost) - 1  # the last one ends after it
    lost = sorted(fates.lost)
    assert lost == list(range(lost[0], lost[-1] + 1))


def test_queues_hold_15_packets_at_the_modem_and_at_the_router() -> None:
    fates = Fates(CdpdLink(replace(plain(), network=NetworkConfig(jitter_ns=0)), seed=1))
    for _ in range(30):
        fates.send(UP)
        fates.send(DOWN)
    fates.step(60 * NS_PER_S)
    for way, host, on_air in ((UP, "mobile", 1), (DOWN, "fixed", 0)):  # the modem has begun with the first
        dropped = [e.cause for e in of_kind(PacketDropped, fates.events[host])]
        assert dropped == ["full"] * (15 - on_air)
        assert fates.delivered()[way] == 15 + on_air


def test_bursts_up_end_after_their_most_blocks() -> None:
    fates = full(CdpdLink(plain(), seed=1), [UP], seconds=60, ahead=12)
    assert max(burst.blocks for burst in of_kind(BurstSent, fates.events["mobile"])) == 64


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"recovery": "arq"}, '"recovery" must be "mdlp" or "none", but is \'arq\''),
        ({"recovery": "mdlp", "loss": LossConfig(down=0.1)}, 'can be used only if "recovery" is "none"'),
        ({"down": ErrorConfig(kind="independent", rate=0.1)}, r"down: this key has no effect if"),
        ({"network": NetworkConfig(loss_up=0.1)}, r'set "up" and "down" of'),
    ],
)
def test_losses_of_the_other_recovery_are_refused(changes: dict[str, object], says: str) -> None:
    with pytest.raises(LocalProtocolError, match=says):
        replace(plain(), **changes)  # type: ignore[arg-type]


def test_any_bytes_pass_up_and_an_only_mobile_gets_all() -> None:
    link = CdpdLink(plain(), seed=1)
    for data in (b"", b"\x45", between(("fixed", "mobile-9"), 1), bytes(3000)):
        link.send("mobile", data, now_ns=0)
        link.send("fixed", data, now_ns=0)
    out = link.advance(60 * NS_PER_S)
    assert sorted(len(d.packet) for d in out) == [0, 0, 1, 1, 500, 500, 3000, 3000]
    assert link.is_drained
