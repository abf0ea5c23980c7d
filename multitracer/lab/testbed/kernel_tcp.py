"""A scenario's TcpProfile as settings of Linux: sysctls, route options, socket options.

Times of a profile are link times; a kernel that runs `speed` times as fast gets them divided. What Linux
cannot do is refused or, where it has its own way (RFC 3042, the RTO before any sample), left as it is.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from multitracer.errors import PreflightError
from multitracer.units import NS_PER_MS

if TYPE_CHECKING:
    from multitracer.lab.tcp import TcpProfile

_AVAILABLE = Path("/proc/sys/net/ipv4/tcp_available_congestion_control")
_NAMES = {
    **dict.fromkeys(("reno", "newreno", "linux-reno"), "reno"),
    **dict.fromkeys(("cubic", "linux-cubic"), "cubic"),
    "vegas": "vegas",
}
"""Linux' reno without SACK stays in recovery until all is acknowledged: it is NewReno (RFC 6582)."""
_LEAST_RTO_MIN_MS = 4
"""A tick of the kernel's timers at 250 Hz."""
_RTO_MAX_MS = 1_000, 120_000
"""What net.ipv4.tcp_rto_max_ms takes."""


def sysctls(profile: TcpProfile, *, speed: float) -> dict[str, int]:
    """Return net.ipv4 settings; without SACK also those that make a present TCP behave like one of 1999."""
    least, most = _RTO_MAX_MS
    settings: dict[str, int] = {
        "tcp_timestamps": int(profile.timestamps),
        "tcp_sack": int(profile.sack),
        "tcp_dsack": int(profile.sack),
        "tcp_window_scaling": int(profile.window_scaling),
        "tcp_ecn": int(profile.ecn),
        "tcp_no_metrics_save": 1,
        "tcp_rto_max_ms": min(max(round(profile.max_rto_ns / speed / NS_PER_MS), least), most),
    }
    if not profile.sack:
        settings |= {"tcp_recovery": 0, "tcp_early_retrans": 0, "tcp_frto": 0}
    return settings


def route_options(profile: TcpProfile, *, speed: float) -> list[str]:
    """Return words of `ip route`.

    A segment takes over half a second of link time, so a receiver at 1x never delays an ACK for a second
    segment; in a run at a higher speed it would, unless it acknowledges at once.
    """
    rto_min_ms = max(round(profile.min_rto_ns / speed / NS_PER_MS), _LEAST_RTO_MIN_MS)
    quick = ["quickack", "1"] if speed > 1 else []
    return ["initcwnd", str(profile.initial_window_segments), "rto_min", f"{rto_min_ms}ms", *quick]


def for_every_socket(profile: TcpProfile) -> list[str]:
    """Return words of `ip route` for sockets that get no profile of their own.

    The route, because a namespace's sysctl takes no congestion control that this machine restricts. Without
    window scaling no socket offers more than the profile's window; otherwise the kernel chooses.
    """
    window = [] if profile.window_scaling else ["window", str(profile.receive_buffer_bytes)]
    return ["congctl", congestion_control(profile), *window]


def congestion_control(profile: TcpProfile) -> str:
    """Return the kernel's name of the profile's congestion control.

    Raises
    ------
    PreflightError
        If this kernel has none like it.
    """
    name = _NAMES.get(profile.congestion, "")
    if name in _AVAILABLE.read_text().split():
        return name
    raise PreflightError(
        f"congestion control {profile.congestion}: this kernel has none like it; "
        "choose another one in [tcp], or run with --virtual"
    )
