"""Which frames of a recorded link failed: an error trace, for replay under any transport."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from multitracer.errors import InputError
from multitracer.protocols.error_trace import ErrorTrace

if TYPE_CHECKING:
    from collections.abc import Mapping

    from multitracer.tables import Table

_DIRECTION_OF = {"fixed": "up", "mobile": "down"}
"""A side's log tells of the frames that it received."""


def link_error_trace(frames: Mapping[str, Table]) -> ErrorTrace:
    """Return the slots in which each side could not decode a frame.

    Parameters
    ----------
    frames : mapping of str to Table
        `link_frames` of the sides "mobile" and "fixed"; of a side without a log nothing is known, and its
        direction comes out perfect.

    Raises
    ------
    InputError
        If there is no log of either side, they disagree on the slot time, or no slot numbers were logged.
    """
    if not frames.keys() & _DIRECTION_OF.keys():
        raise InputError("error trace: no link log of the mobile or the fixed side; record one (rlp.pcapng)")
    failed: dict[str, list[int]] = {"up": [], "down": []}
    for side, direction in _DIRECTION_OF.items():
        if side in frames:
            failed[direction] = _failed_slots(frames[side])
    last = max(int(table["tick"].max(initial=0)) for table in frames.values())
    return ErrorTrace.from_slots(
        slot_ns=_slot_ns(frames), slots=last + 1, up=failed["up"], down=failed["down"]
    )


def _failed_slots(table: Table) -> list[int]:
    lost = ~table["sent"] & ~table["fcs_ok"]
    slots = np.unique(table["tick"][lost])
    if len(slots) and slots[0] < 0:
        raise InputError(
            f"{table.provenance.get('path')}: frames without slot numbers; they cannot be placed"
        )
    return [int(slot) for slot in slots]


def _slot_ns(frames: Mapping[str, Table]) -> int:
    stated = sorted({str(table.provenance.get("header", {}).get("slot_ns")) for table in frames.values()})
    if len(stated) > 1 or not stated[0].isdigit():
        raise InputError(
            f"error trace: the logs have slots of {' and '.join(stated)} ns; one number is needed"
        )
    return int(stated[0])
