"""G-NetTrack's drive-test logs, and the UCC 4G and 5G data sets, which are such logs with a comma.

Columns are found by their names. The level of a row is RSRP under LTE and 5G, RSCP under UMTS and HSPA;
-200 is no level. Times are local, to the second; which zone is not in the file. Source: gyokovsolutions.com,
G-NetTrack Pro manual; uccmisl/5Gdataset.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, BinaryIO, cast

import numpy as np

from multitracer.errors import FormatError
from parsers._columns import column_map, read_mapped
from parsers._format import Format, Match

if TYPE_CHECKING:
    from multitracer.tables import Array, Table

_NEEDED = {"Timestamp", "Longitude", "Latitude", "NetworkMode"}
_RAT = {
    "LTE": "LTE", "LTE-CA": "LTE", "5G": "NR", "NR": "NR", "UMTS": "UMTS", "HSPA": "HSPA", "HSPA+": "HSPA",
    "HSDPA": "HSPA", "HSUPA": "HSPA", "EDGE": "EDGE", "GPRS": "GSM", "GSM": "GSM", "CDMA": "CDMA",
}  # fmt: skip
_THIRD_GENERATION = ("UMTS", "HSPA")
_MAP: dict[str, Any] = {
    "time": {"column": "Timestamp", "form": "%Y.%m.%d_%H.%M.%S"},
    "radio": [
        {
            "rat": {"column": "NetworkMode", "words": _RAT},
            "operator": "Operatorname",
            "cell_id": "CellID",
            "rsrp_dbm": "RSRP",
            "rsrq_db": "RSRQ",
            "sinr_db": "SNR",
            "cqi": "CQI",
            "rssi_dbm": "RSSI",
            "state": "State",
            "area_code": {"column": "LACHEX", "base": 16},
            "downlink_bps": {"column": "DL_bitrate", "scale": 1000},
            "uplink_bps": {"column": "UL_bitrate", "scale": 1000},
            "role": {"always": "serving"},
        },
        {"rsrp_dbm": "NRxRSRP", "rsrq_db": "NRxRSRQ", "role": {"always": "neighbour"}},
    ],
    "position": {
        "lat_deg": "Latitude",
        "lon_deg": "Longitude",
        "speed_mps": {"column": "Speed", "scale": 1 / 3.6},
    },
}
_OWN_NAMES = {"rsrp_dbm": "Level", "rsrq_db": "Qual", "rssi_dbm": "LTERSSI"}
"""What G-NetTrack itself calls some of the columns."""


def sniff(head: bytes) -> Match:
    """Return "yes" for a first line that names time, place and network mode."""
    first, newline, _ = head.partition(b"\n")
    names = {name.strip() for name in first.decode("ascii", "replace").replace("\t", ",").split(",")}
    return "yes" if newline and names >= _NEEDED and names & {"RSRP", "Level"} else "no"


def parse(stream: BinaryIO, *, path: str) -> dict[str, Table]:
    """Return `radio` and `position`.

    Raises
    ------
    FormatError
        If the first line does not name the columns.
    """
    first = stream.readline(1 << 16)
    if sniff(first) != "yes":
        raise FormatError(path, "the first line does not name the columns of G-NetTrack", line=1)
    names = first.decode("utf-8", "replace")
    data = dict(_MAP) | ({"delimiter": "\t"} if "\t" in names else {})
    if "RSRP" not in names.replace("NRxRSRP", ""):
        data["radio"] = [{**_MAP["radio"][0], **_OWN_NAMES}, _MAP["radio"][1]]
    tables = read_mapped(
        cast("BinaryIO", _Again(first, stream)), column_map(data), path=path, name=FORMAT.name
    )
    _by_generation(tables["radio"].columns)
    return tables


def _by_generation(columns: dict[str, Array]) -> None:
    """Call the level and quality of the third generation by their names."""
    third = np.isin(columns["rat"], _THIRD_GENERATION)
    for ours, theirs in (("rsrp_dbm", "rscp_dbm"), ("rsrq_db", "ecio_db")):
        columns[theirs] = np.where(third, columns[ours], np.nan)
        columns[ours] = np.where(third, np.nan, columns[ours])


class _Again:
    """A stream whose first line was read already."""

    def __init__(self, first: bytes, rest: BinaryIO) -> None:
        self._first = first
        self._rest = rest

    def readline(self, limit: int = -1, /) -> bytes:
        """Return the first line again, then the others."""
        first, self._first = self._first, b""
        return first or self._rest.readline(limit)


FORMAT = Format(
    name="gnettrack",
    layer="radio",
    description="drive tests of G-NetTrack and the UCC 4G/5G data sets, CSV",
    source="G-NetTrack Pro manual; github.com/uccmisl/5Gdataset",
    sniff=sniff,
    parse=parse,
)
