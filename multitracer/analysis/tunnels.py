"""What is said of tunnels whose packets were read inside."""

from __future__ import annotations

from typing import TYPE_CHECKING

from multitracer.endpoints import address_text
from multitracer.words import count

if TYPE_CHECKING:
    from collections.abc import Iterator

    from multitracer.captured import SourceFile, Tunnel
    from multitracer.tables import Document

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
