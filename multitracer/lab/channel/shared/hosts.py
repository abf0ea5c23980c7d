"""The hosts of a link by name: `mobile` and `fixed`, or `mobile-1` to `mobile-n` and `fixed`; addresses.

The fixed host is behind the radio, every other host is a mobile. A link with two ends has one mobile, which
has no number.
"""

from __future__ import annotations

from typing import Literal

from multitracer.errors import LocalProtocolError

HostName = str
"""One of `host_names`."""
Side = Literal["mobile", "fixed"]
"""The side of the radio on which a host is; the name of a host on a link with one mobile, too."""
SIDES: tuple[Side, Side] = ("mobile", "fixed")
FAR: dict[Side, Side] = {"mobile": "fixed", "fixed": "mobile"}
"""The other side."""
FIXED: Side = "fixed"
MOST_MOBILES = 30
"""That share a CDPD channel (paper 001, section II: "up to 30 users")."""

_NETWORK = bytes([10, 64, 0])
_ONE, _FIXED_HOST = 1, 2
"""Last octets of the first mobile and of the fixed host."""


def host_names(mobiles: int = 1) -> tuple[HostName, ...]:
    """Return the names of a link's hosts, the fixed one last.

    Raises
    ------
    LocalProtocolError
        If there are fewer than 1 or more than 30 mobiles.
    """
    if not 1 <= mobiles <= MOST_MOBILES:
        raise LocalProtocolError(f"mobiles is {mobiles}; choose 1 to {MOST_MOBILES}")
    if mobiles == 1:
        return SIDES
    return (*(f"mobile-{number}" for number in range(1, mobiles + 1)), FIXED)


def side_of(host: HostName) -> Side:
    """Return the side of the radio on which a host is."""
    return "fixed" if host == FIXED else "mobile"


def one_of_two(host: HostName) -> Side:
    """Return the side that a host of a link with two ends is.

    Raises
    ------
    LocalProtocolError
        If such a link has no host of that name.
    """
    if host == "mobile":
        return "mobile"
    if host == FIXED:
        return "fixed"
    raise LocalProtocolError(f"this link has no host {host}; choose mobile or fixed")


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
            f"no link has a host {host!r}; choose fixed, mobile, or mobile-1 to mobile-{MOST_MOBILES}"
        )
    return _NETWORK + bytes([_ONE if number == 1 else number + 2])
