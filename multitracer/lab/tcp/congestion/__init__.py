"""Congestion controls, one per file; read `base.py` first, then `reno.py`.

The sender informs an algorithm about acknowledgements, losses and timeouts with their times; the algorithm
returns the congestion window and the threshold, in bytes. It sees no packets and has no timers.

What must hold: the window is at least one segment; RFC 5681 limits how it grows and shrinks, except where an
algorithm's own document differs (RFC 9438 for CUBIC, Brakmo, O'Malley and Peterson 1994 for Vegas).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from multitracer.errors import LocalProtocolError
from multitracer.lab.tcp.congestion.cubic import Cubic, LinuxCubic
from multitracer.lab.tcp.congestion.linux_reno import LinuxReno
from multitracer.lab.tcp.congestion.reno import NewReno, Reno, Tahoe
from multitracer.lab.tcp.congestion.vegas import Vegas

if TYPE_CHECKING:
    from collections.abc import Mapping

    from multitracer.lab.tcp.congestion.base import CongestionControl

ALGORITHMS: Mapping[str, type[CongestionControl]] = {
    algorithm.name: algorithm for algorithm in (Tahoe, Reno, NewReno, LinuxReno, Cubic, LinuxCubic, Vegas)
}
"""Every congestion control by name."""


def congestion_control(name: str, *, mss_bytes: int, initial_window_bytes: int) -> CongestionControl:
    """Return a new congestion control.

    Raises
    ------
    LocalProtocolError
        If no algorithm has that name.
    """
    if name not in ALGORITHMS:
        known = ", ".join(sorted(ALGORITHMS))
        raise LocalProtocolError(f"congestion control {name!r} is unknown; choose one of {known}")
    return ALGORITHMS[name](mss_bytes=mss_bytes, initial_window_bytes=initial_window_bytes)
