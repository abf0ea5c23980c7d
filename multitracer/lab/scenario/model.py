"""The parameters of a run: hosts, link, traffic and script."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import partial
from types import MappingProxyType
from typing import TYPE_CHECKING, Literal

from multitracer.errors import InputError, LocalProtocolError
from multitracer.lab.channel.gsm import LinkConfig
from multitracer.lab.channel.shared.packet_link import FIXED, HostName, host_names
from multitracer.lab.tcp.profile import BSD, PROFILES, TcpProfile, as_linux

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from multitracer.lab.channel.links import AnyLinkConfig
    from multitracer.lab.channel.shared.scheduler import ScriptEvent

# The transports of a scenario's traffic, by the name that `[[traffic]]` gives.


WTCP = "wtcp"


def _as_it_is(profile: TcpProfile) -> TcpProfile:
    return profile


def _controlled(profile: TcpProfile, *, congestion: str, sack: bool) -> TcpProfile:
    return replace(profile, congestion=congestion, sack=sack)


def _like(profile: TcpProfile, *, name: str) -> TcpProfile:
    return replace(PROFILES[name], mtu_bytes=profile.mtu_bytes)


def _linux(profile: TcpProfile) -> TcpProfile:
    return as_linux(replace(profile, congestion="cubic", sack=True))


TCP_TRANSPORTS: Mapping[str, Callable[[TcpProfile], TcpProfile]] = MappingProxyType(
    {
        "tcp": _as_it_is,
        **{name: partial(_like, name=name) for name in PROFILES},
        **{name: partial(_controlled, congestion=name, sack=False) for name in ("tahoe", "reno", "newreno", "vegas")},
        "sack": partial(_controlled, congestion="newreno", sack=True),
        "cubic": partial(_controlled, congestion="cubic", sack=True),
        "linux": _linux,
    }
)
"""Function that makes the TCP of a traffic from the TCP of its host, by name of the transport.

`tcp` is the host's own TCP; `bsd`, `modern`, `palm` and `linux22` are those profiles with the host's MTU. The
others change only the congestion control and whether SACK is offered: Tahoe, Reno, NewReno and Vegas have no
SACK, as in paper 001. `linux` is CUBIC with SACK and the other deviations of Linux (docs/simulator.md)."""
TRANSPORTS = (*TCP_TRANSPORTS, WTCP)
WTCP_PACKET_BYTES = 500
"""Longest IP packet of WTCP (paper 001, section IV)."""


def mtu_problem(transport: str, mtu_bytes: int) -> str | None:
    """Return why a link with this MTU cannot carry a transport; None if it can."""
    if transport != WTCP or mtu_bytes >= WTCP_PACKET_BYTES:
        return None
    return (
        f"transport wtcp sends packets of {WTCP_PACKET_BYTES} bytes, which a link of "
        f"[tcp] mtu_bytes = {mtu_bytes} does not carry; choose {WTCP_PACKET_BYTES} or more"
    )


_HEADERS_BYTES, _TIMESTAMPS_BYTES = 40, 12
"""IP and TCP header without options; the option for timestamps with its padding (RFC 7323, appendix A)."""
_LONGEST_S = 86_400
"""Maximum duration of a run: a day (not measured; some minutes of computing)."""
_MIN_MTU_BYTES, _MOST_MTU_BYTES = 68, 65_535
"""Bounds of the MTU (RFC 791): the MTU that every link must support, and the longest packet."""
_MOST_OFFSET_S = 900_000_000
"""Maximum clock offset: a capture that starts in 2000 would otherwise have times before 1970."""
_MOST_SKEW_PPM = 100_000
"""Maximum clock skew: a tenth, a thousand times that of a bad crystal (not measured)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ScenarioTraffic:
    """One connection, opened by a mobile, that carries data in one direction."""

    host: str = ""
    """Name of the mobile; by default the first one."""
    transport: str = "tcp"
    """Transport: `tcp` with the profile of its hosts, another name of `TRANSPORTS`, or `wtcp`."""
    direction: Literal["up", "down"] = "up"
    """Direction of the data: up is from the mobile to the fixed host."""
    bytes: int
    """Number of bytes to send."""
    start_s: float = 0.0
    """Time at which the mobile connects, in link seconds after the start of the run."""
    reads_bytes_per_s: int = 0
    """Rate at which the receiving application reads; 0: without a limit."""
    writes_bytes_per_s: int = 0
    """Bytes that the sending application writes at once each second; 0: as many as the send buffer takes."""
    aborts_after_s: float = 0.0
    """Time after `start_s` at which the user gives up and the mobile closes without waiting; 0: never."""

    def __post_init__(self) -> None:
        if self.bytes < 1 or min(self.reads_bytes_per_s, self.writes_bytes_per_s) < 0:
            raise LocalProtocolError('traffic: "bytes" must be at least 1, and the rates must be at least 0')
        for key, value in (("start_s", self.start_s), ("aborts_after_s", self.aborts_after_s)):
            if not 0 <= value <= _LONGEST_S:
                raise LocalProtocolError(f'traffic: "{key}" must be 0 to {_LONGEST_S:,} s, but is {value}')
        if self.transport not in TRANSPORTS:
            raise LocalProtocolError(f'"transport" must be one of {", ".join(TRANSPORTS)}, but is {self.transport!r}')


