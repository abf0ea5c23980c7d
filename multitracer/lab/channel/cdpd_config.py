"""The parameters of CDPD, Cellular Digital Packet Data, in a scenario.

The source of each number is beside it. *Primer*: Sierra's CDPD primer and lecture slides. *Paper 000, 001*:
the measurements and the model for which this link is made. *From memory*: the CDPD specification, release
1.1, whose text was not available. *Our choice*: low confidence. docs/links.md discusses the uncertainties.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from multitracer.errors import LocalProtocolError
from multitracer.lab.channel.shared.frame_errors import ErrorConfig
from multitracer.lab.channel.shared.packet_link import MOST_MOBILES
from multitracer.lab.channel.shared.queue import QueueConfig
from multitracer.units import NS_PER_MS, NS_PER_S

_MOST_MICROSLOTS = 10_000
_MOST_COUNT = 16
_MOST_BLOCKS = 10_000
_MOST_ATTEMPTS = 1_000
"""Bounds far from any real channel (our choice); beyond them a run would not end or would be meaningless."""


def _check(name: str, value: float, minimum: float, most: float) -> None:
    """Raise an error unless a value is a finite number from `minimum` to `most`."""
    if not minimum <= value <= most:
        raise LocalProtocolError(f'CDPD: "{name}" must be {minimum:,} to {most:,}, but is {value}')


@dataclass(frozen=True, slots=True, kw_only=True)
class AccessConfig:
    """DSMA/CD: how a mobile gets the reverse channel. Times are in microslots of 3.125 ms."""

    min_idle_microslots: int = 6
    """Min_Idle_Time: wait of a station after its own burst (from memory)."""
    max_entrance_delay_microslots: int = 35
    """Max_Entrance_Delay: if the channel is busy, wait 0 to this many microslots and check again (from memory)."""
    min_count: int = 4
    """Min_Count: after the first collision back off 0 to 2**count - 1 microslots (from memory)."""
    max_count: int = 8
    """Max_Count: the exponent grows with each collision up to this (from memory)."""
    max_blocks: int = 64
    """Maximum number of blocks in a burst (primer: 64 by default, 32 is common)."""
    max_attempts: int = 10
    """Consecutive collisions and undecoded blocks after which MDLP must recover the frame (our choice)."""
    flag_delay_microslots: int = 2
    """Age of the busy/idle flag that a mobile sees: two stations that start within it collide (our choice)."""

    def __post_init__(self) -> None:
        for name in ("min_idle_microslots", "max_entrance_delay_microslots", "flag_delay_microslots"):
            _check(name, getattr(self, name), 0, _MOST_MICROSLOTS)
        _check("max_count", self.max_count, 0, _MOST_COUNT)
        _check("min_count", self.min_count, 0, self.max_count)
        _check("max_blocks", self.max_blocks, 1, _MOST_BLOCKS)
        _check("max_attempts", self.max_attempts, 1, _MOST_ATTEMPTS)


@dataclass(frozen=True, slots=True, kw_only=True)
class CellConfig:
    """The other users of the reverse channel, who contend by the same rules."""

    busy_percent: float = 25.0
    """Mean share of time that their bursts would take if none collided (our choice: an average hour)."""
    spread_percent: float = 20.0
    """The load changes randomly, uniformly within busy_percent ± spread_percent (our choice)."""
    holds_ns: int = 60 * NS_PER_S
    """Mean duration of a load level (our choice)."""
    mean_blocks: float = 8.0
    """Mean length of their bursts, geometric, up to max_blocks.

    Our choice: a short packet has 3 blocks, a full one 18; a base station does not report it."""
    stations: int = 0
    """Number of other users; each has its own bursts, which wait while it sends (paper 001: up to 30 on a channel).

    0: every burst belongs to a new user, so that a busy cell has more collisions."""

    def __post_init__(self) -> None:
        _check("stations", self.stations, 0, MOST_MOBILES)
        if not 0 <= self.busy_percent - self.spread_percent <= self.busy_percent + self.spread_percent <= 90:
            raise LocalProtocolError(
                'CDPD cell: "busy_percent" minus "spread_percent" must be at least 0, and '
                '"busy_percent" plus "spread_percent" must be at most 90'
            )
        if not 1 <= self.mean_blocks <= _MOST_BLOCKS or self.holds_ns < 1:
            raise LocalProtocolError(
                f'CDPD cell: "mean_blocks" must be 1 to {_MOST_BLOCKS:,}, and each hold time must be above 0 s'
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class MdlpConfig:
    """Parameters of the data link between mobile and network (MDLP, like LAPD), and of the layer above it."""

    window: int = 15
    """Maximum unacknowledged frames (from memory, low confidence)."""
    t200_ns: int = 5 * NS_PER_S
    """Retransmission timer (from memory, low confidence)."""
    n200: int = 3
    """Consecutive unanswered polls before the link is set up again (from memory, low confidence)."""
    n201_octets: int = 130
    """Maximum number of octets of information in a frame (from memory)."""
    header_octets: int = 5
    """Address, control and one flag of each frame (from memory: 2, 2 and 1)."""
    sndcp_octets: int = 1
    """Header octets of each segment (from memory, low confidence)."""
    stuffing_percent: float = 1.6
    """Overhead of zero-bit insertion: random bits need 1 in 62, and encrypted data are random."""
    ack_every: int = 4
    """Number of received frames after which an acknowledgement is sent at once (our choice)."""
    ack_delay_ns: int = 300 * NS_PER_MS
    """Maximum time for which an acknowledgement waits for more frames (our choice)."""

    def __post_init__(self) -> None:
        if not 1 <= self.window <= 63 or self.n201_octets <= self.sndcp_octets or self.ack_every < 1:
            raise LocalProtocolError(
                'MDLP: "window" must be 1 to 63, "n201" must be larger than the segment header, '
                'and "ack_every" must be at least 1'
            )
        if min(self.header_octets, self.sndcp_octets, self.ack_delay_ns, self.n200) < 0 or self.t200_ns < 1:
            raise LocalProtocolError(
                'MDLP: "t200" must be above 0, and the other times, counts and lengths must be at least 0'
            )
        _check("stuffing_percent", self.stuffing_percent, 0, 100)


@dataclass(frozen=True, slots=True, kw_only=True)
class SignalConfig:
    """Received power at the mobile: a mean, and shadow fading in dB that is correlated in time."""

    mean_dbm: float = -85.0
    """Mean received power (our choice: a usable cell; -113 is the minimum in the paper's Figures 2 and 4)."""
    deviation_db: float = 7.0
    """Standard deviation of the signal (our choice: 6 to 8 dB are typical for shadowing)."""
    correlation_ns: int = 20 * NS_PER_S
    """Time after which the fading has changed by 1 - 1/e (our choice: a mobile at walking pace)."""
    zero_dbm: float = -113.0
    """Level that means no signal (paper 000, section IV); no block is decoded then."""

    def __post_init__(self) -> None:
        if self.correlation_ns < 1 or not self.deviation_db >= 0:
            raise LocalProtocolError(
                'CDPD signal: "correlation" must be above 0 s, and "deviation_db" must be at least 0'
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class OutageConfig:
    """Outages of the channel; intervals are exponential, and a mean interval of 0 means never."""

    hop_every_ns: int = 600 * NS_PER_S
    """Mean interval of forced channel hops: a voice call takes the channel (paper 001; the interval is our choice)."""
    hop_min_ns: int = 1 * NS_PER_S
    hop_max_ns: int = 10 * NS_PER_S
    """Maximum search time for the new channel; it is uniform from 1 s to this (from memory: 10 s)."""
    planned_hop_every_ns: int = 0
    """Interval of planned hops: the base station has sent for this time, which the operator sets (paper 001, without a
    value).

    The interval is always the same, from the end of one planned hop to the next; 0: there are none (our choice)."""
    planned_hop_min_ns: int = NS_PER_S // 2
    planned_hop_max_ns: int = 2 * NS_PER_S
    """Maximum search time after a planned hop, uniform (our choice: the base station says where it goes)."""
    ejection_every_ns: int = 1_800 * NS_PER_S
    """Mean interval of ejections: the modem must scan a wide range (paper 000: the peaks of the RTT; the interval is
    our choice)."""
    ejection_min_ns: int = 10 * NS_PER_S
    ejection_max_ns: int = 40 * NS_PER_S
    """Maximum time of the wide scan, uniform (our choice, low confidence)."""
    blackout_every_ns: int = 14_400 * NS_PER_S
    """Mean interval of blackouts (paper 001: several a day)."""
    blackout_min_ns: int = 10 * NS_PER_S
    blackout_max_ns: int = 600 * NS_PER_S
    """Maximum duration of a blackout (paper 001: 10 seconds to 10 minutes; log-uniform, our choice)."""

    def __post_init__(self) -> None:
        for minimum, most in (
            (self.hop_min_ns, self.hop_max_ns),
            (self.planned_hop_min_ns, self.planned_hop_max_ns),
            (self.ejection_min_ns, self.ejection_max_ns),
            (self.blackout_min_ns, self.blackout_max_ns),
        ):
            if not 0 < minimum <= most:
                raise LocalProtocolError(
                    "CDPD outages: the durations must be above 0 s, and the minimum must not be above the maximum"
                )
        every_ns = self.hop_every_ns, self.planned_hop_every_ns, self.ejection_every_ns, self.blackout_every_ns
        if min(every_ns) < 0:
            raise LocalProtocolError(
                "CDPD outages: each mean interval must be at least 0 s; 0 means that no outage occurs"
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class NetworkConfig:
    """The fixed network beyond the channel, in each direction."""

    backhaul_ns: int = 270 * NS_PER_MS
    """Delay of modem, base station and frame relay up to the router that ends MDLP.

    Our choice, so that the round trip of a short packet is that of paper 001: at least 0.8 s, 3/4 of it
    before the router."""
    fixed_ns: int = 80 * NS_PER_MS
    """Minimum delay from the router to the fixed host (our choice)."""
    jitter_ns: int = 40 * NS_PER_MS
    """Mean of an additional exponential delay; order is kept (our choice)."""
    loss_up: float = 0.02
    """Probability of loss beyond the channel, towards the fixed host (paper 001: 1 to 10 % in total)."""
    loss_down: float = 0.02
    """The same towards the mobile."""

    def __post_init__(self) -> None:
        if not (0 <= self.loss_up < 1 and 0 <= self.loss_down < 1):
            raise LocalProtocolError('CDPD network: "loss_up" and "loss_down" must each be at least 0 and below 1')
        if min(self.backhaul_ns, self.fixed_ns, self.jitter_ns) < 0:
            raise LocalProtocolError("CDPD network: both delays must be at least 0 s")


@dataclass(frozen=True, slots=True, kw_only=True)
class LossConfig:
    """Packet losses on the path after the channel, which no link layer repairs: the exponential model of paper 001.

    The number of packets between two losses is an exponential variable, rounded down; so each
    packet's loss is independent of all others.
    """

    down: float = 0.0
    """Probability towards the mobile (paper 001: 0, 0.04 and 0.06)."""
    up: float = 0.0
    """The same towards the fixed host."""

    def __post_init__(self) -> None:
        for name, rate in (("down", self.down), ("up", self.up)):
            _check(name, rate, 0, 1)


def _block_errors() -> ErrorConfig:
    return ErrorConfig(kind="gilbert-elliott", good_s=20.0, bad_s=1.0, good_rate=0.002, bad_rate=0.4)


_MIN_BITS_PER_S, _MOST_BITS_PER_S = 1_200, 10_000_000
"""Bounds of the rate (our choice): at the minimum a block lasts a third of a second, at the maximum 40 us."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CdpdConfig:
    """A CDPD channel, and the mobiles that share it."""

    mobiles: int = 1
    """Number of mobiles on the channel, each with its own radio, queues and data link."""
    bits_per_s: int = 19_200
    """Raw rate of the channel in each direction (primer); paper 001 tries 50,000, too."""
    recovery: Literal["mdlp", "none"] = "mdlp"
    """How lost frames are recovered.

    mdlp: coded blocks, and a data link that retransmits lost frames. none: the channel that paper 001 simulates. A
    packet is a frame, the channel carries its full rate, blocks are lost only in an outage or a scripted fade, and
    packets are lost behind the channel by `loss`. `up`, `down` and the losses of `network` apply only to "mdlp"."""
    queue: QueueConfig = field(default_factory=QueueConfig)
    """Queue before each channel, at the modem and at the router: deep buffers (papers 000 and 001)."""
    up: ErrorConfig = field(default_factory=_block_errors)
    """Errors of reverse blocks, at the base station (our choice: 2.1 % in the mean, most of them in bursts)."""
    down: ErrorConfig = field(default_factory=_block_errors)
    """Errors of forward blocks, at the mobile: its BLER."""
    access: AccessConfig = field(default_factory=AccessConfig)
    cell: CellConfig = field(default_factory=CellConfig)
    mdlp: MdlpConfig = field(default_factory=MdlpConfig)
    signal: SignalConfig = field(default_factory=SignalConfig)
    outages: OutageConfig = field(default_factory=OutageConfig)
    network: NetworkConfig = field(default_factory=NetworkConfig)
    loss: LossConfig = field(default_factory=LossConfig)
    """Losses of packets; only with recovery "none"."""
    report_ns: int = 5 * NS_PER_S
    """Interval over which the modem's BLER and cell busy readings are computed (our choice)."""

    def __post_init__(self) -> None:
        _check("mobiles", self.mobiles, 1, MOST_MOBILES)
        _check("bits_per_s", self.bits_per_s, _MIN_BITS_PER_S, _MOST_BITS_PER_S)
        if self.report_ns < 1:
            raise LocalProtocolError('"report" must be above 0 s')
        if self.recovery not in ("mdlp", "none"):
            raise LocalProtocolError(f'"recovery" must be "mdlp" or "none", but is {self.recovery!r}')
        self._refuse_errors_of_bits()
        self._refuse_losses_of_the_other_recovery()

    def _refuse_errors_of_bits(self) -> None:
        for name, errors in (("up", self.up), ("down", self.down)):
            if errors.kind == "bits":
                raise LocalProtocolError(
                    f'{name}: errors of the kind "bits" are possible only for a GSM data call; '
                    'choose the kind "gilbert-elliott"'
                )

    def _refuse_losses_of_the_other_recovery(self) -> None:
        """Raise an error for loss parameters that have no effect with the chosen `recovery`."""
        if self.recovery == "mdlp":
            if self.loss != LossConfig():
                raise LocalProtocolError(
                    '[link.loss] can be used only if "recovery" is "none"; for "mdlp" set '
                    '"loss_up" and "loss_down" of [link.network]'
                )
            return
        for name, errors in (("up", self.up), ("down", self.down)):
            if errors.kind != "none" and errors != _block_errors():
                raise LocalProtocolError(
                    f'{name}: this key has no effect if "recovery" is "none"; set "{name}" of [link.loss] instead'
                )
        network, typical = self.network, NetworkConfig()
        if network.loss_up not in (0, typical.loss_up) or network.loss_down not in (0, typical.loss_down):
            raise LocalProtocolError(
                '"loss_up" and "loss_down" of [link.network] have no effect if "recovery" is '
                '"none"; set "up" and "down" of [link.loss] instead'
            )
