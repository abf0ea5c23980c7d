"""The transports of a scenario's traffic, by the name that `[[traffic]]` gives."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from types import MappingProxyType
from typing import TYPE_CHECKING

from multitracer.lab.tcp import PROFILES, as_linux

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from multitracer.lab.tcp import TcpProfile

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
        **{
            name: partial(_controlled, congestion=name, sack=False)
            for name in ("tahoe", "reno", "newreno", "vegas")
        },
        "sack": partial(_controlled, congestion="newreno", sack=True),
        "cubic": partial(_controlled, congestion="cubic", sack=True),
        "linux": _linux,
    }
)
"""Name -> what a host's TCP becomes for that traffic. `tcp` is the host's own; `bsd`, `modern`, `palm` and
`linux22` are those profiles with the host's MTU; the others change only the congestion control and whether
SACK is offered: Tahoe, Reno, NewReno and Vegas without it, as in paper 001. `linux` is CUBIC with SACK and
what else Linux does in its own way (docs/simulator.md)."""
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
