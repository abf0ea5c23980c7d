"""The parameters of a Bluetooth 1.1 link with PPP over RFCOMM in a scenario.

Where a number comes from stands beside it. *Baseband*: the packet table of Bluetooth 1.1, checked. *Memory*:
of the specification 1.1, whose text was not at hand. *Ours*: chosen, low confidence.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal, NamedTuple

from multitracer.errors import LocalProtocolError
from multitracer.lab.channel.shared.queue import QueueConfig
from multitracer.units import NS_PER_MS, NS_PER_S, NS_PER_US

SLOT_NS = 625 * NS_PER_US
"""A Bluetooth slot (baseband)."""


class PacketType(NamedTuple):
    """An ACL packet of the baseband."""

    name: str
    slots: int
    payload_octets: int
    """Most user octets, payload header and CRC not counted."""
    coded: bool
    """Whether a (15,10) Hamming code corrects one bit in each 15."""


PACKET_TYPES = (
    PacketType("DM1", 1, 17, True),
    PacketType("DH1", 1, 27, False),
    PacketType("DM3", 3, 121, True),
    PacketType("DH3", 3, 183, False),
    PacketType("DM5", 5, 224, True),
    PacketType("DH5", 5, 339, False),
)
"""Baseband: with two DH5 in turn 433.9 kb/s each way, with DH5 against DH1 723.2 and 57.6."""

MaxType = Literal["DM1", "DH1", "DM3", "DH3", "DM5", "DH5"]


@dataclass(frozen=True, slots=True, kw_only=True)
class BitErrorConfig:
    """Bit errors both ways: two states, exponential times, each with its own rate; or a recording."""

    kind: Literal["two-states", "replay"] = "two-states"
    """replay: a packet is lost if one of its slots failed in a recording; the other keys have no effect."""
    good_s: float = 30.0
    bad_s: float = 0.5
    """Mean times (ours: another device's interference now and then)."""
    good_ber: float = 1e-6
    """Ours; 0.1 % is what a receiver must do at its sensitivity, and a desk is far better (memory)."""
    bad_ber: float = 1e-4
    """Ours: every fourth DH5 fails."""
    replayed_up: tuple[tuple[int, int], ...] = ()
    """Replay: (first failed slot, slots) from the mobile, ascending, as in an error trace."""
    replayed_down: tuple[tuple[int, int], ...] = ()
    """... to the mobile."""
    repeat_slots: int = 0
    """Replay: the recording begins again after so many slots; 0: after it the radio is perfect."""

    def __post_init__(self) -> None:
        last = max((sum(runs[-1]) for runs in (self.replayed_up, self.replayed_down) if runs), default=0)
        if self.repeat_slots < 0 or 0 < self.repeat_slots < last:
            raise LocalProtocolError(
                "Bluetooth errors: repeat_slots is 0, or not before the last failed slot"
            )
        if min(self.good_s, self.bad_s) <= 0 or not 0 <= self.good_ber <= self.bad_ber < 0.5:
            raise LocalProtocolError("Bluetooth errors: times above 0, 0 <= good_ber <= bad_ber < 0.5")


@dataclass(frozen=True, slots=True, kw_only=True)
class RfcommConfig:
    """RFCOMM with credit-based flow control, and PPP in it."""

    n1_octets: int = 127
    """N1: most octets of information in a frame (RFCOMM 1.1's default)."""
    credits: int = 7
    """Frames that the far end may send before it is granted more (memory: 7 is the most at set-up)."""
    grant_at: int = 3
    """Credits are granted when so many frames were taken (ours)."""
    accm: int = 0
    """Control characters that PPP escapes (RFC 1662)."""

    def __post_init__(self) -> None:
        if not 1 <= self.n1_octets <= 32_767 or not 1 <= self.grant_at <= self.credits <= 255:
            raise LocalProtocolError("RFCOMM: n1 is 1 to 32767, 1 <= grant_at <= credits <= 255")


@dataclass(frozen=True, slots=True, kw_only=True)
class BluetoothSignalConfig:
    """Received power at the mobile: a mean and slow fading in dB, correlated in time."""

    mean_dbm: float = -55.0
    """Ours: the same room, class 2."""
    deviation_db: float = 3.0
    """Ours."""
    correlation_ns: int = 10 * NS_PER_S
    """Ours."""
    sensitivity_dbm: float = -70.0
    """At or below it the bit error rate is 0.1 % (baseband: what a receiver must do at -70 dBm)."""
    zero_dbm: float = -113.0
    """The least that is reported."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BluetoothConfig:
    """A piconet of two: the fixed end (access point) is the master, the mobile its slave."""

    queue: QueueConfig = field(default_factory=QueueConfig)
    """Interface queue above PPP, at each end."""
    up: MaxType = "DH5"
    """Longest packet from the mobile; the shortest one of the same family that holds the data is used."""
    down: MaxType = "DH5"
    """... to the mobile. DH5 and DH5: 432 kb/s each way; DH1 up and DH5 down: 57.6 and 721."""
    poll_slots: int = 40
    """The master polls an idle slave so often (memory: 40 slots, 25 ms, by default)."""
    sniff_slots: int = 0
    """Sniff mode: an idle slave listens once in so many slots, until there are data; 0: active mode."""
    sniff_after_ns: int = 1 * NS_PER_S
    """Idle time after which sniff mode begins (ours)."""
    host_ns: int = 2 * NS_PER_MS
    """Each packet's way through controller, driver and stack, at either end (ours)."""
    supervision_ns: int = 20 * NS_PER_S
    """Nothing heard for so long: the connection is lost (baseband's default, 20 s)."""
    reconnect_ns: int = 3 * NS_PER_S
    """Paging, RFCOMM and PPP anew, once the radio is back (ours)."""
    errors: BitErrorConfig = field(default_factory=BitErrorConfig)
    rfcomm: RfcommConfig = field(default_factory=RfcommConfig)
    signal: BluetoothSignalConfig = field(default_factory=BluetoothSignalConfig)
    report_ns: int = 1 * NS_PER_S
    """The packet error rate of a reading is that of the last so many seconds (ours)."""

    def __post_init__(self) -> None:
        if self.poll_slots < 2 or self.sniff_slots < 0:
            raise LocalProtocolError("Bluetooth: poll_slots is at least 2, sniff_slots at least 0")
