"""The mobiles of a link with several: what it keeps for each, by name and by address."""

from __future__ import annotations

from typing import TYPE_CHECKING, Generic, TypeVar

from multitracer.errors import LocalProtocolError
from multitracer.lab.channel.shared.hosts import host_address

if TYPE_CHECKING:
    from collections.abc import Mapping

    from multitracer.lab.channel.shared.hosts import HostName

Member = TypeVar("Member")
_DESTINATION = slice(16, 20)
"""Of an IPv4 header (RFC 791, section 3.1)."""


class Mobiles(Generic[Member]):
    """What a link keeps for each of its mobiles."""

    def __init__(self, members: Mapping[HostName, Member]) -> None:
        self._members = members
        self._by_address = {host_address(host): member for host, member in members.items()}

    def named(self, host: HostName) -> Member:
        """Return what is kept for the mobile of a name.

        Raises
        ------
        LocalProtocolError
            If the link has no such mobile.
        """
        member = self._members.get(host)
        if member is None:
            many = len(self._members)
            choice = f"mobile-1 to mobile-{many}" if many > 1 else "mobile"
            raise LocalProtocolError(f"this link has no host {host}; choose {choice}, or fixed")
        return member

    def addressed(self, packet: bytes) -> Member | None:
        """Return what is kept for the mobile to which a packet goes; the only one gets all."""
        if len(self._members) == 1:
            return next(iter(self._members.values()))
        return self._by_address.get(packet[_DESTINATION])
