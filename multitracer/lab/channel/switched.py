"""A link that is up while the received power is above a threshold: paper 002's link between two nodes.

Input: IP packets at two sides, a `SwitchedConfig`, a script and a seed. Output: packets, events and
readings. The power is known before the run: `multitracer.lab.channel.ray` computes it, or
`parse_power_trace` has read it. `SwitchedLink` goes up and down where the power crosses the threshold, and
carries packets at a fixed rate in each direction.

What must hold: a packet arrives only if the link was up from its first bit to its last; everything happens in
order of one scheduler, at times that do not depend on how often the driver calls.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from itertools import count
from math import isfinite
from typing import TYPE_CHECKING, ClassVar, Literal, NamedTuple

import numpy as np

from multitracer.errors import FormatError, LocalProtocolError
from multitracer.lab.channel.link_status import is_link_status, parse_link_status
from multitracer.lab.channel.ray import Channel, channel_of, switches
from multitracer.lab.channel.ray_scene import (
    MOST_STEPS,
    BuildingConfig,
    NodeConfig,
    RayConfig,
    RayRadioConfig,
    RoadConfig,
    StreetConfig,
    WallConfig,
)
from multitracer.lab.channel.shared.interface import LinkInterface, SideJournal, ip_facts
from multitracer.lab.channel.shared.outages import OutageProcess
from multitracer.lab.channel.shared.packet_link import FAR, SIDES, LinkDelivery, RadioReading, one_of_two
from multitracer.lab.channel.shared.queue import QueueConfig, named
from multitracer.lab.channel.shared.scheduler import Agenda, Script
from multitracer.lab.channel.shared.snoop import SnoopAgent
from multitracer.protocols.link_events import (
    OutageEnded,
    OutageStarted,
    PacketDropped,
    PieceLost,
    PieceReceived,
    PieceSent,
)
from multitracer.units import NS_PER_MS, NS_PER_S, NS_PER_US

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from multitracer.lab.channel.shared.outages import OutageKind
    from multitracer.lab.channel.shared.packet_link import HostName, Side
    from multitracer.lab.channel.shared.scheduler import ScriptEvent
    from multitracer.protocols.link_events import LinkEvent
    from multitracer.schemas.schema import Document
    from multitracer.tables import Array

# A power trace: received power at even steps, as text, to let a link be up and down as it was.
#
#     time_s,power_dbm
#     0,-46.93
#     0.001,-46.95
#
# The first line of numbers is the begin of the link, whatever its time; each power holds until the next one.
# The file does not say whether its power was measured or computed, nor below which threshold a link was down.
# Instead of power, a file can say when the link is up and down (`link_status.py`).


POWER_HEADER = "time_s,power_dbm"
MOST_POWER_BYTES = 40 * MOST_STEPS
"""Maximum size of a power trace file in bytes: two numbers per line."""
_MOST_S = 1e10
"""Maximum time, three hundred years: times since 1970 are below it."""
_LONGEST_S = 1e9
"""Maximum length, thirty years: its ns fit into int64 many times."""
_MOST_DBM = 1000.0
"""Maximum absolute power in dBm; no radio comes near it (not measured)."""
_UNEVEN = 0.1
"""Maximum deviation of a time from the even grid, in steps (not measured): less than the resolution of a step."""


class PowerTrace:
    """Received power over time, which the traffic does not influence.

    Parameters
    ----------
    channel : Channel
        The steps, at least one.
    is_status : bool
        Whether the file has no power, but the times at which the link goes up and down.
    """

    def __init__(self, channel: Channel, *, is_status: bool = False) -> None:
        self.channel = channel
        self.is_status = is_status

    def __eq__(self, other: object) -> bool:
        """Return whether another trace has the same steps and powers."""
        return (
            isinstance(other, PowerTrace)
            and self.channel.step_ns == other.channel.step_ns
            and np.array_equal(self.channel.power_dbm, other.channel.power_dbm)
        )

    def __hash__(self) -> int:
        return hash((self.channel.step_ns, len(self.channel.power_dbm)))

    def __deepcopy__(self, memo: object) -> PowerTrace:
        """Return the trace itself, because it is immutable."""
        return self

    @property
    def lasts_ns(self) -> int:
        """Length of the trace in ns: its last power also lasts one step."""
        return self.channel.step_ns * len(self.channel.power_dbm)

    def facts(self) -> Document:
        """Return the number of steps and their length, for the manifest."""
        return {"steps": len(self.channel.power_dbm), "step_ns": self.channel.step_ns}


def parse_power_trace(text: str, *, path: str) -> PowerTrace:
    """Return the power trace in `text`.

    Parameters
    ----------
    text : str
        The complete file: received power, a link status, or ns-2's commands for a link that goes up and down.
    path : str
        Name of the file, for messages.

    Raises
    ------
    FormatError
        If its first line is wrong, a line is not two finite numbers, times decrease or are not evenly
        spaced (within a tenth of a step), or there are fewer than two or more than a million.
    """
    if is_link_status(text):
        return PowerTrace(parse_link_status(text, path=path).channel(), is_status=True)
    header, _, rest = text.partition("\n")
    if header.strip() != POWER_HEADER:
        reason = f"does not begin with the line {POWER_HEADER}; `testbed channel` writes such files"
        raise FormatError(path, reason, line=1)
    steps = rest.count("\n") + bool(rest and not rest.endswith("\n"))
    if not 2 <= steps <= MOST_STEPS:
        raise FormatError(
            path, f"a power trace must have 2 to {MOST_STEPS:,} lines of numbers, but this file has {steps:,}"
        )
    lines = rest.removesuffix("\n").split("\n")
    cells = np.array([_numbers(line, path, at) for at, line in enumerate(lines, 2)])
    power_dbm = cells[:, 1].copy()
    power_dbm.flags.writeable = False
    return PowerTrace(Channel(_step_ns(cells[:, 0], path), power_dbm))


def _numbers(line: str, path: str, at: int) -> tuple[float, float]:
    try:
        time_s, power_dbm = map(float, line.split(","))
    except ValueError:
        time_s = power_dbm = float("nan")
    if not (isfinite(time_s) and isfinite(power_dbm)):
        raise FormatError(
            path,
            "each line must have two numbers (time in s, received power in dBm)",
            line=at,
            excerpt=line[:80].encode(),
        )
    if abs(time_s) > _MOST_S or abs(power_dbm) > _MOST_DBM:
        reason = f"a time beyond {_MOST_S:g} s or a power beyond {_MOST_DBM:g} dBm"
        raise FormatError(path, reason, line=at, excerpt=line[:80].encode())
    return time_s, power_dbm


def _step_ns(times_s: Array, path: str) -> int:
    """Return the time between two lines in ns; raise an error if it is not constant."""
    back = np.flatnonzero(np.diff(times_s) < 0)
    if len(back):
        at = int(back[0])
        reason = f"time decreases from {times_s[at]:.10g} to {times_s[at + 1]:.10g} s; sort the trace"
        raise FormatError(path, reason, line=at + 3)
    step_s = (times_s[-1] - times_s[0]) / (len(times_s) - 1)
    step_ns = round(float(step_s) * NS_PER_S)
    off = np.abs(times_s - times_s[0] - np.arange(len(times_s)) * step_s) > _UNEVEN * step_s
    if step_ns < 1 or off.any():
        at = int(np.argmax(off))
        reason = f"times must be evenly spaced: a line every {step_s:.10g} s"
        raise FormatError(path, reason, line=at + 2)
    if step_s * len(times_s) > _LONGEST_S:
        raise FormatError(
            path, f"the power trace must not last longer than {_LONGEST_S:g} s; check that its times are in seconds"
        )
    return step_ns


# The parameters of a switched link in a scenario; where a number comes from stands beside it.
#
# *Paper*: paper 002. *Ours*: the paper gives none.


_MOST_BITS_PER_S = 1_000_000_000
"""Maximum rate (not measured): a packet of 1500 bytes takes 12 us, and one second takes a minute to compute."""
_MIN_STEP_NS = NS_PER_MS // 10
"""Minimum step of a power trace: at most 10,000 changes per second (not measured)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SwitchedConfig:
    """A link of two nodes that is up, in both directions, while the received power is above a threshold."""

    LISTS: ClassVar[dict[str, type]] = {"wall": WallConfig, "building": BuildingConfig}
    """Tables that may occur several times in a scenario, as `[[link.wall]]`."""

    queue: QueueConfig = field(default_factory=QueueConfig)
    """Interface queue at each end."""
    bits_per_s: int = 2_000_000
    """Rate of each direction (paper: 2 Mb/s; separate rates for the directions are our choice)."""
    delay_ns: int = NS_PER_US
    """Propagation delay (our choice: 300 m; the paper says that it does not matter)."""
    threshold_dbm: float = -75.0
    """Power below which the link is down (paper, scenarios 1 and 2)."""
    when_down: Literal["flush", "send", "hold"] = "flush"
    """What happens to packets while the link is down.

    flush: waiting and new packets are lost, as in the simulator of the paper. send: they are sent and lost.
    hold: they wait."""
    snoop: bool = False
    """Whether a base station at the fixed end repeats lost data to the mobile itself (paper 002, its conclusion).

    The wire between base station and fixed host adds nothing (our choice)."""
    power: PowerTrace | None = None
    """A power trace, named by `power` in a scenario; it replaces the geometry (our choice)."""
    at_end: Literal["repeat", "stop"] = "repeat"
    """What happens at the end of a power trace: repeat the trace, or end the link and the run."""
    radio: RayRadioConfig = field(default_factory=RayRadioConfig)
    mobile: NodeConfig = field(default_factory=lambda: NodeConfig(x_m=10.0))
    fixed: NodeConfig = field(default_factory=NodeConfig)
    street: StreetConfig = field(default_factory=StreetConfig)
    road: RoadConfig = field(default_factory=RoadConfig)
    wall: tuple[WallConfig, ...] = ()
    building: tuple[BuildingConfig, ...] = ()

    def __post_init__(self) -> None:
        if not 1 <= self.bits_per_s <= _MOST_BITS_PER_S:
            raise LocalProtocolError(f'"bits_per_s" must be 1 to {_MOST_BITS_PER_S:,}, but is {self.bits_per_s}')
        if not 0 <= self.delay_ns <= NS_PER_S:
            raise LocalProtocolError('"delay" must be 0 to 1 s')
        if not -300 <= self.threshold_dbm <= 300:
            raise LocalProtocolError(f'"threshold_dbm" must be -300 to 300, but is {self.threshold_dbm:g}')
        self._check_power()

    def _check_power(self) -> None:
        """Raise an error for keys that exclude each other.

        These are a power trace together with a geometry, a trace with too short steps, and `at_end` without a trace.
        """
        if self.power is None:
            if self.at_end != "repeat":
                raise LocalProtocolError(
                    '"at_end" requires a power trace; name a trace with the key "power", or remove "at_end"'
                )
            return
        if self.ray != RayConfig():
            raise LocalProtocolError(
                '"power" names a power trace, so "radio", "nodes", "walls" and "cars" have '
                'no effect; remove "power", or remove these other keys'
            )
        step_ns = self.power.channel.step_ns
        if step_ns < _MIN_STEP_NS:
            raise LocalProtocolError(
                f"the time step of the power trace must be at least {_MIN_STEP_NS / NS_PER_MS:g} ms, "
                f"but is {step_ns / NS_PER_MS:g} ms"
            )

    @property
    def ray(self) -> RayConfig:
        """Return the geometry from which the power is computed."""
        return RayConfig(
            radio=self.radio,
            mobile=self.mobile,
            fixed=self.fixed,
            street=self.street,
            road=self.road,
            wall=self.wall,
            building=self.building,
        )

    def channel(self, *, seed: int) -> Channel:
        """Return the received power: that of the power trace, or else that computed by `channel_of`.

        Errors of `channel_of` are raised.
        """
        return channel_of(self.ray, seed=seed) if self.power is None else self.power.channel

    def air_ns(self, packet: bytes) -> int:
        """Return the transmission time of a packet in ns; for example 6 ms for 1500 bytes at 2 Mbit/s."""
        return len(packet) * 8 * NS_PER_S // self.bits_per_s


