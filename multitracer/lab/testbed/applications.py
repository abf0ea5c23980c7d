"""The applications of a run: the plan of each host, when they may begin, and when the run is over."""

from __future__ import annotations

import subprocess
from typing import TYPE_CHECKING

from multitracer import __version__
from multitracer.lab.channel.shared.packet_link import FAR
from multitracer.lab.scenario.session_folder import FIRST_MOBILE_PORT, FIRST_PORT
from multitracer.lab.testbed.children import PYTHON
from multitracer.lab.testbed.driver import why_dropped
from multitracer.lab.testbed.kernel_tcp import congestion_control
from multitracer.lab.testbed.traffic import READY, Plan, Transfer
from multitracer.units import NS_PER_S

if TYPE_CHECKING:
    from collections.abc import Mapping

    from multitracer.lab.channel.shared.packet_link import PacketLink, Side
    from multitracer.lab.scenario.model import Scenario
    from multitracer.lab.tcp import TcpProfile
    from multitracer.lab.testbed.children import Child, Children

TRAFFIC = "traffic.jsonl"
_QUIET_NS = 3 * NS_PER_S
"""Link time without data on the link after which a run whose applications have ended is over."""
_AFTER_DROP_NS = 10 * NS_PER_S
"""How long a run goes on after its link is over for good."""


def plan(scenario: Scenario, side: Side, *, addresses: Mapping[Side, str], speed: float) -> Plan:
    """Return the plan of one host's applications."""
    profile = scenario.profile(side)
    transfers = tuple(
        Transfer(
            role="connect" if side == "mobile" else "accept",
            sends=(traffic.direction == "up") == (side == "mobile"),
            size=traffic.bytes,
            port=FIRST_PORT + number,
            local_port=FIRST_MOBILE_PORT + number,
            start_s=traffic.start_s,
            reads_bytes_per_s=traffic.reads_bytes_per_s,
            writes_bytes_per_s=traffic.writes_bytes_per_s,
            aborts_after_s=traffic.aborts_after_s,
        )
        for number, traffic in enumerate(scenario.traffic)
    )
    return Plan(
        speed=speed,
        local=addresses[side],
        remote=addresses[FAR[side]],
        congestion=congestion_control(profile),
        window_bytes=profile.receive_buffer_bytes,
        send_buffer_bytes=_send_buffer_bytes(profile, scenario.profile(FAR[side])),
        transfers=transfers,
    )


def _send_buffer_bytes(profile: TcpProfile, peer: TcpProfile) -> int:
    """Return the send buffer, 0 where it limits nothing: Linux counts much more than payload in it."""
    limits = profile.send_buffer_bytes < peer.receive_buffer_bytes
    return profile.send_buffer_bytes if limits else 0


class Applications:
    """The applications of both hosts, as child processes.

    Parameters
    ----------
    scenario : Scenario
    children : Children
    addresses : mapping
        Of both hosts.
    speed : float
    """

    def __init__(
        self, scenario: Scenario, children: Children, *, addresses: Mapping[Side, str], speed: float
    ) -> None:
        self._children: list[Child] = []
        sides: tuple[Side, Side] = ("fixed", "mobile")  # who listens is there first
        for side in sides:
            text = plan(scenario, side, addresses=addresses, speed=speed).text()
            command = [PYTHON, "-m", "multitracer.lab.testbed.traffic", text]
            child = children.start(
                "traffic", side, command, version=__version__, stdin=subprocess.PIPE, stdout=TRAFFIC
            )
            children.wait(child, lambda words=child.words: READY in words.read_text())  # type: ignore[misc]
            self._children.append(child)

    def begin(self) -> None:
        """Let the applications connect."""
        for child in self._children:
            assert child.process.stdin is not None
            child.process.stdin.write(b"\n")
            child.process.stdin.flush()

    @property
    def have_ended(self) -> bool:
        """Whether everything is sent, received and closed."""
        return all(child.has_ended for child in self._children)


class Course:
    """Follows a run from event to event: when the applications begin, when it is over, and why.

    Parameters
    ----------
    link : PacketLink
    applications : Applications
    limit_s : float
        When the run ends at the latest, in link seconds.
    """

    def __init__(self, link: PacketLink, applications: Applications, *, limit_s: float) -> None:
        self._link = link
        self._applications = applications
        self._limit_ns = round(limit_s * NS_PER_S)
        self._began = False
        self._busy_ns = 0
        self._dropped_ns: int | None = None

    def reason(self, now_ns: int) -> str:
        """Return why the run is over, empty while it is not; asked after every event."""
        if self._link.is_up and not self._began:
            self._applications.begin()
            self._began = True
        if self._link.is_dropped and self._dropped_ns is None:
            self._dropped_ns = now_ns
        if not self._link.is_quiet or not self._applications.have_ended:
            self._busy_ns = now_ns
        if self._dropped_ns is not None and now_ns > self._dropped_ns + _AFTER_DROP_NS:
            return why_dropped(self._link)
        if now_ns >= self._limit_ns:
            return "limit_s was reached"
        return "all was sent and received" if now_ns > self._busy_ns + _QUIET_NS else ""
