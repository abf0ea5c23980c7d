"""Time stamps of pcapng in nanoseconds, exactly.

Source: draft-ietf-opsawg-pcapng, section 4.2 (if_tsresol, if_tsoffset).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from multitracer.tables import NOT_A_TIME

if TYPE_CHECKING:
    from multitracer.tables import Numbers
    from parsers._pcapng.blocks import Resolution

_SECOND = 1_000_000_000
_LARGEST = (1 << 63) - 1


def times_ns(ticks: Numbers, interface: Numbers, resolutions: list[Resolution]) -> Numbers:
    """Return each packet's time in ns since 1970, rounded down; one that int64 cannot hold is NOT_A_TIME.

    Parameters
    ----------
    ticks : ndarray of int64, shape (n_packets,)
        Unsigned 64-bit counts (the bits of a uint64).
    interface : ndarray of int64, shape (n_packets,) or (1,)
        Position of each packet's interface in `resolutions`; one for all, or one each.

    Returns
    -------
    ndarray of int64, ns since 1970, shape (n_packets,)
    """
    if not len(ticks) or not resolutions:
        return np.full(len(ticks), NOT_A_TIME, np.int64)
    used = interface[:1] if (interface == interface[0]).all() else np.unique(interface)
    if len({resolutions[i].key for i in used.tolist()}) == 1:
        return _scaled(ticks, resolutions[used[0]])
    out = np.empty(len(ticks), np.int64)
    for i in used.tolist():
        here = interface == i
        out[here] = _scaled(ticks[here], resolutions[i])
    return out


def _scaled(ticks: Numbers, resolution: Resolution) -> Numbers:
    limit = (_LARGEST // _SECOND - abs(resolution.offset_s)) * _SECOND
    if not resolution.binary and resolution.exponent <= 9:
        factor = 10 ** (9 - resolution.exponent)
        if limit > 0 and ticks.min() >= 0 and ticks.max() <= limit // factor:
            scaled: Numbers = ticks * factor + resolution.offset_s * _SECOND
            return scaled
    return _exactly(ticks, resolution)


def _exactly(ticks: Numbers, resolution: Resolution) -> Numbers:
    """Return the same with Python's integers: for odd resolutions and for values out of range."""
    base = (2 if resolution.binary else 10) ** resolution.exponent
    offset = resolution.offset_s * _SECOND
    unsigned = ticks.astype(np.uint64).tolist()
    exact = [tick * _SECOND // base + offset for tick in unsigned]
    return np.array([t if -_LARGEST <= t <= _LARGEST else NOT_A_TIME for t in exact], np.int64)