# A link that is up while the received power is above a threshold.
#
#     interface queue → air, one packet after the other at a fixed rate → the other end
#
# A packet arrives if the link was up from its first bit to its last. What becomes of the others in a fade is
# `when_down`. Both directions go up and down together and do not share the rate (docs/ray_channel.md).


_KINDS = {"drop", "blackout"}


class _OnAir(NamedTuple):
    """A packet that one side is sending."""

    side: Side
    packet: bytes
    about: tuple[int, int, int | None, int | None]
    """Octets, offset in the stream of its side, IP identification and TCP sequence number."""
    air_ns: int
    """Time on air in ns, from the first bit to the last."""
    falls: int | None
    """Number of times the link had gone down before the first bit; None if the link was down then."""


class SwitchedLink:
    """A `PacketLink` between two nodes of a ray-traced channel.

    Parameters
    ----------
    config : SwitchedConfig
    seed : int
        The same seed gives the same power.
    script : sequence of ScriptEvent
        drop and blackout, counted from the first packet.

    Raises
    ------
    LocalProtocolError
        If the positions of the nodes are impossible (`channel_of`), or the link is never up.
    """

    def __init__(self, config: SwitchedConfig, *, seed: int, script: Sequence[ScriptEvent] = ()) -> None:
        self.config = config
        self.channel: Channel = config.channel(seed=seed)
        _check_up(self.channel, config)
        self._is_above, self._switches = _switch_times(self.channel, config)
        self.is_up = self._is_above
        """Whether the link is up: power above the threshold, no blackout, and the trace not ended."""
        self.is_dropped = False
        """Whether the link has ended, with a power trace that does not repeat."""
        self._agenda = Agenda()
        self._out: list[LinkDelivery] = []
        self._journals = {side: SideJournal(NS_PER_MS) for side in SIDES}
        self._interfaces = {side: LinkInterface(config.queue, self._journals[side].add) for side in SIDES}
        self._sent_bytes = dict.fromkeys(SIDES, 0)
        self._sending = dict.fromkeys(SIDES, False)
        self._in_transit = 0
        self._falls = 0
        self._snoop = SnoopAgent(self._agenda, partial(self._offer, "fixed")) if config.snoop else None
        self._outages = OutageProcess([], agenda=self._agenda, seed=f"{seed} switched", changed=self._outage)
        self._script = Script(script, kinds=_KINDS, agenda=self._agenda, play=self._play)
        self._plan_switch()
        if config.power is not None and config.at_end == "stop":
            self._agenda.at(config.power.lasts_ns, self._stop)

    # --- packets ---

    @property
    def hosts(self) -> tuple[HostName, ...]:
        """Names of the link's two hosts."""
        return SIDES

    @property
    def next_ns(self) -> int | None:
        """Link time of the next event in ns; None if no event is scheduled."""
        return self._agenda.next_ns

    @property
    def first_up_ns(self) -> int:
        """Link time at which the power first reaches the threshold."""
        above = self.channel.power_dbm >= self.config.threshold_dbm
        return int(above.argmax()) * self.channel.step_ns

    @property
    def is_drained(self) -> bool:
        """Whether no packet waits or is on the air."""
        return self._in_transit == 0 and not any(len(each.queue) for each in self._interfaces.values())

    def send(self, host: HostName, packet: bytes, *, now_ns: int) -> bool:
        """Offer an IP packet of a host; return False if its queue refuses it (an event reports this)."""
        side = one_of_two(host)
        self._agenda.advance(now_ns)
        now_ns = self._agenda.now_ns
        self._script.first_packet(now_ns)
        if self._snoop is not None and side == "fixed":
            self._snoop.note_data(packet, now_ns)
        return self._offer(side, packet, now_ns)

    def _offer(self, side: Side, packet: bytes, now_ns: int) -> bool:
        """Offer a packet to a side's interface; return False if its queue refuses it."""
        if not self.is_up and (self.is_dropped or self.config.when_down == "flush"):
            self._drop(side, packet, now_ns)
            return True
        taken = self._interfaces[side].offer(packet, now_ns=now_ns)
        self._start(side, now_ns)
        return taken

    def advance(self, now_ns: int) -> list[LinkDelivery]:
        """Run all events up to `now_ns`; return the packets that came out, in order."""
        self._agenda.advance(now_ns)
        out, self._out = self._out, []
        return out

    def _start(self, side: Side, now_ns: int) -> None:
        """Begin to send a side's next packet, if the side is not sending and the link is up."""
        if self._sending[side] or (not self.is_up and self.config.when_down == "hold"):
            return
        packet = self._interfaces[side].take(now_ns)
        if packet is None:
            return
        facts, offset = ip_facts(packet), self._sent_bytes[side]
        self._sent_bytes[side] += len(packet)
        about = len(packet), offset, facts.ip_id, facts.seq
        air_ns = self.config.air_ns(packet)
        sent = named(_OnAir, (side, packet, about, air_ns, self._falls if self.is_up else None))
        self._sending[side] = True
        self._in_transit += 1
        self._agenda.at(now_ns + air_ns, partial(self._has_left, sent))

    def _has_left(self, sent: _OnAir, now_ns: int) -> None:
        octets, offset, ip_id, seq = sent.about
        air_us = sent.air_ns // NS_PER_US
        self._journals[sent.side].add(PieceSent, now_ns, air_us, octets, offset, 1, ip_id, seq, "")
        self._agenda.at(now_ns + self.config.delay_ns, partial(self._arrive, sent))
        self._sending[sent.side] = False
        self._start(sent.side, now_ns)

    def _arrive(self, sent: _OnAir, now_ns: int) -> None:
        """Deliver a packet, unless the link was down at any time since its first bit."""
        far = FAR[sent.side]
        self._in_transit -= 1
        if sent.falls == self._falls and self.is_up:
            self._journals[far].add(PieceReceived, now_ns, *sent.about, "")
            if self._snoop is None or far != "fixed" or self._snoop.passes(sent.packet, now_ns):
                self._out.append(named(LinkDelivery, (far, sent.packet)))
        else:
            self._journals[far].add(PieceLost, now_ns, *sent.about, "outage")

    def _drop(self, side: Side, packet: bytes, now_ns: int) -> None:
        facts = ip_facts(packet)
        waiting = len(self._interfaces[side].queue)
        self._journals[side].add(PacketDropped, now_ns, waiting, len(packet), facts.ip_id, facts.seq, "closed")

    # --- up and down ---

    def _plan_switch(self) -> None:
        due_ns = next(self._switches, None)
        if due_ns is not None:
            self._agenda.at(due_ns, self._switch)

    def _switch(self, now_ns: int) -> None:
        was_up = self.is_up
        self._is_above = not self._is_above
        self._tell_outage(now_ns, "fade", begins=not self._is_above)
        self._changed(now_ns, was_up=was_up)
        self._plan_switch()

    def _outage(self, now_ns: int, kind: OutageKind, begins: bool) -> None:
        self._tell_outage(now_ns, kind, begins=begins)
        self._changed(now_ns, was_up=self._is_above and begins)

    def _tell_outage(self, now_ns: int, cause: str, *, begins: bool) -> None:
        for journal in self._journals.values():
            journal.add(OutageStarted if begins else OutageEnded, now_ns, cause)

    def _changed(self, now_ns: int, *, was_up: bool) -> None:
        """Process a change of the link from up to down (`was_up`) or from down to up."""
        self.is_up = self._is_above and not self._outages and not self.is_dropped
        if was_up and not self.is_up:
            self._falls += 1
            if self.config.when_down == "flush":
                self._flush(now_ns)
        elif self.is_up:
            for side in SIDES:
                self._start(side, now_ns)

    def _stop(self, now_ns: int) -> None:
        """End the link: packets that wait or are on the air are lost."""
        was_up = self.is_up
        self.is_dropped = True
        self._changed(now_ns, was_up=was_up)
        self._flush(now_ns)

    def _flush(self, now_ns: int) -> None:
        for side in SIDES:
            while (packet := self._interfaces[side].take(now_ns)) is not None:
                self._drop(side, packet, now_ns)

    def _play(self, event: ScriptEvent, now_ns: int) -> None:
        if event.kind == "blackout":
            self._outages.begin(now_ns, "blackout", round(event.duration_s * NS_PER_S))
            return
        for side in SIDES:
            if event.direction in ("both", "up" if side == "mobile" else "down"):
                self._interfaces[side].lose_packets(event.packets)

    # --- what it tells ---

    def events(self, host: HostName) -> list[LinkEvent]:
        """Return the events at a host since the last call of this method, in order of time."""
        journal = self._journals.get(host)  # type: ignore[call-overload]  # asked after every event
        journal = journal or self._journals[one_of_two(host)]
        return journal.events() if journal.waiting else []

    def reading(self, now_ns: int, *, host: HostName | None = None) -> RadioReading:
        """Return the received power that the modem reports.

        After the end of a trace that does not repeat, this is the power of the last step.
        """
        del host
        step, steps = now_ns // self.channel.step_ns, len(self.channel.power_dbm)
        step = step % steps if _repeats(self.config) else min(step, steps - 1)
        state = "dropped" if self.is_dropped else "registered" if self.is_up else "blackout"
        return RadioReading(float(self.channel.power_dbm[step]), None, None, None, state)


