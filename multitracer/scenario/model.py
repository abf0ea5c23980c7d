"""What a run is given: hosts, link, traffic and script."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Literal

from multitracer.channel.gsm.config import LinkConfig
from multitracer.errors import InputError, LocalProtocolError
from multitracer.protocols.tcp import BSD, TcpProfile, as_linux

if TYPE_CHECKING:
    from multitracer.channel.links import AnyLinkConfig
    from multitracer.channel.shared.script import ScriptEvent

Host = Literal["mobile", "fixed"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Traffic:
    """One TCP connection, opened by the mobile, that carries data one way."""

    direction: Literal["up", "down"] = "up"
    """Up: from the mobile to the fixed host."""
    bytes: int
    """How much is sent."""
    start_s: float = 0.0
    """When the mobile connects, in link seconds after the first packet of the run."""
    reads_bytes_per_s: int = 0
    """How fast the receiving application reads; 0 as fast as it comes."""
    writes_bytes_per_s: int = 0
    """How much the sending application writes at once each second; 0 as much as the send buffer takes."""
    aborts_after_s: float = 0.0
    """When the user gives up, counted from `start_s`: the mobile closes without waiting; 0 never."""

    def __post_init__(self) -> None:
        rates_and_times = self.start_s, self.reads_bytes_per_s, self.writes_bytes_per_s, self.aborts_after_s
        if self.bytes < 1 or min(rates_and_times) < 0:
            raise LocalProtocolError("traffic: bytes is at least 1, no time or rate is negative")


@dataclass(frozen=True, slots=True, kw_only=True)
class HostClock:
    """An error of the fixed host's clock against the mobile's, put into its logs only."""

    offset_s: float = 0.0
    skew_ppm: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    """One run, complete but for its seed."""

    name: str
    title: str = ""
    figure: str = ""
    """Figure of the paper that it shows."""
    limit_s: float = 3_600.0
    """The run ends then at the latest, in link seconds."""
    mobile: TcpProfile = BSD
    fixed: TcpProfile = BSD
    link: AnyLinkConfig = field(default_factory=LinkConfig)
    traffic: tuple[Traffic, ...] = ()
    """The first one is what the summary is about; none for a link that is only measured over."""
    events: tuple[ScriptEvent, ...] = ()
    clock: HostClock = HostClock()
    seed: int = 1
    """Used unless another one is given."""
    source: str = ""
    """The TOML text that it was read from."""

    def profile(self, host: Host) -> TcpProfile:
        """Return the TCP of a host."""
        return self.mobile if host == "mobile" else self.fixed

    @property
    def gsm(self) -> LinkConfig:
        """Return the link of a scenario that runs by itself, which is a GSM data call.

        Raises
        ------
        InputError
            If it is another one.
        """
        if not isinstance(self.link, LinkConfig):
            if self.traffic:
                raise InputError(
                    f"{self.name}: its link is no GSM data call, which is what a real run has; "
                    "run it with --virtual, and without --as-linux"
                )
            raise InputError(f"{self.name}: a link to measure over; use `measure run --over {self.name}`")
        return self.link

    def as_linux(self) -> Scenario:
        """Return the scenario as a real run has it: with Linux' TCP, which hears of no drop by default."""
        queue = self.gsm.queue
        if queue.local_drops == "default":
            queue = replace(queue, local_drops="silent")
        link = replace(self.gsm, queue=queue)
        return replace(self, mobile=as_linux(self.mobile), fixed=as_linux(self.fixed), link=link)

    @property
    def sender(self) -> Host:
        """Who sends the data of the first traffic."""
        return "mobile" if self.traffic[0].direction == "up" else "fixed"

    def __post_init__(self) -> None:
        if not self.traffic and isinstance(self.link, LinkConfig):
            raise LocalProtocolError("a scenario needs [[traffic]]")
        if not 0 < self.limit_s <= 86_400:
            raise LocalProtocolError("limit_s is above 0 and at most a day")
