"""The answer to AT^DEBUG? of Foxconn modems (T77W968, T99W175, DW5821e) and others on the same firmware.

Source: recorded answers. The answer has no prefix: pairs of name and value, several in a line; `pcell`,
`scell` and `nr_band` begin a cell. Some firmware leaves out the sign of RSRP of NR.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from multitracer.protocols.modem.grammar import AnswerError, LineFields, reported

if TYPE_CHECKING:
    from collections.abc import Sequence

    from multitracer.protocols.modem.grammar import Reading

_PAIR = re.compile(r"([a-z][a-z_]{1,20})\s*:\s*(?![a-z_]{1,20}\s*:)([^\s,()]{1,20})?")
_UNIT = re.compile(r"(?:dbm?|mhz)$")
_CELLS = ("pcell", "scell")


def debug(lines: Sequence[str]) -> list[Reading]:
    """Decode all lines of the answer: the serving cell, further carriers, the NR cell.

    Raises
    ------
    AnswerError
        If there is neither a cell nor a technology.
    """
    common: dict[str, str] = {}
    cells: list[tuple[str, dict[str, str]]] = []
    for line in lines:
        for name, value in _PAIR.findall(line.lower()):
            if name in _CELLS or (name == "nr_band" and not (cells and cells[-1][0] == "nr" and not cells[-1][1])):
                cells.append(("nr" if name == "nr_band" else name, {}))
            (cells[-1][1] if cells else common).setdefault(name, value)
    technology = common.get("rat", "")
    if not technology or (not cells and not technology.startswith(("lte", "nr"))):
        raise AnswerError("the answer to ^DEBUG has no cell of a known technology; skip the answer")
    return [_cell(kind, own, common, is_secondary=bool(n)) for n, (kind, own) in enumerate(cells)] or [
        _cell("nr" if technology.startswith("nr") else "pcell", {}, common, is_secondary=False)
    ]


def _cell(kind: str, own: dict[str, str], common: dict[str, str], *, is_secondary: bool) -> Reading:
    side = "nr" if kind == "nr" or any(name.startswith("nr_") for name in own) else "lte"
    known = own if is_secondary else common | own
    names = ("band", "channel", "pci", "rsrp", "rsrq", "rssi", "snr", "cell_id", "tac", "tx_pwr", "mcc", "mnc")
    texts = [known.get(f"{side}_{name}", known.get(name, "")) for name in names]
    f = LineFields([_UNIT.sub("", text) if text not in ("na", "n") else "" for text in texts])
    rsrp = f.real(3)
    rsrp = -rsrp if rsrp is not None and rsrp > 0 and side == "nr" else rsrp
    return reported(
        role="secondary" if is_secondary else "serving",
        rat="NR" if side == "nr" else "LTE",
        band=f.text(0, most=16).removeprefix("n"),
        channel=f.integer(1, 0),
        physical_cell_id=f.integer(2, 0, 1007),
        rsrp_dbm=rsrp if rsrp is not None and -160 <= rsrp < 0 else None,
        rsrq_db=f.real(4, -50.0, 20.0),
        rssi_dbm=f.real(5, -160.0, -1.0),
        sinr_db=f.real(6, -50.0, 60.0),
        cell_id=f.integer(7, 0),
        area_code=f.integer(8, 0),
        tx_power_dbm=f.real(9, -100.0, 60.0),
        plmn=f.plmn(10, 11),
    )