def _repeats(config: SwitchedConfig) -> bool:
    """Return whether the received power starts again after its end."""
    return config.power is not None and config.at_end == "repeat"


def _switch_times(channel: Channel, config: SwitchedConfig) -> tuple[bool, Iterator[int]]:
    """Return whether the link is up at the start, and an iterator of the times in ns at which this changes.

    The iterator never ends if the power repeats.
    """
    is_above, steps = switches(channel.power_dbm, config.threshold_dbm)
    once: list[int] = (steps * channel.step_ns).tolist()
    if not once or not _repeats(config):
        return is_above, iter(once)
    lasts_ns = channel.step_ns * len(channel.power_dbm)
    if len(once) % 2:  # it ends as it does not begin
        once.append(lasts_ns)
    return is_above, (begin_ns + time_ns for begin_ns in count(0, lasts_ns) for time_ns in once)


def _check_up(channel: Channel, config: SwitchedConfig) -> None:
    most_dbm = float(channel.power_dbm.max())
    if most_dbm < config.threshold_dbm:
        what = "a lower threshold, more power or nearer nodes"
        if config.power is not None:
            what = "a lower threshold or another trace"
        raise LocalProtocolError(
            f'the link is never up: the maximum power is {most_dbm:.1f} dBm, below "threshold_dbm" '
            f"({config.threshold_dbm:g} dBm); choose {what}"
        )
