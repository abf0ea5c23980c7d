"""The chain of headers from the start of a frame to its IP packets.

Every kind of header is a number: EtherTypes are themselves; link types and other kinds that may come next
have numbers above them. A *step* takes one kind of header off many packets at once. All steps are listed
in `steps.py`, and all keep this contract:

    step(packets: Packets, ledger: Ledger) -> (Packets, Numbers)

`packets` has shape (n,); its `at` is where the header begins, and nothing at or behind `end` is read. The
result has shape (m,), m <= n, in the same order: the packets that can be followed, with `at` behind the header, and for
each one the number of the next header (int64, shape (m,); never NA). The step counts the other n - m packets in the
ledger, each once. It changes none of its input arrays, and raises no error whatever the bytes are.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from parsers._packets.layers import u16

if TYPE_CHECKING:
    from collections.abc import Mapping

    from multitracer.tables import Numbers
    from parsers._packets.layers import LayerPackets, PacketCounts

Step = Callable[["LayerPackets", "PacketCounts"], "tuple[LayerPackets, Numbers]"]

IPV4, IPV6 = 0x0800, 0x86DD
RAW_IP, LLC, SNAP, BRIDGED, PPP, MPLS_PAYLOAD, CONTROL_WORD, PADDED_80211 = range(0x10000, 0x10008)
GRE, ERSPAN_2, ETHERIP, QMAP = range(0x10008, 0x1000C)
_LINK = 0x100000
_MOST_HEADERS = 16
_LARGEST_LENGTH = 1500
"""Up to here an EtherType field is a length, and LLC follows (IEEE 802.3, 3.2.6)."""
_ETHERTYPES = {
    0x0806: "arp",
    0x8035: "rarp",
    0x8137: "ipx",
    0x8809: "slow-protocols",
    0x8863: "pppoe-discovery",
    0x888E: "eapol",
    0x88CC: "lldp",
    0x88F7: "ptp",
}


def link(link_type: int) -> int:
    """Return the number of the header kind with which frames of a link type begin."""
    return _LINK + link_type


def ip_packets(
    packets: LayerPackets, kind: int, steps: Mapping[int, Step], ledger: PacketCounts
) -> list[tuple[LayerPackets, int]]:
    """Return the IP packets among `packets`, grouped by version; count all others in `ledger`.

    Parameters
    ----------
    packets : LayerPackets
        `at` is where a header of `kind` begins.
    kind : int
    steps : mapping of int to Step
        Takes each kind of header off.
    ledger : PacketCounts

    Returns
    -------
    list of (Packets, int)
        `at` is where the IP header begins; the version is 4 or 6.
    """
    by_family: list[tuple[LayerPackets, int]] = []
    pending = [(packets, np.full(len(packets), kind))]
    for _ in range(_MOST_HEADERS):
        if not pending:
            return by_family
        following = []
        for part, kinds in pending:
            for number, same in _alike(part, kinds, steps, ledger):
                if number in (IPV4, IPV6):
                    by_family += by_version(same, 4 if number == IPV4 else 6)
                else:
                    following.append(steps[number](same, ledger))
        pending = [(part, kinds) for part, kinds in following if len(part)]
    for part, _ in pending:
        ledger.dropped(f"more than {_MOST_HEADERS} headers before IP", len(part))
    return by_family


def by_version(packets: LayerPackets, expected: int) -> list[tuple[LayerPackets, int]]:
    """Return the packets in groups, each with its IP version, 4 or 6.

    The version is `expected`, which the header before IP states. It is the other one if the first
    four bits of a packet say so and its length fields are valid for that version.
    """
    here = packets.at < packets.end
    other = 10 - expected
    turned = here & (packets.data[packets.at] >> 4 == other)
    if not turned.any():
        return [(packets, expected)]
    at, room = packets.at, packets.stop - packets.at
    if other == 6:
        payload = u16(packets.data, at + 4)
        turned &= (at + 40 <= packets.end) & (payload > 0) & (payload + 40 <= room)
    else:
        header, total = (packets.data[at].astype(np.int64) & 0x0F) << 2, u16(packets.data, at + 2)
        turned &= (at + 20 <= packets.end) & (header >= 20) & (total >= header) & (total <= room)
    parts = [(packets.keep(~turned), expected), (packets.keep(turned), other)]
    return [(part, version) for part, version in parts if len(part)]


def _alike(
    packets: LayerPackets, kinds: Numbers, steps: Mapping[int, Step], ledger: PacketCounts
) -> list[tuple[int, LayerPackets]]:
    """Return the packets in groups, each with the kind of its next header.

    Packets of a kind without a step are counted in `ledger` and left out.
    """
    distinct = [int(kinds[0])] if (kinds == kinds[0]).all() else np.unique(kinds).tolist()
    known = [k for k in distinct if k in steps or k in (IPV4, IPV6)]
    if len(known) < len(distinct):
        _count_unknown(kinds[~np.isin(kinds, known)], ledger)
    return [(k, packets.keep(kinds == k)) for k in known]


def _count_unknown(kinds: Numbers, ledger: PacketCounts) -> None:
    link_types, counts = np.unique(kinds[kinds >= _LINK] - _LINK, return_counts=True)
    for link_type, count in zip(link_types.tolist(), counts.tolist(), strict=True):
        ledger.dropped(f"link type {link_type} not decoded", count)
    ledger.count_each(kinds[kinds < _LINK], _ETHERTYPES, "ethertype 0x{:04x}")


def ethertype_step(name: str, *, length: int, at: int) -> Step:
    """Return a step that skips a header of `length` bytes with an EtherType at offset `at`.

    `name` is the name of the header in the counts.
    """

    def step(packets: LayerPackets, ledger: PacketCounts) -> tuple[LayerPackets, Numbers]:
        packets = packets.keep(ledger.complete(packets, length, f"{name} header"))
        return packets.advanced(length), ethertypes(packets, at)

    return step


def ethertypes(packets: LayerPackets, offset: int) -> Numbers:
    """Return the kind of the next header, from the EtherType at `offset` after each packet's `at`.

    Returns
    -------
    ndarray of int64, shape (n_packets,)
        The EtherType, or LLC where the number is a length (IEEE 802.3).
    """
    ethertype = u16(packets.data, packets.at + offset)
    short = ethertype <= _LARGEST_LENGTH
    return np.where(short, LLC, ethertype) if short.any() else ethertype


def fixed_step(name: str, *, length: int, following: int) -> Step:
    """Return a step that skips a header of `length` bytes.

    The next header is always of the kind `following`.
    """

    def step(packets: LayerPackets, ledger: PacketCounts) -> tuple[LayerPackets, Numbers]:
        packets = packets.keep(ledger.complete(packets, length, f"{name} header"))
        return packets.advanced(length), np.full(len(packets), following)

    return step
