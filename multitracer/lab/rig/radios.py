"""Makes a scenario from the radio that a user names, and states how realistic the radio is.

A radio is an error trace, a capacity trace, a power trace, a session folder, a scenario or a bundled link. A
file is recognised by its first line; a list of integers is always read as a capacity trace.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING

from multitracer.analysis.link_capacity import link_error_trace
from multitracer.errors import FormatError, InputError, LocalProtocolError
from multitracer.lab.channel.bluetooth_piconet import SLOT_NS, BluetoothConfig
from multitracer.lab.channel.capacity import CapacityConfig, TracedConfig
from multitracer.lab.channel.cdpd_channel import block_times
from multitracer.lab.channel.cdpd_config import CdpdConfig, OutageConfig, SignalConfig
from multitracer.lab.channel.gsm import LinkConfig
from multitracer.lab.channel.link_status import is_link_status
from multitracer.lab.channel.ray_scene import RayConfig
from multitracer.lab.channel.shared.queue import QueueConfig
from multitracer.lab.channel.switched import POWER_HEADER, PowerTrace, SwitchedConfig
from multitracer.lab.scenario.library import (
    SCENARIO,
    bundled_links,
    bundled_names,
    load_scenario,
    read_capacity_trace,
    read_error_trace,
    read_power_trace,
)
from multitracer.lab.scenario.model import Scenario, ScenarioTraffic, mtu_problem
from multitracer.lab.scenario.radio import Realism, realism_of, under_errors
from multitracer.lab.tcp.profile import BSD, MODERN, TcpProfile, as_linux
from multitracer.manifest import read_manifest
from multitracer.measure.transports import CLIENTS, of_transport
from multitracer.protocols.error_trace import RADIO
from multitracer.recording.capacity import recorded_capacity
from multitracer.recording.inputs import find_inputs
from multitracer.recording.read import read
from multitracer.units import NS_PER_S

if TYPE_CHECKING:
    from typing import Literal

    from multitracer.lab.channel.links import AnyLinkConfig
    from multitracer.measure.plan import ProtocolName
    from multitracer.protocols.capacity_trace import CapacityTrace
    from multitracer.protocols.error_trace import ErrorTrace

    Direction = Literal["up", "down"]

# What a measurement over a link can have: the TCP of 1999 or of today, and which transports.


TCP_PROFILES = {"1999": BSD, "today": as_linux(replace(MODERN, congestion="cubic"))}
"""TCP of the hosts by name: a BSD of 1998, as in the papers; Linux with its defaults."""


def with_tcp_profile(scenario: Scenario, name: str | None) -> Scenario:
    """Return a scenario with another TCP profile on both hosts; the MTU does not change.

    Parameters
    ----------
    scenario : Scenario
    name : {"1999", "today"}, optional
        None: the TCP of the scenario.

    Raises
    ------
    InputError
        If there is no such profile.
    """
    if name is None:
        return scenario
    if name not in TCP_PROFILES:
        raise InputError(f"TCP profile {name!r} is unknown; choose one of {', '.join(TCP_PROFILES)}")
    profile = TCP_PROFILES[name]
    return replace(
        scenario,
        mobile=replace(profile, mtu_bytes=scenario.mobile.mtu_bytes),
        fixed=replace(profile, mtu_bytes=scenario.fixed.mtu_bytes),
    )


def profile_name(scenario: Scenario) -> str:
    """Return the name of the scenario's TCP profile; "scenario" if it has another TCP."""
    for name in TCP_PROFILES:
        other = with_tcp_profile(scenario, name)
        if (other.mobile, other.fixed) == (scenario.mobile, scenario.fixed):
            return name
    return "scenario"


def check_carried(protocol: ProtocolName, scenario: Scenario) -> None:
    """Raise an error if the transport is unknown, or if its packets are too long for the link.

    Raises
    ------
    InputError
        If the transport is refused.
    """
    of_transport(CLIENTS, protocol)
    problem = mtu_problem(protocol, scenario.mtu_bytes)
    if problem is not None:
        raise InputError(f"{scenario.name}: {problem}")


_HEAD_BYTES = 4096
_ERROR_TITLE = b"# multitracer error-trace"
_QUEUE_PACKETS = 100
"""Queue of a link under a power trace, in packets, as in the scenarios of paper 002: it holds the paper's windows."""
_BUFFER_BYTES = 1_000_000
"""Buffer of both sockets: four times the need of 20 Mbit/s and 100 ms, so that the link is the limit (our choice)."""
_SLOW_BUFFER_BYTES = 65_535
"""Buffer of both sockets on links of kilobits per second: a full window without scaling (RFC 9293)."""
_COMPLETE = 1 << 31
"""Bytes of a transfer that lasts longer than the run (our choice)."""
_NEVER = OutageConfig(hop_every_ns=0, ejection_every_ns=0, blackout_every_ns=0)


