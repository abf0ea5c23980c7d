"""G-NetTrack's drive-test logs, and the UCC 4G and 5G data sets, which are such logs with commas.

Columns are found by their whole names; which there are, and in which order, differs between versions and
data sets. The level of a row is RSRP under LTE and 5G, RSCP under UMTS and HSPA, RXLEV under GSM; -200 is no
level. CellID is the cell's number below its Node (eNodeB, RNC), in all of the network only with it. Times are
local, to the second; which zone is not in the file. Logs of the application itself have tabs, and may name
more columns than a line has. Source: gyokovsolutions.com, G-NetTrack Pro manual; uccmisl/5Gdataset.
"""

from __future__ import annotations

import contextlib
from datetime import datetime
from typing import TYPE_CHECKING, BinaryIO, cast

import numpy as np

from multitracer.errors import FormatError
from multitracer.tables import NA
from parsers._format import HEAD_BYTES, Format, Match
from parsers._text.column_map import WORDS, column_map
from parsers._text.mapped_log import read_mapped

if TYPE_CHECKING:
    from multitracer.tables import Array, Document, Table

_LONGEST_LINE = 1 << 16
_PLACE = ("timestamp", "longitude", "latitude")
_MODES = ("networkmode", "networktech")
_LEVELS = ("rsrp", "level")
Wanted = dict[str, "tuple[str | Document, ...]"]
"""For each column of ours the columns of the file that may contain it, in order of preference."""
_SECOND_GENERATION, _THIRD_GENERATION = ("GSM", "EDGE"), ("UMTS", "HSPA")
_RNC_BITS, _ENODEB_BITS = 16, 8
"""Number of bits of CellID below Node for an RNC and an eNodeB (TS 25.413, 9.2.1.28; TS 36.413, 9.2.1.38)."""
_MOST_LTE = (1 << 28) - 1
"""An identity of LTE has 28 bits. How many a cell has below a gNB, which has 22 to 32, is not in the log."""
_WORST_RXQUAL = 7
"""Class of RXQUAL with the most bit errors (TS 45.008, 8.2.4)."""
_SERVING: Wanted = {
    "rat": ({"column": "NetworkMode", "words": WORDS}, {"column": "NetworkTech", "words": WORDS}),
    "operator": ("Operatorname",),
    "cell_id": ("RAWCELLID", "CellID"),
    "rsrp_dbm": ("RSRP", "Level"),
    "rsrq_db": ("RSRQ", "Qual"),
    "sinr_db": ("SNR", "SINR"),
    "cqi": ("CQI",),
    "rssi_dbm": ("RSSI", "LTERSSI"),
    "state": ("State",),
    "area_code": ({"column": "LACHEX", "base": 16}, "LAC"),
    "channel": ("ARFCN",),
    "physical_cell_id": ("PSC", "PCI"),
    "band": ("BAND",),
    "downlink_bps": ({"column": "DL_bitrate", "scale": 1000},),
    "uplink_bps": ({"column": "UL_bitrate", "scale": 1000},),
}
_SECOND: Wanted = {
    "rsrp_dbm": ("SecondCell_RSRP",),
    "rsrq_db": ("SecondCell_RSRQ",),
    "sinr_db": ("SecondCell_SNR",),
    "physical_cell_id": ("SecondCell_PSC",),
    "channel": ("SecondCell_ARFCN",),
}


def _neighbour(n: int) -> Wanted:
    return {
        "rat": ({"column": f"NTech{n}", "words": WORDS},),
        "rsrp_dbm": (f"NRxLev{n}",),
        "rsrq_db": (f"NQual{n}",),
        "channel": (f"NARFCN{n}",),
    }


_NEIGHBOURS: list[Wanted] = [
    {"rsrp_dbm": ("NRxRSRP",), "rsrq_db": ("NRxRSRQ",)},
    *(_neighbour(n) for n in range(1, 19)),
]
_POSITION: Wanted = {
    "lat_deg": ("Latitude",),
    "lon_deg": ("Longitude",),
    "speed_mps": ({"column": "Speed", "scale": 1 / 3.6},),
    "altitude_m": ("Altitude",),
    "error_m": ("Accuracy",),
}
"""Column of ours -> columns of theirs, of which the first that the file has is read."""
_FORMS = ("%Y.%m.%d_%H.%M.%S", "%Y.%m.%d_%H.%M.%S.%f", "iso", "%Y/%m/%d %H:%M:%S", "%Y.%m.%d %H:%M:%S")
_EPOCHS = {10: "epoch_s", 13: "epoch_ms"}
_MISSING = ["", "-", "--", "N/A", "NA", "null", "nan", "2147483647"]
"""Texts for a missing value; the last one is Android's value for unknown (CellInfo.UNAVAILABLE)."""


def sniff(head: bytes) -> Match:
    """Return "yes" for a first line that names time, place, network mode and level."""
    first, newline, _ = head.partition(b"\n")
    names = {name.lower() for name in _names(first, _delimiter(first))}
    is_ours = names.issuperset(_PLACE) and names.intersection(_MODES) and names.intersection(_LEVELS)
    return "yes" if is_ours and (newline or len(head) >= HEAD_BYTES) else "no"


def _delimiter(first: bytes) -> str:
    return max("\t,;", key=lambda each: first.count(each.encode()))


def _names(line: bytes, delimiter: str) -> list[str]:
    text = line.decode("utf-8-sig", "replace")
    return [name.strip().strip('"').strip() for name in text.split(delimiter)]


