"""What a measurement over a link can have: the TCP of 1999 or of today, and which transports."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from multitracer.errors import InputError
from multitracer.lab.scenario.transports import mtu_problem
from multitracer.lab.tcp import BSD, MODERN, as_linux
from multitracer.measure.transports import CLIENTS, of_transport

if TYPE_CHECKING:
    from multitracer.lab.scenario.model import Scenario
    from multitracer.measure.plan import ProtocolName

TCP_PROFILES = {"1999": BSD, "today": as_linux(replace(MODERN, congestion="cubic"))}
"""A BSD of 1998, as in the papers; Linux, with what it has by default."""


def with_tcp_profile(scenario: Scenario, name: str | None) -> Scenario:
    """Return a scenario with another TCP on both hosts; their MTU stays what the scenario says.

    Parameters
    ----------
    scenario : Scenario
        The link, and the TCP unless `name` tells another.
    name : {"1999", "today"}, optional
        None: that of the scenario.

    Raises
    ------
    InputError
        If there is no such profile.
    """
    if name is None:
        return scenario
    if name not in TCP_PROFILES:
        raise InputError(f"TCP profile {name!r}: unknown; choose one of {', '.join(TCP_PROFILES)}")
    profile = TCP_PROFILES[name]
    return replace(
        scenario,
        mobile=replace(profile, mtu_bytes=scenario.mobile.mtu_bytes),
        fixed=replace(profile, mtu_bytes=scenario.fixed.mtu_bytes),
    )


def profile_name(scenario: Scenario) -> str:
    """Return which of the two a scenario has, "scenario" if it has its own."""
    for name in TCP_PROFILES:
        other = with_tcp_profile(scenario, name)
        if (other.mobile, other.fixed) == (scenario.mobile, scenario.fixed):
            return name
    return "scenario"


def check_carried(protocol: ProtocolName, scenario: Scenario) -> None:
    """Refuse a transport that there is not, and one whose packets are too long for a link.

    Raises
    ------
    InputError
        If it is such a one.
    """
    of_transport(CLIENTS, protocol)
    problem = mtu_problem(protocol, scenario.mtu_bytes)
    if problem is not None:
        raise InputError(f"{scenario.name}: {problem}")