@dataclass(frozen=True)
class RigRadio:
    """The radio of a run, as a scenario.

    Attributes
    ----------
    scenario : Scenario
        Link, traffic, and TCP of the hosts.
    realism : Realism
        Whether the radio is recorded, derived or modelled.
    trace_s : float
        Length of the trace that the link repeats, s; 0 if there is none.
    """

    scenario: Scenario
    realism: Realism
    trace_s: float = 0.0


def radio_of(name: str, *, direction: Direction, seconds: float, threshold_dbm: float | None = None) -> RigRadio:
    """Return the radio that a user names.

    Parameters
    ----------
    name : str
        A file, a folder, or the name of a bundled scenario or link.
    direction : "up" or "down"
        Direction of the data, and of a capacity trace, if no scenario sets it.
    seconds : float
        Duration of sending, if no scenario sets it.
    threshold_dbm : float, optional
        Threshold; by default that of the scenario, or -75 dBm for a link under a power trace.

    Raises
    ------
    InputError
        If there is no such radio, or it cannot be replayed.
    FormatError
        If its file is damaged.
    """
    radio = _radio_of(name, ScenarioTraffic(bytes=_COMPLETE, direction=direction), seconds)
    return radio if threshold_dbm is None else _with_threshold(radio, threshold_dbm)


def _radio_of(name: str, traffic: ScenarioTraffic, seconds: float) -> RigRadio:
    path = Path(name)
    if path.is_dir():
        return _of_session(path, traffic, seconds)
    if name in (*bundled_names(), *bundled_links()) or path.suffix == ".toml":
        return _of_scenario(load_scenario(name), traffic, seconds)
    head = _head(path)
    if head.startswith(_ERROR_TITLE):
        return _of_errors(path.name, read_error_trace(path), traffic, seconds)
    if head.startswith(POWER_HEADER.encode()) or is_link_status(head.decode("utf-8", "replace")):
        return _of_power(path.name, read_power_trace(path), traffic, seconds)
    return _of_capacity(path.name, read_capacity_trace(path), traffic, seconds)


def _head(path: Path) -> bytes:
    if path.exists() and not path.is_file():
        raise InputError(f"{path}: a trace must be a regular file, not a device or a pipe; write the trace to a file")
    try:
        with path.open("rb") as stream:
            return stream.read(_HEAD_BYTES)
    except OSError as error:
        raise InputError(
            f"{path}: cannot read this file: {error.strerror}; name a trace, a session folder, a "
            "scenario or a bundled link"
        ) from error


def _scenario(name: str, link: AnyLinkConfig, tcp: TcpProfile, traffic: ScenarioTraffic, seconds: float) -> Scenario:
    return Scenario(name=name, link=link, mobile=tcp, fixed=tcp, traffic=(traffic,), limit_s=seconds)


def _of_scenario(scenario: Scenario, traffic: ScenarioTraffic, seconds: float) -> RigRadio:
    """Return a scenario as the radio of a run; a scenario without traffic gets `traffic`."""
    if not scenario.traffic:
        scenario = replace(scenario, traffic=(traffic,), limit_s=seconds)
    realism = realism_of(scenario.link)
    trace_s = realism.lasts_ns / NS_PER_S if realism.at_end == "repeat" else 0.0
    return RigRadio(scenario, realism, trace_s)


def _of_capacity(name: str, trace: CapacityTrace, traffic: ScenarioTraffic, seconds: float) -> RigRadio:
    traced = TracedConfig(trace=trace)
    is_up = traffic.direction == "up"
    link = CapacityConfig(up=traced) if is_up else CapacityConfig(down=traced)
    tcp = replace(MODERN, send_buffer_bytes=_BUFFER_BYTES, receive_buffer_bytes=_BUFFER_BYTES)
    return _of_scenario(_scenario(name, link, tcp, traffic, seconds), traffic, seconds)


def _of_power(name: str, trace: PowerTrace, traffic: ScenarioTraffic, seconds: float) -> RigRadio:
    try:
        link = SwitchedConfig(power=trace, queue=QueueConfig(limit_packets=_QUEUE_PACKETS))
    except LocalProtocolError as error:
        raise InputError(f"{name}: {error}") from error
    tcp = replace(MODERN, send_buffer_bytes=_BUFFER_BYTES, receive_buffer_bytes=_BUFFER_BYTES)
    return _of_scenario(_scenario(name, link, tcp, traffic, seconds), traffic, seconds)