@dataclass(frozen=True, slots=True, kw_only=True)
class ClockSetting:
    """The error of the fixed host's clock, relative to the mobile's clock; only logs contain it."""

    offset_s: float = 0.0
    skew_ppm: float = 0.0

    def __post_init__(self) -> None:
        for key, value, most in (
            ("offset_s", self.offset_s, _MOST_OFFSET_S),
            ("skew_ppm", self.skew_ppm, _MOST_SKEW_PPM),
        ):
            if not -most <= value <= most:
                raise LocalProtocolError(f'clock: "{key}" must be -{most:,} to {most:,}, but is {value}')


@dataclass(frozen=True, slots=True, kw_only=True)
class ProgramSetting:
    """What the programs of `measure run` do that their hosts' TCP does not; only in virtual time."""

    nodelay: bool = True
    """Whether they set TCP_NODELAY; otherwise Nagle's algorithm is as in the TCP profile."""
    octet_ns: int = 0
    """CentaurusComm: mean time in user space for each octet of a received datagram.

    The time is uniform from 0.5 to 1.5 times the mean, and drawn for each datagram."""
    most_datagrams: int = 0
    """CentaurusComm: datagrams that its socket holds, with the one in progress; more are lost. 0: no limit."""

    def __post_init__(self) -> None:
        if min(self.octet_ns, self.most_datagrams) < 0:
            raise LocalProtocolError('program: "octet_ns" and "most_datagrams" must be at least 0')


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    """All parameters of one run; a caller can replace the seed."""

    name: str
    title: str = ""
    figure: str = ""
    """Figure of the paper that the run reproduces."""
    limit_s: float = 3_600.0
    """Link time at which the run ends at the latest, in seconds."""
    mobile: TcpProfile = BSD
    fixed: TcpProfile = BSD
    link: AnyLinkConfig = field(default_factory=LinkConfig)
    traffic: tuple[ScenarioTraffic, ...] = ()
    """The connections; the summary describes the first one.

    Empty for a link that is only used by measurements."""
    events: tuple[ScriptEvent, ...] = ()
    clock: ClockSetting = ClockSetting()
    program: ProgramSetting = ProgramSetting()
    seed: int = 1
    """Random seed, unless another one is given."""
    source: str = ""
    """The TOML text of the scenario."""
    traces: tuple[tuple[str, str], ...] = ()
    """Name and text of each trace file that the TOML names; the folder of a run contains copies."""

    @property
    def hosts(self) -> tuple[HostName, ...]:
        """Names of the hosts: the mobiles in order, then the fixed host."""
        return host_names(getattr(self.link, "mobiles", 1))

    @property
    def mtu_bytes(self) -> int:
        """Longest IP packet that the hosts send, in bytes."""
        return min(self.mobile.mtu_bytes, self.fixed.mtu_bytes)

    @property
    def payload_bytes(self) -> int:
        """Data in the longest TCP packet: `mtu_bytes` without the headers and the timestamps option, in bytes."""
        has_timestamps = self.mobile.timestamps and self.fixed.timestamps
        return self.mtu_bytes - _HEADERS_BYTES - _TIMESTAMPS_BYTES * has_timestamps

    def profile(self, host: HostName) -> TcpProfile:
        """Return the TCP profile of a host."""
        return self.fixed if host == FIXED else self.mobile

    def mobile_of(self, traffic: ScenarioTraffic) -> HostName:
        """Return the name of the mobile that opens the connection of a traffic."""
        return traffic.host or self.hosts[0]

    def sender_of(self, traffic: ScenarioTraffic) -> HostName:
        """Return the name of the host that sends the data of a traffic."""
        return self.mobile_of(traffic) if traffic.direction == "up" else FIXED

    def receiver_of(self, traffic: ScenarioTraffic) -> HostName:
        """Return the name of the host that receives the data of a traffic."""
        return FIXED if traffic.direction == "up" else self.mobile_of(traffic)

    @property
    def gsm(self) -> LinkConfig:
        """Return the configuration of the GSM data call.

        Raises
        ------
        InputError
            If the scenario has a link of another kind.
        """
        if not isinstance(self.link, LinkConfig):
            raise InputError(
                f"{self.name}: an error trace can be used only with a GSM data call, and the link of "
                "this scenario is of another kind; omit --errors"
            )
        return self.link

    def check_traffic(self) -> None:
        """Raise an error for a scenario without traffic, because it cannot be run alone.

        Raises
        ------
        InputError
            If the scenario has no traffic.
        """
        if not self.traffic:
            raise InputError(
                f"{self.name}: this scenario contains a link, but no traffic; use `measure run --over {self.name}`"
            )

    def as_linux(self) -> Scenario:
        """Return the scenario for a run with real kernels, with Linux' TCP.

        Hosts do not learn of local drops, unless the scenario requires that they do.
        """
        queue = self.link.queue
        if queue.local_drops == "default":
            queue = replace(queue, local_drops="silent")
        link = replace(self.link, queue=queue)
        return replace(self, mobile=as_linux(self.mobile), fixed=as_linux(self.fixed), link=link)

    def with_transport(self, name: str) -> Scenario:
        """Return the scenario with another transport for all its traffic.

        Raises
        ------
        InputError
            If there is no such transport, or the link cannot carry it.
        """
        try:
            return replace(self, traffic=tuple(replace(each, transport=name) for each in self.traffic))
        except LocalProtocolError as error:
            raise InputError(f"{self.name}: {error}") from error

    @property
    def sender(self) -> HostName:
        """Name of the host that sends the data of the first traffic."""
        return self.sender_of(self.traffic[0])

    def __post_init__(self) -> None:
        if not self.traffic and isinstance(self.link, LinkConfig):
            raise LocalProtocolError("a scenario must have at least one table [[traffic]]")
        if not 0 < self.limit_s <= _LONGEST_S:
            raise LocalProtocolError('"limit_s" must be above 0 and at most 86,400')
        for mtu_bytes in (self.mobile.mtu_bytes, self.fixed.mtu_bytes):
            if not _MIN_MTU_BYTES <= mtu_bytes <= _MOST_MTU_BYTES:
                known = f"{_MIN_MTU_BYTES} to {_MOST_MTU_BYTES:,}"
                raise LocalProtocolError(f'[tcp] "mtu_bytes" must be {known}, but is {mtu_bytes}')
        for number, traffic in enumerate(self.traffic, 1):
            self._check(traffic, f"[[traffic]] number {number}:")

    def _check(self, traffic: ScenarioTraffic, where: str) -> None:
        """Raise an error for a traffic that the hosts or the link of this scenario cannot carry.

        `where` names the traffic in the message.
        """
        *mobiles, _ = self.hosts
        if traffic.host and traffic.host not in mobiles:
            known = mobiles[0] if len(mobiles) == 1 else f"{mobiles[0]} to {mobiles[-1]}"
            raise LocalProtocolError(
                f'{where} "host" must be one of the mobile hosts of the link ({known}), but is {traffic.host!r}'
            )
        problem = mtu_problem(traffic.transport, self.mtu_bytes)
        if problem is not None:
            raise LocalProtocolError(f"{where} {problem}")
