"""Our own TCP without I/O; names are those of the RFCs.

Packets and `now_ns` come in; packets, the application's bytes and the next deadline come out. Read
`connection.py` first: it is one end of a connection, made of a `sender.py` (windows, recovery, timers) and a
`receiver.py` (reassembly, ACKs). `congestion/` holds one algorithm a file, `packet.py` turns segments into
bytes and back, `profile.py` is what differs from one implementation to the next, `linux.py` what Linux does.

What must hold: the stream that is delivered equals the stream that was written, whatever the network does.
Sequence numbers are unwrapped in `connection.py` and nowhere else. No packet raises; a wrong call does.
"""

from __future__ import annotations

from multitracer.lab.tcp.connection import Connection
from multitracer.lab.tcp.linux import as_linux
from multitracer.lab.tcp.packet import Endpoint, Packet, Segment, build_packet, parse_packet
from multitracer.lab.tcp.profile import BSD, LINUX22, MODERN, PALM, PROFILES, TcpProfile, tcp_profile
from multitracer.lab.tcp.state import CaState, SenderCounters, State

__all__ = [
    "BSD",
    "LINUX22",
    "MODERN",
    "PALM",
    "PROFILES",
    "CaState",
    "Connection",
    "Endpoint",
    "Packet",
    "Segment",
    "SenderCounters",
    "State",
    "TcpProfile",
    "as_linux",
    "build_packet",
    "parse_packet",
    "tcp_profile",
]
