"""Parameters in which TCP implementations differ."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal

from multitracer.errors import LocalProtocolError
from multitracer.units import NS_PER_MS, NS_PER_S

if TYPE_CHECKING:
    from collections.abc import Mapping

_MOST_COPIES = 3
"""Maximum copies of a segment: with four, the duplicate ACKs would start a fast retransmit (RFC 5681, 3.2)."""
_MOST_SSTHRESH_SEGMENTS = 1 << 20
"""Maximum ssthresh in segments: the largest window of RFC 7323, 1 GiB, in segments of 1 KiB."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TcpProfile:
    """The options and constants of one end of a connection; times in ns, sizes in bytes."""

    congestion: str = "newreno"
    """Name of the congestion control, see `congestion.ALGORITHMS`."""
    mtu_bytes: int = 1500
    """Largest IP packet; the MSS option is 40 less (RFC 6691)."""
    initial_window_segments: int = 10
    """Initial window in segments (RFC 5681: 2 to 4; RFC 6928: 10)."""
    initial_ssthresh_segments: int = 0
    """Slow-start threshold before any loss in segments; 0: unlimited (RFC 5681, 3.1.

    Paper 002: 8, 16 or 32)."""
    timeout_window: Literal["one", "half"] = "one"
    """Window after a timeout or Tahoe's fast retransmit.

    one: one segment (RFC 5681, 3.1). half: half of FlightSize, which paper 002 proposes after a fade."""
    copies: int = 1
    """How often each segment with data is sent, 1 to 3 (paper 002 proposes copies).

    With 4, the duplicate ACKs of one segment would begin a recovery."""
    resume_when_up: bool = False
    """Whether the host knows when its link comes back, and its retransmission timer expires then without back-off.

    The wireless side of I-TCP (reference 5 of paper 002) does so after a hand-off."""
    timestamps: bool = True
    """Whether to offer the timestamps option (RFC 7323)."""
    sack: bool = True
    """Whether to offer selective acknowledgments with D-SACK (RFC 2018, 2883, 6675)."""
    window_scaling: bool = True
    """Whether to offer the window scale option (RFC 7323)."""
    ecn: bool = False
    """Whether to offer explicit congestion notification (RFC 3168)."""
    limited_transmit: bool = True
    """Whether to send new data on the first two duplicate ACKs (RFC 3042)."""
    recovery: Literal["rfc6675", "linux"] = "rfc6675"
    """How losses are found and repaired with SACK.

    rfc6675: by that RFC. linux: RACK, proportional rate reduction, and undoing of needless reductions
    (`linux_sender.py`)."""
    tail_loss_probe: bool = False
    """Whether to send a tail loss probe before the timer expires, with SACK (RFC 8985, section 7)."""
    nagle: bool = True
    """Whether to delay a short segment while data are unacknowledged, unless it is the last (RFC 9293, 3.7.4)."""
    send_buffer_bytes: int = 1 << 20
    """Maximum number of written bytes that are not acknowledged."""
    receive_buffer_bytes: int = 65_535
    """Maximum advertised window."""
    initial_rto_ns: int = NS_PER_S
    """Retransmission timeout before the first sample (RFC 6298; 3 s in RFC 2988, 6 s in BSD)."""
    min_rto_ns: int = NS_PER_S
    """Lower bound of the retransmission timeout (RFC 6298: 1 s; Linux: 200 ms)."""
    max_rto_ns: int = 60 * NS_PER_S
    """Upper bound of the retransmission timeout, with or without back-off; at least 60 s in RFC 6298."""
    rto: Literal["rfc6298", "linux"] = "rfc6298"
    """How the retransmission timeout is computed from samples; see `transmitter.py`."""
    syn_linear_timeouts: int = 0
    """Number of SYN timeouts that do not double the next timeout (Linux: 4)."""
    timer_tick_ns: int = NS_PER_MS
    """Granularity of timers, of RTT samples and of TSval: 500 ms in BSD's slow timeout."""
    sample_every_ack: bool = False
    """Whether to take an RTT sample of every segment without timestamps, instead of one per window."""
    delayed_ack_ns: int = 200 * NS_PER_MS
    """Maximum time for which an ACK waits for a second segment; 0: no delay (RFC 1122: below 500 ms)."""
    longest_delayed_ack_ns: int = 0
    """Maximum delay of an ACK, if above `delayed_ack_ns`: each timeout of a delayed ACK doubles the next delay."""
    quick_acks: bool = False
    """Whether to acknowledge the first segments at once, up to half the window.

    Also after a long idle gap."""
    max_retransmissions: int = 12
    """Number of timeouts of one unit after which the connection is given up."""
    msl_ns: int = 30 * NS_PER_S
    """Maximum segment lifetime; TIME-WAIT lasts twice as long."""
    quench_on_local_drop: bool = False
    """Whether to set cwnd to one segment when the interface queue refuses a packet (BSD's tcp_quench)."""
    keep_on_local_drop: bool = False
    """Whether to halve cwnd and treat a refused segment as unsent (Linux' tcp_enter_cwr)."""

    def __post_init__(self) -> None:
        if not 0 <= self.initial_ssthresh_segments <= _MOST_SSTHRESH_SEGMENTS:
            raise LocalProtocolError(
                '"initial_ssthresh_segments" must be 0 (no threshold) to '
                f"{_MOST_SSTHRESH_SEGMENTS:,}, but is {self.initial_ssthresh_segments}"
            )
        if not 1 <= self.copies <= _MOST_COPIES:
            raise LocalProtocolError(f'"copies" must be 1 to {_MOST_COPIES}, but is {self.copies}')


