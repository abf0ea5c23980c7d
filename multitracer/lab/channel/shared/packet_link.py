"""The interface of every link between mobiles and the fixed host, and the names of the hosts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Generic, Literal, NamedTuple, Protocol, TypeVar

from multitracer.errors import LocalProtocolError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from multitracer.protocols.link_events import LinkEvent

# The hosts of a link by name: `mobile` and `fixed`, or `mobile-1` to `mobile-n` and `fixed`; addresses.
#
# The fixed host is behind the radio, every other host is a mobile. A link with two ends has one mobile, which
# has no number.


HostName = str
"""Name of a host, one of `host_names`."""
Side = Literal["mobile", "fixed"]
"""Side of the radio on which a host is; on a link with one mobile also the name of the host."""
SIDES: tuple[Side, Side] = ("mobile", "fixed")
FAR: dict[Side, Side] = {"mobile": "fixed", "fixed": "mobile"}
"""The opposite side of each side."""
FIXED: Side = "fixed"
MOST_MOBILES = 30
"""Maximum number of mobiles on a CDPD channel (paper 001, section II: "up to 30 users")."""

_NETWORK = bytes([10, 64, 0])
_ONE, _FIXED_HOST = 1, 2
"""Last octets of the addresses of the first mobile and of the fixed host."""


def host_names(mobiles: int = 1) -> tuple[HostName, ...]:
    """Return the names of a link's hosts: the mobiles in order, then the fixed host.

    Raises
    ------
    LocalProtocolError
        If there are fewer than 1 or more than 30 mobiles.
    """
    if not 1 <= mobiles <= MOST_MOBILES:
        raise LocalProtocolError(
            f'"mobiles" (the number of mobile hosts) must be 1 to {MOST_MOBILES}, but is {mobiles}'
        )
    if mobiles == 1:
        return SIDES
    return (*(f"mobile-{number}" for number in range(1, mobiles + 1)), FIXED)


def side_of(host: HostName) -> Side:
    """Return the side of the radio, `mobile` or `fixed`, to which a host belongs."""
    return "fixed" if host == FIXED else "mobile"


def one_of_two(host: HostName) -> Side:
    """Return the side, `mobile` or `fixed`, of a host on a link that has only one mobile.

    Raises
    ------
    LocalProtocolError
        If such a link has no host of that name.
    """
    if host == "mobile":
        return "mobile"
    if host == FIXED:
        return "fixed"
    raise LocalProtocolError(f'this link has no host named "{host}"; the host must be "mobile" or "fixed"')


def host_address(host: HostName) -> bytes:
    """Return the IPv4 address of a host, 4 bytes: 10.64.0.1 is the first mobile, 10.64.0.2 the fixed host.

    Mobile k has 10.64.0.(k + 2) from the second on.

    Raises
    ------
    LocalProtocolError
        If no link has a host of that name.
    """
    if host == FIXED:
        return _NETWORK + bytes([_FIXED_HOST])
    name, _, digits = host.partition("-")
    is_number = digits.isascii() and digits.isdigit() and len(digits) <= 2 and digits[0] != "0"
    number = int(digits) if is_number else 1 if host == "mobile" else 0
    if name != "mobile" or not 1 <= number <= MOST_MOBILES:
        raise LocalProtocolError(
            f'unknown host {host!r}; the host must be "fixed", "mobile", or "mobile-1" to "mobile-{MOST_MOBILES}"'
        )
    return _NETWORK + bytes([_ONE if number == 1 else number + 2])


# The mobiles of a link with several: what it keeps for each, by name and by address.


Member = TypeVar("Member")
_DESTINATION = slice(16, 20)
"""Position of the destination address in an IPv4 header (RFC 791, section 3.1)."""


class Mobiles(Generic[Member]):
    """The objects of a link that represent its mobiles, found by name or by address."""

    def __init__(self, members: Mapping[HostName, Member]) -> None:
        self._members = members
        self._by_address = {host_address(host): member for host, member in members.items()}

    def named(self, host: HostName) -> Member:
        """Return the object of the mobile with this name.

        Raises
        ------
        LocalProtocolError
            If the link has no such mobile.
        """
        member = self._members.get(host)
        if member is None:
            many = len(self._members)
            choice = f"mobile-1 to mobile-{many}" if many > 1 else "mobile"
            raise LocalProtocolError(f'this link has no host named "{host}"; the host must be {choice}, or fixed')
        return member

    def addressed(self, packet: bytes) -> Member | None:
        """Return the object of the mobile to whose address a packet goes; None if there is none.

        If the link has a single mobile, all packets go to it.
        """
        if len(self._members) == 1:
            return next(iter(self._members.values()))
        return self._by_address.get(packet[_DESTINATION])


class LinkDelivery(NamedTuple):
    """An IP packet that came out of the link."""

    host: HostName
    """Host at which the packet came out."""
    packet: bytes


@dataclass(frozen=True, slots=True)
class RadioReading:
    """The values that a mobile's modem reports at one time; None where the modem cannot know the value."""

    rssi_dbm: float | None
    """Received power; -113 dBm means no signal (paper 000, section IV)."""
    bler_percent: float | None
    """Percentage of blocks that could not be decoded, of those received in the last seconds."""
    cell_busy_percent: float | None
    """Percentage of the last seconds in which others used the shared channel."""
    channel: int | None
    """Number of the radio channel to which the modem is tuned; None without a channel."""
    state: str
    """registered, hopping, scanning, handoff or blackout; connected or dropped for links that are calls."""
    link_quality: int | None = None
    """Bluetooth's link quality, 0 to 255."""
    ecio_db: float | None = None
    """Ec/Io of the pilot in dB."""
    pilot_pn: int | None = None
    """PN offset of the pilot, which tells the cells of cdma2000 apart."""


class PacketLink(Protocol):
    """Interface of a link that carries IP packets; the caller advances its time."""

    @property
    def hosts(self) -> tuple[HostName, ...]:
        """Names of the hosts that the link connects: the mobiles in order, then the fixed host."""

    @property
    def next_ns(self) -> int | None:
        """Link time of the next event in ns, if no packet is sent before; None if no event is scheduled."""

    @property
    def is_up(self) -> bool:
        """Whether packets can pass now."""

    @property
    def is_dropped(self) -> bool:
        """Whether the link has ended permanently."""

    @property
    def is_drained(self) -> bool:
        """Whether no packet waits or is in transit."""

    def send(self, host: HostName, packet: bytes, *, now_ns: int) -> bool:
        """Offer an IP packet of a host.

        Return False if the interface queue refuses it (an event reports this).

        A packet of the fixed host goes to the mobile with its destination address; a single mobile gets all packets.
        """

    def advance(self, now_ns: int) -> list[LinkDelivery]:
        """Run all events up to `now_ns`; return the packets that came out, in order."""

    def events(self, host: HostName) -> list[LinkEvent]:
        """Return the events at a host since the last call of this method, in order of time."""

    def reading(self, now_ns: int, *, host: HostName | None = None) -> RadioReading:
        """Return the present reading of a mobile's modem, by default of the first one.

        Call `advance` first.
        """
