"""What is said of a capture without any TCP segment: what it holds instead, how much, and what would help."""

from __future__ import annotations

from typing import TYPE_CHECKING

from multitracer.captured import Content
from multitracer.endpoints import address_text
from multitracer.units import BITS_PER_BYTE, NS_PER_S
from multitracer.words import count, duration, rate, share, size

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from multitracer.captured import ContentWay, SourceFile, Tunnel
    from multitracer.tables import Document


_MOST_NAMED = 3
"""Maximum kinds of content that the sentence names; the others are counted together. Not measured."""
_ENCRYPTED = "a capture inside the tunnel (on its own interface), or at an end of what it carries"
_TUNNEL = "reading it without --no-decap, or a capture of whole packets: TCP inside the tunnel is then analysed"
_LINK_TYPE = "the right link type: the file may name another one than its packets have (capinfos shows it)"
_HELP = {
    "QUIC": (
        "the keys of its connections (SSLKEYLOGFILE, --keylog), a qlog of the sender and a capture at the other end, "
        "if any of them is missing"
    ),
    "UDP port 443": "a log of the program at one end (qlog), or the same transfer over TCP",
    "WireGuard": _ENCRYPTED,
    "OpenVPN": _ENCRYPTED,
    "ESP": _ENCRYPTED,
    "AH": _ENCRYPTED,
    "IKE": _ENCRYPTED,
    "DTLS": "the log of the program at one end",
    "GTP-U": _TUNNEL,
    "VXLAN": _TUNNEL,
    "Geneve": _TUNNEL,
    "L2TP": _TUNNEL,
    "GRE": _TUNNEL,
    "ethertype": _LINK_TYPE,
    "llc": _LINK_TYPE,
    "not decoded": "a capture of whole packets, on an interface of a known kind",
    "IP fragments": "a capture with the first fragment of each packet",
}
"""What would help, by the begin of a content's name."""
_WHY = {
    "DTLS": "DTLS encrypts what it carries",
    "WireGuard": "WireGuard encrypts whole packets, also their ports and TCP headers",
    "OpenVPN": "OpenVPN encrypts whole packets, also their ports and TCP headers",
    "ESP": "ESP encrypts whole packets, also their ports and TCP headers",
    "IKE": "IKE only negotiates keys",
}
"""Why no more than rates can be known, by the begin of a content's name."""
_OTHER_HELP = "the log of the program that sent them (for example of iperf3 --json), or a capture of TCP"

_PINGS = frozenset({"ICMP", "ICMPv6"})
_UPKEEP = _PINGS | {
    "DHCP", "DHCPv6", "DNS", "IGMP", "LLMNR", "NTP", "NetBIOS", "OSPF", "PIM", "SNMP", "SSDP", "VRRP", "arp", "eapol",
    "lldp", "mDNS", "pppoe-discovery", "ptp", "rarp", "slow-protocols",
}  # fmt: skip
"""Contents that a network has without any transfer."""
_UPKEEP_HELP = (
    "a capture made while the transfer runs, on the interface that it uses, and without a filter: these packets only "
    "keep a network going (addresses, names, time)"
)
_PING_HELP = (
    "for the delay of pings their output (ping -D), which is read; for a transfer a capture made while it runs, on "
    "the interface that it uses, and without a filter"
)


def not_tcp(files: Sequence[SourceFile]) -> str:
    """Return a sentence on what the files hold, of which no packet is a segment, and on what would help."""
    listed = _listed(files)
    packets = sum(file.packets for file in files)
    looked = sum(each.packets for each in listed)
    part = f" (of the first {looked:,} packets)" if looked < packets else ""
    holds = f"None of the {packets:,} packets holds" if packets > 1 else "The only packet does not hold"
    helps = _help([each.name for each in listed])
    is_quic = bool(listed) and listed[0].name.startswith("QUIC")
    nothing = "; its QUIC is shown apart" if is_quic else ", so nothing was analysed"
    return (
        f"{holds} a TCP segment{nothing}. Found{part}: {_what(listed) or 'nothing known'}. "
        f"{_rates(listed)}What would help: {helps}."
    )


def others(files: Sequence[SourceFile]) -> str:
    """Return sentences on what the packets are beside little TCP, with a space before them; "" if not known."""
    listed = _listed([file for file in files if file.contents])
    return f" Found beside it: {_what(listed)}. {_rates(listed)}".rstrip() if listed else ""


def _listed(files: Sequence[SourceFile]) -> list[Content]:
    """Return the contents of all files together, the most bytes first."""
    by_name: dict[str, Content] = {}
    for each in (each for file in files for each in _contents(file)):
        before = by_name.get(each.name, Content(each.name, 0, 0))
        ways = max(before.ways, each.ways, key=lambda ways: sum(way.bytes for way in ways))
        by_name[each.name] = Content(each.name, before.packets + each.packets, before.bytes + each.bytes, ways)
    return sorted(by_name.values(), key=lambda each: (-each.bytes, -each.packets))


def _what(listed: Sequence[Content]) -> str:
    what = "; ".join(_in_words(each, listed) for each in listed[:_MOST_NAMED])
    rest = sum(each.packets for each in listed[_MOST_NAMED:])
    return what + (f"; {count(rest, 'packet')} of other kinds" if rest else "")


