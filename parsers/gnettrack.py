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
from multitracer.schemas.application import APPLICATION_SUMS, PINGS
from multitracer.schemas.radio import MARKERS
from multitracer.tables import NA
from parsers._format import HEAD_BYTES, Format, Match
from parsers._text.collector_log import Sparse
from parsers._text.column_map import WORDS, column_map
from parsers._text.mapped_log import read_mapped
from parsers._text.times import decimal_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from multitracer.tables import Array, Document, Table

_LONGEST_LINE = 1 << 16
_MOST_RESULTS = 100_000
_LONGEST_NOTE = 256
_MOST = 1e12
_MS_PER_S, _KILO = 1e3, 1e3
_PINGED = {"pingmin": "ping min", "pingavg": "ping mean", "pingmax": "ping max"}
_TESTED = {"testdownlink": ("download", "received"), "testuplink": ("upload", "sent")}
"""Columns of *_datatest.txt with the mean of a test, and name and direction of the test."""
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
    columns = column_map(_map(first, second))
    delimiter = _delimiter(first)
    results = _Results(_names(first, delimiter), delimiter)
    again = cast("BinaryIO", _Again([first, second], stream, results.take))
    tables = read_mapped(again, columns, path=path, name=FORMAT.name, arrange=_arrange)
    return tables | results.tables(tables["radio"])


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
    """Return the rows of the serving cell: one, or one for each radio generation that its cell may have."""
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
    columns["rssi_dbm"] = np.where(second, np.fmax(columns["rssi_dbm"], columns["rsrp_dbm"]), columns["rssi_dbm"])
    rxqual = second & (columns["rsrq_db"] >= 0) & (columns["rsrq_db"] <= _WORST_RXQUAL)
    columns["rxqual"] = np.where(rxqual, np.nan_to_num(columns["rsrq_db"]), NA).astype(np.int64)
    for ours in ("rsrp_dbm", "rsrq_db"):
        columns[ours] = np.where(third | second, np.nan, columns[ours])


def _complete_cells(columns: dict[str, Array]) -> None:
    """Remove identities that are longer than one of LTE, in rows that may be below a gNB."""
    beyond = (columns["rat"] == "NR") & (columns["cell_id"] > _MOST_LTE)
    columns["cell_id"] = np.where(beyond, NA, columns["cell_id"])


class _Again:
    """A stream whose first lines were already read; each line is also given to a function."""

    def __init__(self, lines: list[bytes], rest: BinaryIO, seen: Callable[[bytes], None]) -> None:
        self._lines = lines
        self._rest = rest
        self._seen = seen

    def readline(self, limit: int = -1, /) -> bytes:
        """Return the lines already read, then the others."""
        line = self._lines.pop(0) if self._lines else self._rest.readline(limit)
        self._seen(line)
        return line


class _Results:
    """Events and test results beside the radio in the files *_events.txt and *_datatest.txt.

    An event is a marker with its details. A data test is a ping (minimum, mean and maximum of several round
    trips), and the mean rates of a download and of an upload, in kbit/s.
    """

    def __init__(self, header: list[str], delimiter: str) -> None:
        self._at = {name.lower(): at for at, name in reversed(list(enumerate(header)))}
        self._delimiter = delimiter
        self._number = 0
        self._rows: dict[int, list[str]] = {}
        self._is_wanted = not self._at.keys().isdisjoint(("eventtype", *_PINGED, *_TESTED))

    def take(self, line: bytes) -> None:
        """Use one line, if the log has results."""
        self._number += 1
        if self._is_wanted and self._number > 1 and line.strip() and len(self._rows) < _MOST_RESULTS:
            fields = _names(line, self._delimiter)
            if any(self._text(fields, name) for name in ("eventtype", "eventdetails", *_PINGED, *_TESTED)):
                self._rows[self._number] = fields

    def _text(self, fields: list[str], name: str) -> str:
        at = self._at.get(name)
        text = fields[at] if at is not None and at < len(fields) else ""
        return "" if text in _MISSING else text

    def _number_in(self, fields: list[str], name: str) -> float | None:
        value = decimal_of(self._text(fields, name))
        return value if value is not None and 0 <= value < _MOST else None

    def tables(self, radio: Table) -> dict[str, Table]:
        """Return `markers`, `pings` and `application_sums`, as far as the log has them."""
        times = dict(zip(radio["line"].tolist(), radio["time_ns"].tolist(), strict=True))
        markers, pings, sums = Sparse(MARKERS), Sparse(PINGS), Sparse(APPLICATION_SUMS)
        for run, (number, fields) in enumerate(self._rows.items(), 1):
            if (time_ns := times.get(number)) is None:
                continue
            note = " ".join(filter(None, (self._text(fields, name) for name in ("eventtype", "eventdetails"))))
            if note:
                shown = "".join(c for c in note if c.isprintable())[:_LONGEST_NOTE]
                markers.append({"time_ns": time_ns, "line": number, "note": shown})
            own = {"time_ns": time_ns, "run": run, "source": "gnettrk"}
            for name, series in _PINGED.items():
                if rtt_ms := self._number_in(fields, name):
                    pings.append({**own, "series": series, "rtt_s": rtt_ms / _MS_PER_S})
            for name, (series, direction) in _TESTED.items():
                if (kbps := self._number_in(fields, name)) is not None:
                    rate = {"rate_bps": kbps * _KILO, "direction": direction, "reporter": "receiver"}
                    sums.append({**own, "series": series, **rate})
        rows_of = {"markers": markers, "pings": pings, "application_sums": sums}
        facts = {**radio.provenance, "warnings": []}
        return {name: rows.table(facts) for name, rows in rows_of.items() if len(rows)}


FORMAT = Format(
    name="gnettrack",
    layer="radio",
    description="drive tests of G-NetTrack and the UCC 4G/5G data sets, CSV",
    source="G-NetTrack Pro manual; github.com/uccmisl/5Gdataset",
    sniff=sniff,
    parse=parse,
)