BSD = TcpProfile(
    congestion="reno",
    initial_window_segments=1,
    timestamps=True,
    sack=False,
    window_scaling=False,
    limited_transmit=False,
    send_buffer_bytes=8192,
    receive_buffer_bytes=8192,
    initial_rto_ns=6 * NS_PER_S,
    min_rto_ns=NS_PER_S,
    max_rto_ns=64 * NS_PER_S,
    timer_tick_ns=500 * NS_PER_MS,
    quench_on_local_drop=True,
)
"""A BSD of 1998, as in the papers: Reno, coarse timers, 8 KB socket buffers, source quench."""

MODERN = TcpProfile(min_rto_ns=200 * NS_PER_MS, delayed_ack_ns=40 * NS_PER_MS, sample_every_ack=True)
"""Defaults of a present system: NewReno with SACK, timestamps and an initial window of ten."""

_RFC1122 = TcpProfile(
    initial_window_segments=1,
    timestamps=False,
    sack=False,
    window_scaling=False,
    limited_transmit=False,
    initial_rto_ns=3 * NS_PER_S,
)
"""Common base of both ends of paper 000.

No option but the MSS, one RTT sample per window, a first RTO of 3 s (RFC 1122, section 4.2.3.1), and an
initial window of one segment (RFC 2001)."""

PALM = replace(
    _RFC1122,
    congestion="reno",
    send_buffer_bytes=8192,
    receive_buffer_bytes=8192,
    min_rto_ns=500 * NS_PER_MS,
    max_rto_ns=64 * NS_PER_S,
    timer_tick_ns=10 * NS_PER_MS,
    max_retransmissions=100,
)
"""PalmOS 3.5, as RFC 1122 requires it: paper 000 contains none of its numbers.

`max_rto_ns` is the free parameter of docs/papers/experiments_sweep.md. The minimum RTO is a "fraction of a
second", the tick a hundredth of one. With 100 retransmissions R2 is 100 s (section 4.2.3.5) at an RTO of 1 s:
the application gives up first."""

LINUX22 = replace(
    _RFC1122,
    congestion="newreno",
    send_buffer_bytes=32_768,
    receive_buffer_bytes=32_767,
    min_rto_ns=200 * NS_PER_MS,
    max_rto_ns=120 * NS_PER_S,
    timer_tick_ns=10 * NS_PER_MS,
    max_retransmissions=15,
)
"""Linux 2.2.17 towards a peer without timestamps and SACK.

HZ is 100, TCP_RTO_MIN HZ/5, TCP_RTO_MAX 120 HZ, tcp_retries2 15, congestion control NewReno. Its real RTO is
SRTT plus four deviations, times at least 1.25; here that factor is absent, as in RFC 1122. The buffers are
half of its 64 KB, because it offers only that much."""

PROFILES: Mapping[str, TcpProfile] = {"bsd": BSD, "modern": MODERN, "palm": PALM, "linux22": LINUX22}
"""Profiles by the name in a scenario."""


def tcp_profile(name: str, **changes: Any) -> TcpProfile:
    """Return the named profile with `changes` to its fields.

    Raises
    ------
    LocalProtocolError
        If there is no such profile or no such field.
    """
    if name not in PROFILES:
        raise LocalProtocolError(f"TCP profile {name!r} is unknown; choose one of {', '.join(PROFILES)}")
    unknown = changes.keys() - set(TcpProfile.__dataclass_fields__)
    if unknown:
        raise LocalProtocolError(
            f"TCP profile {name!r} contains unknown fields: {', '.join(sorted(unknown))}; correct or remove them"
        )
    return replace(PROFILES[name], **changes)


# The Linux version of a profile: for runs that are compared with the kernel's TCP.


_LINUX = {**dict.fromkeys(("tahoe", "reno", "newreno"), "linux-reno"), "cubic": "linux-cubic"}
"""Linux' variant of each congestion control."""


def as_linux(profile: TcpProfile) -> TcpProfile:
    """Return the profile with all behaviour in which Linux differs from the RFCs."""
    return replace(
        profile,
        congestion=_LINUX.get(profile.congestion, profile.congestion),
        limited_transmit=True,
        recovery="linux",
        tail_loss_probe=profile.sack,
        send_buffer_bytes=max(profile.send_buffer_bytes, 1 << 17),
        initial_rto_ns=NS_PER_S,
        rto="linux",
        syn_linear_timeouts=4,
        timer_tick_ns=NS_PER_MS,
        sample_every_ack=True,
        delayed_ack_ns=40 * NS_PER_MS,
        longest_delayed_ack_ns=200 * NS_PER_MS,
        quick_acks=True,
        quench_on_local_drop=False,
        keep_on_local_drop=True,
    )
