"""TCP options of the handshake that one end offered and the other end, or the path, did not answer."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from multitracer.analysis.group import has
from multitracer.captured import CaptureMark, Flag
from multitracer.recording.places import OPTIONS

if TYPE_CHECKING:
    from multitracer.recording.transfer import Transfer
    from multitracer.tables import Table


class MissingOption(NamedTuple):
    """An option of one SYN that is missing in the answer, or where the SYN arrived."""

    name: str
    """`mss`, `window-scale`, `sack` or `timestamps`."""
    reverse: bool
    """Whose SYN lacks it: False the initiator's, True the responder's."""
    on_the_way: bool
    """Whether captures at both ends show that the path removed it."""


def missing_options(transfer: Transfer) -> list[MissingOption]:
    """Return the options that only one of both SYNs has, or that a SYN lost between both captures.

    It is empty unless both SYNs were captured with all options.
    """
    here, far = transfer.at_sender.offered_options, transfer.at_receiver
    if here is None or _is_cut(transfer.sender):
        return []
    there = None if far is None or transfer.receiver is None else far.offered_options
    if there is None or _is_cut(transfer.receiver):
        there = here
    missing = []
    for name, own, other in zip(OPTIONS, here.tolist(), there.tolist(), strict=True):
        removed = []
        for reverse in (False, True):  # the data's sender is near the first capture, the other end near the other
            left, came = (own, other) if reverse == transfer.reverse else (other, own)
            removed += [reverse] if left[reverse] and not came[reverse] else []
        missing += [MissingOption(name, reverse, True) for reverse in removed]
        if not removed and own[0] != own[1]:
            missing.append(MissingOption(name, own[0], False))
    return missing


_UNSCALED_BYTES = 1 << 15
"""Minimum of the largest window that was full, in bytes, from which on window scaling would help: half of what fits
into 16 bits. Of a smaller one the buffer is smaller."""


def lacks_scaling(transfer: Transfer, window_bytes: float) -> bool:
    """Return whether a window was as large as it can be without window scaling, which not both SYNs offered.

    It is False unless both SYNs were captured with all options.
    """
    offered = transfer.at_sender.offered_options
    if offered is None or _is_cut(transfer.sender) or window_bytes < _UNSCALED_BYTES:
        return False
    removed = any(each.name == "window-scale" for each in missing_options(transfer))
    return removed or not offered[OPTIONS.index("window-scale")].all()


def lacks_sack(transfer: Transfer) -> bool:
    """Return whether neither SYN offered SACK; False unless both were captured with all options."""
    offered = transfer.at_sender.offered_options
    if offered is None or _is_cut(transfer.sender):
        return False
    return not offered[OPTIONS.index("sack")].any()


def _is_cut(table: Table | None) -> bool:
    """Return whether the capture cut the options of a SYN."""
    return table is not None and bool(
        (has(table["flags"], Flag.SYN) & has(table["marks"], CaptureMark.HEADER_CUT)).any()
    )