def _contents(file: SourceFile) -> list[Content]:
    """Return the contents of a file; without any, its counts of packets, of unknown length."""
    counts = {**file.protocols, **{f"not decoded, {why}": n for why, n in file.not_decoded.items()}}
    return file.contents or [Content(name, packets, 0) for name, packets in counts.items()]


def _in_words(content: Content, listed: Sequence[Content]) -> str:
    total = sum(each.bytes for each in listed)
    much = f", {size(content.bytes)} ({share(content.bytes, total)} of the bytes)" if total else ""
    return f"{content.name}, {count(content.packets, 'packet')}{much}"


def _rates(listed: Sequence[Content]) -> str:
    """Return sentences on the rate of the largest content in each direction, and on why nothing else can be known.

    "" if it is not known, or of no interest.
    """
    if not listed or _is_upkeep(listed[0].name) or not listed[0].ways:
        return ""
    content = listed[0]
    ways = [f"{way.source} -> {way.destination} {_rate(way)}" for way in content.ways]
    why = next((f": {why}" for begin, why in _WHY.items() if content.name.startswith(begin)), "")
    nothing = f"Neither round trips nor losses inside can be known{why}. " if why else ""
    return f"By direction: {'; '.join(ways)}. {nothing}"


def _rate(way: ContentWay) -> str:
    words = f"{count(way.packets, 'packet')}, {size(way.bytes)}"
    if way.duration_ns > 0:
        mean = rate(way.bytes * BITS_PER_BYTE * NS_PER_S / way.duration_ns)
        words += f" in {duration(way.duration_ns)}, mean {mean}"
    return words if way.peak_bytes is None else f"{words}, at most {rate(way.peak_bytes * BITS_PER_BYTE)} in a second"


def content_records(file: SourceFile) -> Iterator[Document]:
    """Yield a record for each content of a file without TCP in the output of `analyze`."""
    for content in file.contents:
        ways = [
            {
                "source": way.source,
                "destination": way.destination,
                "packets": way.packets,
                "bytes": way.bytes,
                "duration_s": way.duration_ns / NS_PER_S,
                "peak_bytes_per_s": way.peak_bytes,
                "step_s": way.step_s,
                "bytes_by_step": list(way.bytes_by_step),
            }
            for way in content.ways
        ]
        yield {"name": content.name, "packets": content.packets, "bytes": content.bytes, "directions": ways}


def _is_upkeep(name: str) -> bool:
    """Return whether a network has a content without any transfer, also inside a tunnel."""
    return all(part.partition(" in ")[0] in _UPKEEP for part in name.split(" and "))


def _help(names: Sequence[str]) -> str:
    """Return what would help, by the largest content that may be a transfer; of other contents by all of them."""
    transfers = [name for name in names if not _is_upkeep(name)]
    is_upkeep = len(transfers) < len(names) and set(transfers) <= {"llc"}  # beside these it is spanning tree
    if is_upkeep:
        return _PING_HELP if names[0].partition(" in ")[0] in _PINGS else _UPKEEP_HELP
    name = transfers[0] if transfers else ""
    return next((help_ for begin, help_ in _HELP.items() if name.startswith(begin)), _OTHER_HELP)


# What is said of tunnels whose packets were read inside.


_IDENTIFIERS = {"GTP-U": "TEID", "VXLAN": "VNI", "Geneve": "VNI", "L2TP": "session", "QMAP": "mux id"}
"""What the number of a tunnel is called in its standard."""
_OF_LINKS = {"QMAP"}
"""Tunnels below IP, which are read as the headers of a link are: there is no outer packet to count."""
_MOST_SHOWN = 20
"""Maximum number of pairs of ends in a document; all are counted. Not measured."""


def tunnel_words(name: str, tunnel: Tunnel) -> str:
    """Return a clause on a kind of tunnel: its packets, its ends and how many tunnels there are."""
    words = [f"{name}: {count(tunnel.packets, 'packet')}, {tunnel.tcp_packets:,} with TCP"]
    if len(tunnel.ends) == 1:
        ((one, two),) = tunnel.ends
        words.append(f"between {address_text(one)} and {address_text(two)}")
    elif tunnel.ends:
        words.append(f"between {len(tunnel.ends):,} pairs of addresses")
    if tunnel.identifiers and name in _IDENTIFIERS:
        words.append(count(len(tunnel.identifiers), _IDENTIFIERS[name]))
    return ", ".join(words)


def tunnels_sentence(file: SourceFile) -> str:
    """Return a sentence on the tunnels of a file with TCP inside."""
    holding = {name: each for name, each in file.tunnels.items() if each.tcp_packets}
    listed = "; ".join(tunnel_words(name, each) for name, each in holding.items())
    instead = "; --no-decap counts the outer packets instead" if set(holding) - _OF_LINKS else ""
    return f"TCP was found inside tunnels ({listed}): addresses, lengths and connections are those inside{instead}."


def tunnel_records(file: SourceFile) -> Iterator[Document]:
    """Yield a record for each kind of tunnel in the output of `analyze`."""
    for name, each in file.tunnels.items():
        yield {
            "name": name,
            "packets": each.packets,
            "tcp_packets": each.tcp_packets,
            "unread_packets": each.unread_packets,
            "pairs": len(each.ends),
            "ends": [[address_text(one) for one in pair] for pair in sorted(each.ends)[:_MOST_SHOWN]],
            "identifiers": len(each.identifiers),
        }
