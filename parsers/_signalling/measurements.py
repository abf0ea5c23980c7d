"""The rows of `radio` in messages and in the lines of SCAT: what the phone measured of each cell.

Values are lower edges of the bins that the phone reports, as in all tables `radio`: TS 36.133, tables 9.1.4-1
and 9.1.7-1 (LTE), TS 38.133, tables 10.1.6.1-1, 10.1.11.1-1 and 10.1.16.1-1 (NR), TS 25.133, 9.1.1.3 and
9.1.2.3 (UMTS), TS 45.008, 8.1.4 (GSM). A report is flat in what tshark prints: a value is given to a cell
only where the numbers of cells, beams and values leave one assignment.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from parsers._text.times import decimal, integer

if TYPE_CHECKING:
    from collections.abc import Iterator

    from parsers._signalling.dissection import DissectedMessage

Reading = dict[str, object]
"""Columns of `radio`; those that are not there are missing."""

_REPORT, _PROGRAM = "RRC report", "scat"
"""Values of `source`."""
_NUMBER = r"(-?\d+(?:\.\d+)?)"


def readings(dissected: DissectedMessage, name: str, rat: str) -> Iterator[Reading]:
    """Yield a row of `radio` for each cell of a measurement report; nothing for other messages.

    `name` is the name of the message, `rat` its technology.
    """
    if name == "MeasurementReport" and rat == "LTE":
        yield from _lte(dissected)
    elif name == "MeasurementReport" and rat == "NR":
        yield from _nr(dissected)
    elif name == "MeasurementReport" and rat == "UMTS":
        yield from _umts(dissected)
    elif name == "Measurement Report" and rat == "GSM":
        yield from _gsm(dissected)


def _edge(index: int | None, *, zero: float, step: float, most: int) -> float | None:
    """Return the lower edge of a reported bin: `zero + step * index`.

    None above index `most`, or without index.
    """
    return None if index is None or not 0 <= index <= most else zero + step * index


def lte_rsrp_dbm(index: int | None) -> float | None:
    """Return the RSRP in dBm of an index in an LTE report (TS 36.133, table 9.1.4-1); None if not valid."""
    return _edge(index, zero=-141.0, step=1.0, most=97)


def lte_rsrq_db(index: int | None) -> float | None:
    """Return the RSRQ in dB of an index in an LTE report (TS 36.133, table 9.1.7-1); None if not valid."""
    return _edge(index, zero=-20.0, step=0.5, most=34)


def nr_rsrp_dbm(index: int | None) -> float | None:
    """Return the SS-RSRP in dBm of an index in an NR report (TS 38.133, 10.1.6.1-1); None if not valid."""
    return _edge(index, zero=-157.0, step=1.0, most=126)


def nr_rsrq_db(index: int | None) -> float | None:
    """Return the SS-RSRQ in dB of an index in an NR report (TS 38.133, 10.1.11.1-1); None if not valid."""
    return _edge(index, zero=-43.5, step=0.5, most=127)


def nr_sinr_db(index: int | None) -> float | None:
    """Return the SS-SINR in dB of an index in an NR report (TS 38.133, 10.1.16.1-1); None if not valid."""
    return _edge(index, zero=-23.5, step=0.5, most=127)


def _lte(dissected: DissectedMessage) -> Iterator[Reading]:
    cells = dissected.integers("lte_cell")
    rsrp, rsrq = dissected.integers("lte_rsrp"), dissected.integers("lte_rsrq")
    if rsrp:
        first = {"rsrp_dbm": lte_rsrp_dbm(rsrp[0]), "rsrq_db": lte_rsrq_db(rsrq[0]) if rsrq else None}
        yield {"source": _REPORT, "role": "serving", "rat": "LTE", **first}
    for value, quality in zip(dissected.integers("secondary_rsrp"), dissected.integers("secondary_rsrq"), strict=False):
        known = {"rsrp_dbm": lte_rsrp_dbm(value), "rsrq_db": lte_rsrq_db(quality)}
        yield {"source": _REPORT, "role": "secondary", "rat": "LTE", **known}
    for i, cell in enumerate(cells, start=1):
        known = {
            "rsrp_dbm": lte_rsrp_dbm(rsrp[i]) if len(rsrp) == len(cells) + 1 else None,
            "rsrq_db": lte_rsrq_db(rsrq[i]) if len(rsrq) == len(cells) + 1 else None,
        }
        yield {"source": _REPORT, "role": "neighbour", "rat": "LTE", "physical_cell_id": cell, **known}


def _nr(dissected: DissectedMessage) -> Iterator[Reading]:
    cells, beams = dissected.integers("nr_cell"), dissected.integers("nr_beams")
    columns = {
        "rsrp_dbm": [nr_rsrp_dbm(each) for each in _of_cells(dissected.integers("nr_rsrp"), cells, beams)],
        "rsrq_db": [nr_rsrq_db(each) for each in _of_cells(dissected.integers("nr_rsrq"), cells, beams)],
        "sinr_db": [nr_sinr_db(each) for each in _of_cells(dissected.integers("nr_sinr"), cells, beams)],
    }
    serving = dissected.first("nr_serving_count") or 0
    is_leg = "lte" in dissected.values
    for i, cell in enumerate(cells):
        role = ("secondary" if is_leg or i else "serving") if i < serving else "neighbour"
        known = {name: values[i] for name, values in columns.items() if i < len(values)}
        yield {"source": _REPORT, "role": role, "rat": "NR", "physical_cell_id": cell, **known}


def _of_cells(values: list[int], cells: list[int], beams: list[int]) -> list[int]:
    """Return the values of cells, without those of their beams.

    If that is unclear, only that of the first cell.
    """
    if len(values) == len(cells):
        return values
    if len(beams) == len(cells) and len(values) == len(cells) + sum(beams):
        at, chosen = 0, []
        for count in beams:
            chosen.append(values[at])
            at += 1 + count
        return chosen
    return values[:1]


def _umts(dissected: DissectedMessage) -> Iterator[Reading]:
    codes = dissected.integers("umts_scrambling")
    rscp, ecno = dissected.integers("umts_rscp"), dissected.integers("umts_ecno")
    for i, code in enumerate(codes):
        known = {
            "rscp_dbm": _edge(rscp[i], zero=-116.0, step=1.0, most=91) if len(rscp) == len(codes) else None,
            "ecio_db": _edge(ecno[i], zero=-24.5, step=0.5, most=49) if len(ecno) == len(codes) else None,
        }
        yield {"source": _REPORT, "rat": "UMTS", "physical_cell_id": code, **known}


def _gsm(dissected: DissectedMessage) -> Iterator[Reading]:
    level = dissected.first("gsm_rxlev")
    if level is not None and dissected.first("gsm_rxlev_valid") in (None, 0):
        rssi = _edge(level, zero=-111.0, step=1.0, most=63)
        yield {"source": _REPORT, "role": "serving", "rat": "GSM", "rssi_dbm": rssi}


# --- the lines that SCAT prints ---

_SERVING_CELL = re.compile(
    r"^(?P<rat>LTE|NR) RRC SCell Info: (?:NR-ARFCN|EARFCN): (?P<channel>\d+)/\d+,.*?Band: (?P<band>\d+),.*?"
    r"PCI:\s+(?P<cell>\d+), MCC: (?P<mcc>\d+), MNC: (?P<mnc>\d+), "
    r"(?:xTAC/xCID: (?P<area_hex>[0-9a-f]+)/(?P<id_hex>[0-9a-f]+)|TAC/CID: (?P<area>\d+)/(?P<id>\d+))"
)
_SAMSUNG_CELL = re.compile(r"^LTE RRC Serving Cell: PLMN: (\d+), xTAC/xCID: ([0-9a-f]+)/([0-9a-f]+)")
_LTE_SERVING = re.compile(
    rf"^LTE SCell: EARFCN: (\d+), PCI:\s+(\d+), Measured RSRP: {_NUMBER}, Measured RSSI: {_NUMBER}, "
    rf"Measured RSRQ: {_NUMBER}"
)
_LTE_NEIGHBOURS = re.compile(r"^LTE NCell: EARFCN: (\d+)")
_LTE_NEIGHBOUR = re.compile(rf"Neighbor cell \d+: PCI:\s+(\d+), RSRP: {_NUMBER}, RSSI: {_NUMBER}, RSRQ: {_NUMBER}")
_NR_LAYER = re.compile(r"^Layer \d+: NR-ARFCN: (\d+), SCell PCI:\s+(\d+)")
_NR_CELL = re.compile(rf" Cell \d+: PCI:\s+(\d+), PBCH SFN: \d+, RSRP: {_NUMBER}, RSRQ: {_NUMBER}")
_UMTS_CELL = re.compile(
    rf"^WCDMA Search Cell: 3G Cell \d+: UARFCN: (\d+), PSC:\s+(\d+), RSCP: {_NUMBER}, Ec/Io: {_NUMBER}"
)
_UMTS_SERVING = re.compile(
    r"^WCDMA Cell ID: UARFCN: (\d+)/\d+, PSC:\s+(\d+), MCC/MNC: (\d+)/(\d+), "
    r"xLAC/xRAC/xCID: ([0-9a-f]+)/[0-9a-f]+/([0-9a-f]+)"
)
_GSM_SERVING = re.compile(rf"^GSM Serving Cell(?: New)? Burst Metric: ARFCN: (\d+)/.*RxPwr: {_NUMBER}")
_GSM_CELL = re.compile(
    r"^GSM RR Cell Info: ARFCN: (\d+)/.*BCC: (\d+), NCC: (\d+), MCC/MNC: (\d+)/(\d+), "
    r"xLAC/xCID: ([0-9a-f]+)/([0-9a-f]+)"
)


class ScatLines:
    """Decodes the text lines that SCAT (signalcat 2.1) writes in addition to packets."""

    def __init__(self) -> None:
        self._channel: int | None = None
        self._serving: int | None = None

    def reading(self, line: str) -> Reading | None:
        """Return the reading in a line; None if the line has none."""
        row = _identity(line) or self._measured(line)
        return None if row is None else {"source": _PROGRAM, **row}

    def _measured(self, line: str) -> Reading | None:  # one for each kind of line
        if match := _LTE_SERVING.match(line):
            return _cell("serving", "LTE", match[1], match[2]) | _lte_levels(match, 3)
        if match := _LTE_NEIGHBOURS.match(line):
            self._channel = integer(match[1])
        elif match := _NR_LAYER.match(line):
            self._channel, self._serving = integer(match[1]), integer(match[2])
        elif self._channel is not None and (match := _LTE_NEIGHBOUR.search(line)):
            return _cell("neighbour", "LTE", self._channel, match[1]) | _lte_levels(match, 2)
        elif self._channel is not None and (match := _NR_CELL.search(line)):
            role = "serving" if integer(match[1]) == self._serving else "neighbour"
            levels = {"rsrp_dbm": decimal(match[2]), "rsrq_db": decimal(match[3])}
            return _cell(role, "NR", self._channel, match[1]) | levels
        elif match := _UMTS_CELL.match(line):
            return _cell("", "UMTS", match[1], match[2]) | {"rscp_dbm": decimal(match[3]), "ecio_db": decimal(match[4])}
        elif match := _GSM_SERVING.match(line):
            return {"role": "serving", "rat": "GSM", "channel": integer(match[1]), "rssi_dbm": decimal(match[2])}
        return None


def _cell(role: str, rat: str, channel: str | int, cell: str) -> Reading:
    return {"role": role, "rat": rat, "channel": integer(str(channel)), "physical_cell_id": integer(str(cell))}


def _lte_levels(match: re.Match[str], first: int) -> Reading:
    names = ("rsrp_dbm", "rssi_dbm", "rsrq_db")
    return {name: decimal(match[first + i]) for i, name in enumerate(names)}


def _identity(line: str) -> Reading | None:
    """Return the identity of the serving cell in a line; None if the line has none."""
    if match := _SERVING_CELL.match(line):
        is_hex = match["id_hex"] is not None
        area = integer(match["area_hex"], 16) if is_hex else integer(match["area"])
        identity = integer(match["id_hex"], 16) if is_hex else integer(match["id"])
        row = _cell("serving", match["rat"], match["channel"], match["cell"])
        plmn = f"{match['mcc']}{match['mnc']}"[:6]
        return row | {"band": match["band"], "plmn": plmn, "area_code": area, "cell_id": identity}
    if match := _SAMSUNG_CELL.match(line):
        row = {"role": "serving", "rat": "LTE", "plmn": match[1][:6]}
        return row | {"area_code": integer(match[2], 16), "cell_id": integer(match[3], 16)}
    if match := _UMTS_SERVING.match(line):
        row = _cell("serving", "UMTS", match[1], match[2])
        plmn = f"{match[3]}{match[4]}"[:6]
        return row | {"plmn": plmn, "area_code": integer(match[5], 16), "cell_id": integer(match[6], 16)}
    if match := _GSM_CELL.match(line):
        row = _cell("serving", "GSM", match[1], str(integer(match[3]) * 8 + integer(match[2])))
        plmn = f"{match[4]}{match[5]}"[:6]
        return row | {"plmn": plmn, "area_code": integer(match[6], 16), "cell_id": integer(match[7], 16)}
    return None
