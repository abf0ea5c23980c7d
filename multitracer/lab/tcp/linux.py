"""The Linux version of a profile: for runs that are compared with the kernel's TCP."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from multitracer.units import NS_PER_MS, NS_PER_S

if TYPE_CHECKING:
    from multitracer.lab.tcp.profile import TcpProfile

_LINUX = {**dict.fromkeys(("tahoe", "reno", "newreno"), "linux-reno"), "cubic": "linux-cubic"}
"""What Linux makes of a congestion control."""


def as_linux(profile: TcpProfile) -> TcpProfile:
    """Return the profile with every behaviour in which Linux differs."""
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