def parse(stream: BinaryIO, *, path: str) -> dict[str, Table]:
    """Return `radio` and `position`.

    Raises
    ------
    FormatError
        If the first line does not name the columns, or no line has a time.
    """
    first, second = stream.readline(_LONGEST_LINE), stream.readline(_LONGEST_LINE)
    if sniff(first) != "yes":
        raise FormatError(path, "the first line does not name the columns of G-NetTrack", line=1)
    again = cast("BinaryIO", _Again([first, second], stream))
    columns = column_map(_map(first, second))
    return read_mapped(again, columns, path=path, name=FORMAT.name, arrange=_arrange)


def _map(first: bytes, second: bytes) -> Document:
    """Return the map for the columns in the first line and the form of time in the second."""
    delimiter = _delimiter(first)
    header, fields = _names(first, delimiter), _names(second, delimiter)
    names = {name.lower(): name for name in reversed(header)}
    radio = _serving(names)
    if second_cell := _cells(_SECOND, names):
        radio.append(second_cell | {"role": {"always": "secondary"}})
    neighbours = [cells for each in _NEIGHBOURS if "rsrp_dbm" in (cells := _cells(each, names))]
    radio += [cells | {"role": {"always": "neighbour"}} for cells in neighbours]
    at = header.index(names["timestamp"])
    return {
        "time": {"column": names["timestamp"], "form": _form(fields[at] if at < len(fields) else "")},
        "radio": radio,
        "position": _cells(_POSITION, names),
        "delimiter": delimiter,
        "missing": _MISSING,
    }


def _serving(names: dict[str, str]) -> list[Document]:
    """Return the rows of the serving cell; where it is numbered below its node, one for each generation."""
    row = _cells(_SERVING, names) | {"role": {"always": "serving"}}
    if "rawcellid" in names or not {"node", "cellid"} <= names.keys():
        return [row]
    second, third = (
        [word for word, rat in WORDS.items() if rat in old] for old in (_SECOND_GENERATION, _THIRD_GENERATION)
    )

    def joined(bits: int, **when: list[str]) -> Document:
        cell = {"column": names["cellid"], "above": names["node"], "bits": bits}
        return row | {"cell_id": cell, "when": {"column": row["rat"]["column"], **when}}

    return [
        joined(_ENODEB_BITS, is_not=second + third),
        joined(_RNC_BITS, **{"is": third}),
        row | {"when": {"column": row["rat"]["column"], "is": second}},
    ]


def _cells(wanted: Wanted, names: dict[str, str]) -> Document:
    """Return the cells of a table row that the file has; of several columns for one cell, the first."""
    by_column = {}
    for ours, theirs in wanted.items():
        cells = [cell if isinstance(cell, dict) else {"column": cell} for cell in theirs]
        there = [cell | {"column": names[low]} for cell in cells if (low := cell["column"].lower()) in names]
        if there:
            by_column[ours] = there[0]
    return by_column


def _form(time: str) -> str:
    """Return the form of the first time in the log; that of G-NetTrack itself if none matches."""
    complete = time.partition(".")[0]
    if complete.isdigit() and len(complete) in _EPOCHS:
        return _EPOCHS[len(complete)]
    for form in _FORMS:
        with contextlib.suppress(ValueError):
            datetime.fromisoformat(time) if form == "iso" else datetime.strptime(time, form)  # noqa: DTZ007
            return form
    return _FORMS[0]


def _arrange(columns: dict[str, Array]) -> None:
    """Put levels and identities where they belong, in place."""
    _by_generation(columns)
    _complete_cells(columns)


def _by_generation(columns: dict[str, Array]) -> None:
    """Rename level and quality of the third and the second generation to their names there."""
    third, second = (np.isin(columns["rat"], old) for old in (_THIRD_GENERATION, _SECOND_GENERATION))
    for ours, theirs in (("rsrp_dbm", "rscp_dbm"), ("rsrq_db", "ecio_db")):
        columns[theirs] = np.where(third, columns[ours], np.nan)
    columns["rssi_dbm"] = np.where(
        second, np.fmax(columns["rssi_dbm"], columns["rsrp_dbm"]), columns["rssi_dbm"]
    )
    rxqual = second & (columns["rsrq_db"] >= 0) & (columns["rsrq_db"] <= _WORST_RXQUAL)
    columns["rxqual"] = np.where(rxqual, np.nan_to_num(columns["rsrq_db"]), NA).astype(np.int64)
    for ours in ("rsrp_dbm", "rsrq_db"):
        columns[ours] = np.where(third | second, np.nan, columns[ours])


def _complete_cells(columns: dict[str, Array]) -> None:
    """Remove identities that are longer than one of LTE, in rows that may be below a gNB."""
    beyond = (columns["rat"] == "NR") & (columns["cell_id"] > _MOST_LTE)
    columns["cell_id"] = np.where(beyond, NA, columns["cell_id"])


class _Again:
    """A stream whose first lines were already read."""

    def __init__(self, lines: list[bytes], rest: BinaryIO) -> None:
        self._lines = lines
        self._rest = rest

    def readline(self, limit: int = -1, /) -> bytes:
        """Return the lines already read, then the others."""
        return self._lines.pop(0) if self._lines else self._rest.readline(limit)


FORMAT = Format(
    name="gnettrack",
    layer="radio",
    description="drive tests of G-NetTrack and the UCC 4G/5G data sets, CSV",
    source="G-NetTrack Pro manual; github.com/uccmisl/5Gdataset",
    sniff=sniff,
    parse=parse,
)
