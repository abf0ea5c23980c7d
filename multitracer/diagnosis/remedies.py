"""The remedies: what would help against a limit, and the facts that decide between several."""

from __future__ import annotations

from typing import NamedTuple

from multitracer.diagnosis.limits.names import Limit, LimitSubtype


class Advice(NamedTuple):
    """A remedy, and what must be so that it is one."""

    limit: Limit
    help: str
    needs: frozenset[str] = frozenset()
    """Facts of `facts_of`, all of which must hold."""
    part: LimitSubtype | None = None
    """The subtype of the limit; None: any."""


_CONTRACT_HELP = "a higher rate in the contract; shaping instead of policing"
_POLICED_HELP = "a sender that paces, shaping instead of policing, or a higher rate in the contract"
_SMALL_MTU_HELP = "ICMP messages that pass, or a smaller MSS at the tunnel: large packets vanish"
_FULL_QUEUE_HELP = "an AQM that marks (ECN), or another congestion control: a full queue lost packets"
_FAILED_PATH_HELP = "finding the part of the path that failed: the log of its router or modem shows why"
_WRITES_HELP = "a program that writes more, or sooner, unless its pace is intended: TCP could have carried more"
_NAGLE_HELP = "TCP_NODELAY, or writing the whole message at once"
_AT_SENDER_HELP = "a capture at the sender shows"
_RECEIVE_BUFFER_HELP = "a larger receive buffer (SO_RCVBUF, tcp_rmem), or none set, so that the kernel tunes it"
_OR_BUFFER_HELP = "; or a larger send buffer, if that was full: a recording with the sender's TCP state (ss) shows it"
_HOST_HELP = "a faster interface of the sender's host (its modem, or the limit set on it), or less other traffic on it"
_OR_PROGRAM_HELP = f"{_AT_SENDER_HELP} whether the window, a buffer or the program kept data back"
LESS_LOSS = "less loss"
"""Begin of remedies where losses were counted; their number is inserted after it."""
_ON_THE_LINK = f"{LESS_LOSS} on the link itself"
_SEEK = "check the radio signal and the drop counters of the queue"
AFTER_IDLE_HELP = (
    "a congestion window that is kept in idle times (Linux: net.ipv4.tcp_slow_start_after_idle=0 at the sender of the "
    "data), or fewer and shorter pauses"
)
"""The remedy for slow start after idle times, in which TCP forgets its window (RFC 5681, section 4.1)."""
_WITH_STATE = ", best with its TCP state (ss)"
ADVICE = tuple(
    Advice(limit, help_, frozenset(needs.split()), part)
    for limit, needs, part, help_ in (
        (Limit.HANDSHAKE, "connection-refused", None,
         "a server that listens at this port, or the right port; a firewall may refuse in its name"),
        (Limit.HANDSHAKE, "syn-unanswered", None,
         "the right address and port, a firewall that lets the connection pass, or a path that works"),
        (Limit.HANDSHAKE, "unopened", None, "a capture that goes on for longer: an answer may come later"),
        (Limit.HANDSHAKE, "fast-open-refused", None, "Fast Open at the server, or fewer new connections"),
        (Limit.HANDSHAKE, "syn-retransmitted", None,
         "a path and a server (its backlog) that lose no SYN, or connections that are kept open"),
        (Limit.HANDSHAKE, "", None, "a server that answers sooner, a shorter path, or fewer new connections"),
        (Limit.OUTAGE, "idle-timeout", None,
         "keep-alives more often than its timeout, or a new connection after a pause"),
        (Limit.OUTAGE, "path-mtu-black-hole", None, _SMALL_MTU_HELP),
        (Limit.OUTAGE, "after-idle", None,
         f"{_FAILED_PATH_HELP}; or keep-alives, if a firewall or NAT had forgotten the idle connection"),
        (Limit.OUTAGE, "radio", None, "better coverage, or other handover parameters of the network"),
        (Limit.OUTAGE, "", None, _FAILED_PATH_HELP),
        (Limit.LINK, "or-paced", LimitSubtype.HOST,
         f"{_HOST_HELP}, or no pacer (SO_MAX_PACING_RATE, BBR): its packets do not show which"),
        (Limit.LINK, "", LimitSubtype.HOST,
         _HOST_HELP),
        (Limit.LINK, "", LimitSubtype.ACKS,
         "less traffic in the direction of the ACKs (an upload of one's own), or a shorter queue there (AQM)"),
        (Limit.LINK, "policed pacing", None, f"{_CONTRACT_HELP} would only lose fewer packets"),
        (Limit.LINK, "policed", None, f"{_CONTRACT_HELP}, or a sender that paces, would only lose fewer packets"),
        (Limit.LINK, "radio", None, "a faster link, a better cell or fewer users"),
        (Limit.LINK, "or-pace", None,
         "a faster link, or less other traffic on it, if a capture at the other end shows a queue before it"),
        (Limit.LINK, "acks-lost", None, "fewer lost ACKs, if these made the answers late"),
        (Limit.LINK, "receiver-only", None,
         f"a faster link, or less other traffic on it; {_AT_SENDER_HELP} whether its own interface is that link"),
        (Limit.LINK, "", None, "a faster link, or less other traffic on it"),
        (Limit.RECOVERY, "policer", None, _POLICED_HELP),
        (Limit.RECOVERY, "path-mtu-black-hole", None, _SMALL_MTU_HELP),
        (Limit.RECOVERY, "sack-not-translated", None,
         "a firewall that changes SACK blocks with the sequence numbers, or neither"),
        (Limit.RECOVERY, "without-sack", None,
         "SACK at both ends, or a firewall that passes the option"),
        (Limit.RECOVERY, "no-sack", None,
         "SACK at both ends (tcp_sack): without it each round trip repairs one lost packet"),
        (Limit.RECOVERY, "random-loss", None, f"{_ON_THE_LINK}: its signal, cable or port"),
        (Limit.RECOVERY, "congestion-loss", None, _FULL_QUEUE_HELP),
        (Limit.RECOVERY, "ack-loss", None, "a way back that loses fewer ACKs: its queue, radio or header compression"),
        (Limit.RECOVERY, "or-program", None, f"{_AT_SENDER_HELP} whether data were lost, or a program waited"),
        (Limit.RECOVERY, "asked-in-vain", None,
         "less loss on the way from the peer: its ACKs, and perhaps its data, were lost"),
        (Limit.RECOVERY, "lost", None, f"{LESS_LOSS}. The packets do not show why: {_SEEK}"),
        (Limit.RECOVERY, "", None, f"{_SEEK}: the packets do not show why data were lost"),
        (Limit.RECEIVER_WINDOW, "", LimitSubtype.ZERO, "a receiving program that reads what has arrived"),
        (Limit.RECEIVER_WINDOW, "unscaled", None,
         "window scaling at both ends, or a firewall that passes it: without it no window exceeds 65,535 bytes"),
        (Limit.RECEIVER_WINDOW, "read-late", None,
         "a receiving program that reads sooner: data waited in its buffer, and a larger one would fill, too"),
        (Limit.RECEIVER_WINDOW, "varies", None,
         "a receiving program that reads sooner, or a larger SO_RCVBUF: the receiver's TCP state (ss) shows which"),
        (Limit.RECEIVER_WINDOW, "", None, _RECEIVE_BUFFER_HELP),
        (Limit.SENDER_BUFFER, "receiver-only weak-without-state", None, f"{_OR_PROGRAM_HELP}{_WITH_STATE}"),
        (Limit.SENDER_BUFFER, "receiver-only", None, _OR_PROGRAM_HELP),
        (Limit.SENDER_BUFFER, "stateless", None,
         "a larger send buffer (SO_SNDBUF, tcp_wmem), if the sender's TCP state (ss) shows that it was full"),
        (Limit.SENDER_BUFFER, "", None,
         "a larger send buffer (SO_SNDBUF, tcp_wmem), or none set, so that the kernel tunes it"),
        (Limit.APPLICATION, "of-initiator", LimitSubtype.THINK,
         "a program that sends its data sooner, unless its pace is intended"),
        (Limit.APPLICATION, "", LimitSubtype.THINK, "a program that begins its answers sooner"),
        (Limit.APPLICATION, "of-initiator", LimitSubtype.PEER,
         "a server that answers sooner, or data that do not wait for its answers"),
        (Limit.APPLICATION, "asked-in-vain", LimitSubtype.PEER,
         "a capture at the client: it shows whether requests were sent late, or lost on the way, as ACKs were"),
        (Limit.APPLICATION, "", LimitSubtype.PEER,
         "a client that sends its requests sooner, or several at once, unless its pace is intended"),
        (Limit.APPLICATION, "one-way", LimitSubtype.NAGLE,
         f"{_WRITES_HELP}; TCP_NODELAY would only make each message sooner"),
        (Limit.APPLICATION, "", LimitSubtype.NAGLE, _NAGLE_HELP),
        (Limit.APPLICATION, "", LimitSubtype.LATENCY,
         "fewer round trips: several requests at once, larger ones, or a shorter path"),
        (Limit.APPLICATION, "", LimitSubtype.REPAIR,
         "less loss: a lost request alone waits for a timer, as nothing behind it shows the loss"),
        (Limit.APPLICATION, "weak-without-state", None, f"{_WRITES_HELP}{_OR_BUFFER_HELP}"),
        (Limit.APPLICATION, "", None, _WRITES_HELP),
        (Limit.SLOW_START, "window-after-idle", None, AFTER_IDLE_HELP),
        (Limit.SLOW_START, "", None, "fewer new connections, a larger initial window, or a shorter path"),
        (Limit.CONGESTION_WINDOW, "policer", None, _POLICED_HELP),
        (Limit.CONGESTION_WINDOW, "ecn-marked nothing-lost", None,
         "a router that marks later, or a faster link: marks slowed the sender down, and nothing was lost"),
        (Limit.CONGESTION_WINDOW, "or-program nothing-lost weak-without-state", None,
         f"{_OR_PROGRAM_HELP}{_WITH_STATE}"),
        (Limit.CONGESTION_WINDOW, "or-program nothing-lost", None, _OR_PROGRAM_HELP),
        (Limit.CONGESTION_WINDOW, "or-program lost weak-without-state", None,
         f"{LESS_LOSS}, or another congestion control; {_OR_PROGRAM_HELP}{_WITH_STATE}"),
        (Limit.CONGESTION_WINDOW, "or-program weak-without-state", None,
         f"another congestion control; {_OR_PROGRAM_HELP}{_WITH_STATE}"),
        (Limit.CONGESTION_WINDOW, "or-program lost", None,
         f"{LESS_LOSS}, or another congestion control; {_OR_PROGRAM_HELP}"),
        (Limit.CONGESTION_WINDOW, "or-program", None, f"another congestion control; {_OR_PROGRAM_HELP}"),
        (Limit.CONGESTION_WINDOW, "weak-without-state nothing-lost", None,
         f"another congestion control: nothing was lost{_OR_BUFFER_HELP}"),
        (Limit.CONGESTION_WINDOW, "pacing nothing-lost", None,
         "another congestion control: this one paces by its own estimate of the rate, and nothing was lost"),
        (Limit.CONGESTION_WINDOW, "nothing-lost", None, "another congestion control: nothing was lost"),
        (Limit.CONGESTION_WINDOW, "random-loss", None,
         f"{_ON_THE_LINK}, or a congestion control that slows down less for each loss (BBR)"),
        (Limit.CONGESTION_WINDOW, "congestion-loss", None, _FULL_QUEUE_HELP),
        (Limit.CONGESTION_WINDOW, "lost weak-without-state", None,
         f"{LESS_LOSS}, or another congestion control{_OR_BUFFER_HELP}"),
        (Limit.CONGESTION_WINDOW, "weak-without-state", None, f"another congestion control{_OR_BUFFER_HELP}"),
        (Limit.CONGESTION_WINDOW, "lost", None, f"{LESS_LOSS}, or another congestion control"),
        (Limit.CONGESTION_WINDOW, "", None, "another congestion control"),
        (Limit.UNKNOWN, "clock-step", None, "a capture whose clock is not set while it runs; NTP may slew it"),
        (Limit.UNKNOWN, "one-time", None, "a capture that goes on for longer, or one with finer time stamps"),
        (Limit.UNKNOWN, "one-direction", None, "a capture that has both directions"),
        (Limit.UNKNOWN, "", None,
         "a capture at the other end too, and the sender's TCP state (collectors.tcp_info)"),
    )
)  # fmt: skip
"""The remedies: the first one that fits holds. The last one of each limit always fits."""


def remedy(limit: Limit, part: LimitSubtype, facts: frozenset[str]) -> str:
    """Return the remedy for a limit or its subtype where these facts hold (`facts_of`)."""
    fitting = (each for each in ADVICE if each.limit is limit and each.part in (None, part) and each.needs <= facts)
    return next(fitting).help