def _with_threshold(radio: RigRadio, threshold_dbm: float) -> RigRadio:
    """Return a radio whose link is up above another threshold."""
    link = radio.scenario.link
    if not isinstance(link, SwitchedConfig):
        raise InputError(
            f"{radio.scenario.name}: the link of this scenario has no threshold; remove --threshold, "
            'or name a power trace or a scenario with a link of kind "switched"'
        )
    link = replace(link, threshold_dbm=threshold_dbm)
    return replace(radio, scenario=replace(radio.scenario, link=link), realism=realism_of(link))


def _of_errors(
    name: str, trace: ErrorTrace, traffic: ScenarioTraffic, seconds: float, base: Scenario | None = None
) -> RigRadio:
    """Return an error trace as the radio of a run.

    The link is that of the scenario `base`, or else the bundled link with the same frame duration.
    """
    scenario = base or _scenario(name, *_link_with_slots(name, trace), traffic, seconds)
    scenario, realism = under_errors(scenario, trace, path=name, at_end="repeat")
    return RigRadio(scenario, realism, trace.lasts_ns / NS_PER_S)


def _link_with_slots(name: str, trace: ErrorTrace) -> tuple[AnyLinkConfig, TcpProfile]:
    """Return the link whose frames last as long as the slots of the trace, and the TCP profile for this link.

    The link has no errors of its own.
    """
    slots = trace.slot_ns, trace.slot_ns_of("down")
    slow = replace(MODERN, send_buffer_bytes=_SLOW_BUFFER_BYTES, receive_buffer_bytes=_SLOW_BUFFER_BYTES)
    cdpd = CdpdConfig(outages=_NEVER, signal=SignalConfig(deviation_db=0.0))
    times = block_times(cdpd.bits_per_s, is_coded=True)
    if slots == (SLOT_NS, SLOT_NS):
        return BluetoothConfig(), MODERN
    if slots == (times.reverse_ns, times.forward_ns):
        return cdpd, replace(slow, mtu_bytes=576)
    if slots == (LinkConfig().slot_ns,) * 2:
        return LinkConfig(), replace(slow, mtu_bytes=576)
    raise InputError(
        f"{name}: this error trace has slots of {trace.slot_ns} ns, but no bundled kind of link has "
        "such slots; use `testbed run --errors` with a scenario whose link has the same slots"
    )


def _of_session(folder: Path, traffic: ScenarioTraffic, seconds: float) -> RigRadio:
    """Return the radio of a recorded session.

    It is the session's own link if a capacity or power trace determines its state; otherwise the
    frame errors of the session; otherwise the capacity that the receiver measured.
    """
    base = _scenario_of(folder)
    if base is not None and isinstance(base.link, SwitchedConfig | CapacityConfig):
        return _of_scenario(base, traffic, seconds)
    recording = read(find_inputs(str(folder)))
    if base is not None and not base.traffic:
        base = None
    if (folder / RADIO).is_file():
        trace = read_error_trace(folder / RADIO)
        return _of_errors(folder.name, trace, traffic, seconds, base)
    frames = {log.host: table for log, table in recording.tables("link", "link_frames") if len(table)}
    if frames:
        return _of_errors(folder.name, link_error_trace(frames), traffic, seconds, base)
    if not recording.captures:
        raise InputError(
            f"{folder}: cannot use this folder as the link, because the session has no "
            "link log and no capture; name another session folder"
        )
    delivered = recorded_capacity(recording, *recording.chosen(None))
    return _of_capacity(folder.name, delivered.trace, traffic, seconds)


def _scenario_of(folder: Path) -> Scenario | None:
    """Return the scenario of a session; None if the session has none, or if files of it are missing."""
    path = folder / SCENARIO
    if not path.is_file():
        return None
    try:
        scenario = load_scenario(str(path))
    except (FormatError, InputError):
        return None
    if isinstance(scenario.link, SwitchedConfig) and scenario.link.power is None:
        scenario = replace(scenario, link=_with_its_power(scenario.link, _seed(folder, scenario)))
    return replace(scenario, name=folder.name)


def _seed(folder: Path, scenario: Scenario) -> int:
    """Return the random seed with which the session was run."""
    manifest = read_manifest(folder)
    seed = None if manifest is None else manifest.variables.seed
    return scenario.seed if seed is None else seed


def _with_its_power(link: SwitchedConfig, seed: int) -> SwitchedConfig:
    """Return a link whose received power is a trace, computed once with `seed`.

    So all runs have the same power.
    """
    geometry = {each.name: getattr(SwitchedConfig(), each.name) for each in fields(RayConfig)}
    return replace(link, **geometry, power=PowerTrace(link.channel(seed=seed)))
