"""Linux `sock_diag`: the kernel's variables of TCP sockets, as bytes in and values out.

Out go questions: which sockets, by `bytecode.py` (filters that run in the kernel). In come answers: a
socket's ends and state (`netlink.py`) and its `struct tcp_info` (`tcp_info.py`). `words.py` has the states
and their numbers. Nothing here opens a socket: `collectors.tcp_info` does.

What must hold: an older kernel's struct is shorter, a newer one's is longer; fields that are absent are
absent, and none moves. Values keep the kernel's names and units (microseconds, bytes, segments). Source:
linux/inet_diag.h, linux/tcp.h, linux/netlink.h.
"""

from multitracer.protocols.sock_diag.bytecode import filter_bytecode
from multitracer.protocols.sock_diag.netlink import (
    Done,
    Refused,
    Socket,
    decode,
    dump_request,
    socket_request,
)
from multitracer.protocols.sock_diag.tcp_info import decode_tcp_info, tcp_info_columns
from multitracer.protocols.sock_diag.words import CaState, ReadBy, TcpEvent, TcpState

__all__ = [
    "CaState",
    "Done",
    "ReadBy",
    "Refused",
    "Socket",
    "TcpEvent",
    "TcpState",
    "decode",
    "decode_tcp_info",
    "dump_request",
    "filter_bytecode",
    "socket_request",
    "tcp_info_columns",
]
