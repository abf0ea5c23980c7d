"""The names of a sender's states, and their numbers in tables and in the kernel."""

from __future__ import annotations

from enum import IntEnum


class Family(IntEnum):
    """Address families of Linux (linux/socket.h)."""

    INET = 2
    INET6 = 10


class SocketTimer(IntEnum):
    """Which timer of a socket runs (linux/inet_diag.h: idiag_timer)."""

    NONE = 0
    RETRANSMISSION = 1
    KEEP_ALIVE = 2
    TIME_WAIT = 3
    ZERO_WINDOW_PROBE = 4


class TcpState(IntEnum):
    """States of a socket as Linux numbers them (include/net/tcp_states.h)."""

    ESTABLISHED = 1
    SYN_SENT = 2
    SYN_RECV = 3
    FIN_WAIT1 = 4
    FIN_WAIT2 = 5
    TIME_WAIT = 6
    CLOSE = 7
    CLOSE_WAIT = 8
    LAST_ACK = 9
    LISTEN = 10
    CLOSING = 11
    NEW_SYN_RECV = 12
    BOUND_INACTIVE = 13


class CaState(IntEnum):
    """The sender's state of loss recovery (enum tcp_ca_state, linux/tcp.h)."""

    OPEN = 0
    DISORDER = 1
    """Duplicate ACKs or SACKs arrived; nothing was retransmitted yet."""
    CWR = 2
    """The window is being reduced for a reason that is no loss: ECN, or a drop in the host itself."""
    RECOVERY = 3
    """Fast retransmit."""
    LOSS = 4
    """A retransmission timeout."""


class ReadBy(IntEnum):
    """How a row of tcp_state was obtained."""

    TCP_INFO = 1
    """Polled: the state at some instant between read_before and read_after."""
    TCP_PROBE = 2
    """At the arrival of a segment, before it changed the state."""
    SS = 3
    """Polled through the text of `ss`, between two time stamps of the recorder."""
    SIFTR = 4
    """At a packet, where FreeBSD's filter saw it."""


class TcpEvent(IntEnum):
    """The events of tcp_events."""

    RETRANSMISSION = 1
    CA_STATE = 2
