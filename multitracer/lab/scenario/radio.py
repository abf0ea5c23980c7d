"""The radio of a scenario: replaces it by a recorded one, and states how realistic it is.

There are three kinds of realism. *recorded*: the loss of each frame or block of a link is from a recording.
*derived*: losses were derived from the packets that arrived; at times without packets they are unknown.
*modelled*: random, by the parameters of the scenario.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal, NamedTuple

import numpy as np

from multitracer.errors import InputError, LocalProtocolError
from multitracer.lab.channel.bluetooth_piconet import SLOT_NS, BluetoothConfig
from multitracer.lab.channel.capacity import CapacityConfig
from multitracer.lab.channel.cdma2000_radio import Cdma2000Config
from multitracer.lab.channel.cdpd_channel import block_times
from multitracer.lab.channel.cdpd_config import CdpdConfig
from multitracer.lab.channel.gsm import LinkConfig
from multitracer.lab.channel.link_status import status_of
from multitracer.lab.channel.links import link_of
from multitracer.lab.channel.ray import Channel
from multitracer.lab.channel.ray_scene import MOST_STEPS
from multitracer.lab.channel.shared.frame_errors import ErrorConfig
from multitracer.lab.channel.switched import POWER_HEADER, SwitchedConfig, SwitchedLink
from multitracer.lab.scenario.library import load_scenario, read_power_trace
from multitracer.units import NS_PER_S

if TYPE_CHECKING:
    from pathlib import Path

    from multitracer.lab.channel.link_status import LinkStatus
    from multitracer.lab.channel.links import AnyLinkConfig
    from multitracer.lab.channel.ray import Fades
    from multitracer.lab.scenario.model import Scenario
    from multitracer.protocols.error_trace import ErrorTrace

AtEnd = Literal["clear", "repeat", "stop"]
"""What follows the end of a trace: a radio without errors, the trace from its start, or the end of the run."""
FrameSlots = tuple[int, int]
"""Duration of a frame from the mobile and of one to the mobile, in ns."""


@dataclass(frozen=True)
class Realism:
    """How realistic the radio of a run is."""

    kind: Literal["recorded", "derived", "modelled"]
    sentence: str
    """Sentence about the source of the radio and its limits."""
    lasts_ns: int = 0
    """Length of the shortest trace in ns; 0 if there is none."""
    at_end: AtEnd = "clear"

    def end(self, run_ns: int) -> str:
        """Return as text whether and how a run of `run_ns` passed the end of the trace.

        Empty without a trace.
        """
        if not self.lasts_ns:
            return ""
        length = f"the trace lasts {self.lasts_ns / NS_PER_S:.1f} s, the run took {run_ns / NS_PER_S:.1f} s"
        if run_ns <= self.lasts_ns:
            return length
        if self.at_end == "repeat":
            return f"{length}: the trace began {-(-run_ns // self.lasts_ns)} times"
        return f"{length}: {self.beyond}"

    @property
    def beyond(self) -> str:
        """Text that describes the radio after the end of the trace."""
        return {
            "clear": "after the end of the trace the radio has no errors",
            "repeat": "after its end the trace repeats",
            "stop": "the run stops at the end of the trace",
        }[self.at_end]


def realism_of(link: AnyLinkConfig) -> Realism:
    """Return whether the radio of a link is recorded, derived or modelled, with an explanation."""
    if isinstance(link, CapacityConfig):
        lasts_ns = min((trace.lasts_ns for trace in link.traces.values()), default=0)
        return Realism(
            "derived",
            "capacity from delivery opportunities; what idle air or other users' share could have carried is "
            "known only if the recorder filled the link",
            lasts_ns,
            link.at_end,
        )
    if isinstance(link, BluetoothConfig):
        if link.errors.kind != "replay":
            return Realism("modelled", "bit errors and power are random")
        return Realism("derived", "slots of lost packets; slots in which nothing was sent are unknown")
    if isinstance(link, SwitchedConfig):
        return _switched(link)
    if isinstance(link, Cdma2000Config):
        return Realism("modelled", "Ec/Io is random; it determines frame errors and assigned rates")
    if "replay" not in (link.up.kind, link.down.kind):
        return Realism("modelled", "errors are random, or absent")
    what = "frames" if isinstance(link, LinkConfig) else "blocks"
    return Realism("recorded", f"which {what} the radio destroyed is a recording, whatever is sent over it")


def _switched(link: SwitchedConfig) -> Realism:
    if link.power is None:
        return Realism("modelled", "up and down by the received power, which depends on walls and movement")
    times = "up and down at the times of a file, which does not say where they are from"
    power = (
        f"up while the power of a trace is at least {link.threshold_dbm:g} dBm; the file does not say whether the "
        "power was measured or computed"
    )
    return Realism("modelled", times if link.power.is_status else power, link.power.lasts_ns, link.at_end)


def frame_slots(link: AnyLinkConfig) -> FrameSlots | None:
    """Return the frame or block durations of a link; None if no error trace can be used on the link."""
    if isinstance(link, LinkConfig):
        return link.slot_ns, link.slot_ns
    if isinstance(link, BluetoothConfig):
        return SLOT_NS, SLOT_NS
    if isinstance(link, CdpdConfig) and link.recovery == "mdlp":
        times = block_times(link.bits_per_s, is_coded=True)
        return times.reverse_ns, times.forward_ns
    return None


def under_errors(
    scenario: Scenario, trace: ErrorTrace, *, path: str, at_end: AtEnd = "clear"
) -> tuple[Scenario, Realism]:
    """Return the scenario with an error trace as its radio, and the realism of this radio.

    Parameters
    ----------
    scenario : Scenario
    trace : ErrorTrace
    path : str
        Path of the trace, for messages.
    at_end : str
        What follows the end of the trace.

    Raises
    ------
    InputError
        If the frames of the scenario's link differ from those of the trace, or its radio destroys no frames.
    """
    link, slots = scenario.link, frame_slots(scenario.link)
    known = trace.slot_ns, trace.slot_ns_of("down")
    if slots is None:
        raise InputError(
            f"{scenario.name}: an error trace cannot be used with the link of this scenario; choose a "
            'scenario with a link of kind "gsm" or "bluetooth", or of kind "cdpd" with '
            'recovery = "mdlp"'
        )
    is_any_slot = isinstance(link, LinkConfig) and known[0] == known[1]  # its radio is replayed by time
    if slots != known and not is_any_slot:
        raise InputError(
            f"{path}: the slots of this trace are {_slots(known)}, but the slots of the link of "
            f"{scenario.name} are {_slots(slots)}; choose a scenario with the same kind of link"
        )
    again = {way: trace.slots_of(way) if at_end == "repeat" else 0 for way in ("up", "down")}
    if isinstance(link, BluetoothConfig):
        errors = replace(
            link.errors, kind="replay", replayed_up=trace.up, replayed_down=trace.down, repeat_slots=max(again.values())
        )
        changed: AnyLinkConfig = replace(link, errors=errors)
    else:
        assert isinstance(link, LinkConfig | CdpdConfig)
        slot_ns = trace.slot_ns if isinstance(link, LinkConfig) else 0
        up, down = (
            ErrorConfig(kind="replay", replayed=runs, repeat_slots=again[way], replayed_slot_ns=slot_ns)
            for way, runs in (("up", trace.up), ("down", trace.down))
        )
        changed = replace(link, up=up, down=down)
    limit_s = min(scenario.limit_s, trace.lasts_ns / NS_PER_S) if at_end == "stop" else scenario.limit_s
    realism = replace(realism_of(changed), lasts_ns=trace.lasts_ns, at_end=at_end)
    digest = hashlib.sha256(trace.text().encode()).hexdigest()
    source = f"{scenario.source}\n# radio: an error trace, SHA-256 {digest}, at its end {at_end}\n"
    return replace(scenario, link=changed, limit_s=limit_s, source=source), realism


def check_up(scenario: Scenario, *, seed: int) -> None:
    """Raise an error for an impossible link, or a link that is not up before the end of the run.

    Raises
    ------
    InputError
        If no packet could leave before `limit_s`.
    LocalProtocolError
        If the positions of the nodes are impossible, or the link is never up.
    """
    link = link_of(scenario.link, seed=seed, script=scenario.events)
    if isinstance(link, SwitchedLink) and link.first_up_ns >= scenario.limit_s * NS_PER_S:
        raise InputError(
            f"{scenario.name}: the link is down until {link.first_up_ns / NS_PER_S:g} s, but the run "
            f'already ends at {scenario.limit_s:g} s; increase "limit_s", or choose a lower '
            "threshold"
        )


def with_end(scenario: Scenario, at_end: AtEnd) -> Scenario:
    """Return the scenario with `at_end`, which says what follows the end of its capacity or power trace.

    Raises
    ------
    InputError
        If its link has no such trace, or cannot continue without one.
    """
    link = scenario.link
    if isinstance(link, CapacityConfig):
        what = "capacity"
    elif isinstance(link, SwitchedConfig) and link.power is not None:
        what = "power"
    else:
        raise InputError(
            f"{scenario.name}: the link of this scenario has no trace; give a trace with --errors, or remove --at-end"
        )
    if at_end == "clear":
        raise InputError(
            f"{scenario.name}: at the end of a {what} trace, the trace can only be repeated or the "
            'run stops; choose "repeat" or "stop"'
        )
    return replace(scenario, link=replace(link, at_end=at_end))


def _slots(slots: FrameSlots) -> str:
    up, down = slots
    return f"{up} ns" if up == down else f"{up} ns up and {down} ns down"


# The received power of a scenario's ray-traced radio, and the file that holds one.


class ReceivedPower(NamedTuple):
    """Received power over time, and the threshold below which the link is down."""

    name: str
    channel: Channel
    threshold_dbm: float | None = None
    """Threshold in dBm; None if it is unknown."""
    seed: int | None = None
    repeats: bool = False
    """Whether the power repeats after its end, as that of a power trace does."""

    @property
    def status(self) -> LinkStatus | None:
        """Return when the link is up and down; None without a threshold."""
        return None if self.threshold_dbm is None else status_of(self.channel, self.threshold_dbm)

    @property
    def fades(self) -> Fades | None:
        """Return the statistics of the intervals below the threshold; None without a threshold."""
        return None if self.threshold_dbm is None else self.channel.fades(self.threshold_dbm)

    def text(self) -> str:
        """Return the power as CSV: time_s and power_dbm, one line per step, with ten digits each."""
        step_s = self.channel.step_ns / NS_PER_S
        lines = (f"{at * step_s:.10g},{dbm:.10g}\n" for at, dbm in enumerate(self.channel.power_dbm.tolist()))
        return f"{POWER_HEADER}\n" + "".join(lines)


def power_of(name: str, *, seed: int | None = None, threshold_dbm: float | None = None) -> ReceivedPower:
    """Return the received power of a scenario.

    Parameters
    ----------
    name : str
        Name of a bundled scenario, or path of a TOML file.
    seed : int, optional
        Random seed; by default that of the scenario.
    threshold_dbm : float, optional
        Threshold; by default that of the scenario's link.

    Raises
    ------
    InputError
        If there is no such scenario, its link has no ray-traced radio, or the positions of the nodes are impossible.
    """
    scenario = load_scenario(name)
    link = scenario.link
    if not isinstance(link, SwitchedConfig):
        raise InputError(
            f"{scenario.name}: the link of this scenario has no ray-traced radio; choose a scenario "
            'with [link] kind = "switched"'
        )
    used = scenario.seed if seed is None else seed
    try:
        if threshold_dbm is not None:
            link = replace(link, threshold_dbm=threshold_dbm)
        channel = link.channel(seed=used)
    except LocalProtocolError as error:
        raise InputError(f"{scenario.name}: {error}") from error
    repeats = link.power is not None and link.at_end == "repeat"
    return ReceivedPower(scenario.name, channel, link.threshold_dbm, used, repeats)


def repeated(received: ReceivedPower, until_ns: int) -> ReceivedPower:
    """Return the power from the start to `until_ns`, repeated if the radio repeats.

    At most a million steps.
    """
    step_ns, power_dbm = received.channel
    steps = min(-(-until_ns // step_ns), max(MOST_STEPS, len(power_dbm)))
    if not received.repeats or steps <= len(power_dbm):
        return received
    return received._replace(channel=Channel(step_ns, np.resize(power_dbm, steps)))


def read_power(path: Path) -> ReceivedPower:
    """Return the received power in a file that `ReceivedPower.text` made.

    Raises
    ------
    InputError
        If the file cannot be read.
    FormatError
        If the file has another format, or its steps are not even.
    """
    return ReceivedPower(path.stem, read_power_trace(path).channel)
