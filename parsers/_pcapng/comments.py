"""The comments of packets in a pcapng file.

Source: draft-ietf-opsawg-pcapng, section 3.5. The option lists of all packets are walked in step.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from multitracer.protocols.pcap_file import OptionCode
from parsers._packets.layers import rows

if TYPE_CHECKING:
    from multitracer.tables import Mask, Numbers
    from parsers._packets.layers import Bytes

_MOST_OPTIONS = 64


def comments(data: Bytes, at: Numbers, end: Numbers, *, big_endian: Mask) -> list[tuple[int, bytes]]:
    """Return index and text of each comment in the option lists between `at` and `end`, in order.

    Parameters
    ----------
    data : ndarray of uint8, shape (n_bytes,)
    at, end : ndarray of int64, shape (n_lists,)
        Positions in `data` where each option list begins and ends.
    big_endian : ndarray of bool, shape (n_lists,)
    """
    texts: list[tuple[int, bytes]] = []
    index = np.flatnonzero(at + 4 <= end)
    at, end, big = at[index], end[index], big_endian[index]
    for _ in range(_MOST_OPTIONS):
        if not len(index):
            break
        code, length = _heads(data, at, big)
        fits = (code != 0) & (at + 4 + length <= end)
        for i in np.flatnonzero(fits & (code == OptionCode.COMMENT.value)).tolist():
            begin = int(at[i]) + 4
            texts.append((int(index[i]), data[begin : begin + int(length[i])].tobytes()))
        at = at + 4 + (length + 3 & ~3)
        on = fits & (at + 4 <= end)
        index, at, end, big = index[on], at[on], end[on], big[on]
    return sorted(texts, key=lambda comment: comment[0])


def _heads(data: Bytes, at: Numbers, big: Mask) -> tuple[Numbers, Numbers]:
    """Return code and length of the option at each place."""
    raw = rows(data, at, 4)
    little_words, big_words = (raw.view(sign + "u2").reshape(-1, 2).astype(np.int64) for sign in "<>")
    words = np.where(big[:, None], big_words, little_words)
    return words[:, 0], words[:, 1]
