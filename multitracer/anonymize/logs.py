"""Writes the anonymized copy of one log."""

from __future__ import annotations

import csv
import gzip
import io
import itertools
import json
import re
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import chain
from pathlib import PurePath
from typing import TYPE_CHECKING

import numpy as np

import parsers
from multitracer.analysis.signalling.procedures import procedures_of
from multitracer.analysis.signalling.states import states_of
from multitracer.anonymize.pseudonyms import anonymous
from multitracer.errors import FormatError, MultiTracerError
from multitracer.manifest import Role
from multitracer.protocols.gsmtap import GsmtapType
from multitracer.protocols.pcap_file import pcap_header, pcap_record
from multitracer.protocols.rlp import is_information
from multitracer.schemas.application import PINGS
from multitracer.schemas.radio import DISH, DISH_OUTAGES, POSITION, RADIO
from multitracer.schemas.signalling import HANDOVERS, PROCEDURES, SIGNALLING, SIGNALLING_STATES
from multitracer.schemas.transactions import LABEL, TRANSACTIONS
from multitracer.units import NS_PER_S, NS_PER_US
from multitracer.words import count
from parsers._signalling.gsmtap import gsmtap_datagram
from parsers._stream import open_stream
from parsers._text.lines import LogLines
from parsers._text.times import decimal_of

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from multitracer.anonymize.pseudonyms import Pseudonyms
    from multitracer.tables import Json, Table

_POSITION_DIGITS = 2
_ROUNDED = f"rounded to {10**-_POSITION_DIGITS} degrees, without heading and altitude"
_PACKED = (".gz", ".zst", ".xz", ".bz2")
_ROUTE_COLUMNS = ("heading_deg", "altitude_m")
"""Columns that, with the speed, would reveal the driven route."""
_CELL_COLUMNS = ("cell_id", "area_code", "physical_cell_id")
_CELL_NAMES = {"cell ": "cell_id", "PCI ": "physical_cell_id"}
_CELL = re.compile(r"^(cell |PCI )(\d{1,20})")
"""Name of a cell in a transaction (`multitracer.readings.cell_words`); a channel alone names no cell."""
_TEXTS = frozenset(column.name for column in TRANSACTIONS if column.dtype.startswith("U"))
_SIDES = ("", "source_", "target_")
"""Prefixes of cell columns: none in a reading or message; source or target cell in a handover."""
TABLES = "tables"
"""Folder of the signalling tables in a copy; these tables are not logs."""
_UDP_GSMTAP_BYTES = 20 + 8 + 16
_GSMTAP_TYPE = 20 + 8 + 2
"""Offset of the GSMTAP payload type in a packet."""
_KEPT_OCTETS = 4
_COMMENT = "# multitracer "
"""Prefix of a JSON object in the text of a kernel trace."""


@dataclass(frozen=True, slots=True)
class Written:
    """The result for one log."""

    name: str
    """Name of the new log; empty if it was left out."""
    why: str = ""
    """Reason why the log was not copied, or a list of the removed parts."""


def packets(path: Path, into: Path, pseudonyms: Pseudonyms) -> Written:
    """Write the IP packets of a capture, each without addresses and payload."""
    name = free_name(into, f"{_stem(path)}.pcap.gz")
    signalling = 0
    with _compressed(into / name) as stream:
        stream.write(pcap_header())
        for packet in parsers.read_ip_packets(path):
            if gsmtap_datagram(packet) is not None:
                signalling += 1
                continue
            made = anonymous(packet.data, pseudonyms)
            if made is not None and packet.time_ns is not None:
                stream.write(pcap_record(made, time_ns=packet.time_ns, original_bytes=_length(packet.data)))
    if not signalling:
        return Written(name, "IP headers only")
    more = _signalling_of_capture(path, into, pseudonyms)
    return Written(name, f"IP headers only, {signalling:,} GSMTAP packets with signalling removed{more}")


def _signalling_of_capture(path: Path, into: Path, pseudonyms: Pseudonyms) -> str:
    """Write the signalling tables of a capture; return a text that describes them, or the error."""
    from parsers._signalling.signalling import read_signalling  # noqa: PLC0415  # few captures hold any

    try:
        return _signalling(read_signalling(str(path)), path, into, pseudonyms)
    except MultiTracerError as error:  # the packets are copied all the same
        return f"; also without a table of the signalling: {error}"


def _signalling(tables: dict[str, Table], path: Path, into: Path, pseudonyms: Pseudonyms) -> str:
    """Write the tables of a log of signalling with pseudonymous cells; return a text that describes them."""
    written = []
    made = {PROCEDURES.name: procedures_of(tables), SIGNALLING_STATES.name: states_of(tables)}
    for name in (SIGNALLING.name, HANDOVERS.name, *made):
        table = (tables | made).get(name)
        if table is None or not len(table):
            continue
        (into / TABLES).mkdir(exist_ok=True)
        _map_cells(table, pseudonyms)
        stem = pseudonyms.in_words(_stem(path))
        _as_csv(table, pseudonyms, into / TABLES, f"{stem}.{name}.csv.gz")
        written.append(f"{count(len(table), 'row')} of {name}")
    words = " and ".join(filter(None, [", ".join(written[:-1]), *written[-1:]]))
    return f"; in {TABLES}/: {words} with pseudonyms of cells" if written else ""


def _map_cells(table: Table, pseudonyms: Pseudonyms) -> None:
    """Replace cell and area identities by pseudonyms in all columns of a table."""
    for name in (f"{side}{kind}" for side in _SIDES for kind in _CELL_COLUMNS):
        if name in table.columns:
            column, known = table.columns[name], ~table.missing(name)
            kind = name.removeprefix("source_").removeprefix("target_")
            column[known] = [pseudonyms.of_cell(kind, int(number)) for number in column[known]]


def _length(packet: bytes) -> int:
    """Return the total length in the header of an IP packet, in bytes."""
    if packet[0] >> 4 == 4:
        return int.from_bytes(packet[2:4])
    return 40 + int.from_bytes(packet[4:6])


def link(path: Path, into: Path, pseudonyms: Pseudonyms) -> Written:
    """Copy a link log, unless its frames contain user data."""
    del pseudonyms
    if any(map(_holds_contents, parsers.read_ip_packets(path))):
        return Written(
            "", "not copied, because its frames contain user data; record with headers only to share this log"
        )
    (into / path.name).write_bytes(path.read_bytes())
    return Written(path.name)


def _holds_contents(packet: parsers.IpPacket) -> bool:
    octets = packet.data[_UDP_GSMTAP_BYTES:]
    is_frame = len(octets) > _KEPT_OCTETS and packet.data[_GSMTAP_TYPE] == GsmtapType.GSM_RLP
    return is_frame and is_information(octets)


def lines(path: Path, into: Path, pseudonyms: Pseudonyms) -> Written:
    """Write a text log line by line, with pseudonyms in JSON strings and in addresses of other lines."""
    name = free_name(into, f"{_unpacked(path)}.gz")
    with _compressed(into / name) as stream:
        for line in parsers.read_lines(path):
            stream.write(_line(line, pseudonyms).encode() + b"\n")
    return Written(name)


def _line(line: str, pseudonyms: Pseudonyms) -> str:
    comment, brace, rest = line.partition("{")
    if brace and comment in ("", _COMMENT):
        try:
            mapped = in_document(json.loads(brace + rest), pseudonyms)
        except (ValueError, RecursionError):
            return pseudonyms.in_words(line)  # the last line, cut
        return comment + json.dumps(mapped, separators=(",", ":"))
    return pseudonyms.in_addresses(line)


def in_document(value: Json, pseudonyms: Pseudonyms) -> Json:
    """Return a JSON value with pseudonyms in its strings, including machine names and command lines."""
    if isinstance(value, str):
        return pseudonyms.in_words(value)
    if isinstance(value, list):
        return [in_document(each, pseudonyms) for each in value]
    if isinstance(value, dict):
        return {key: _member(key, each, pseudonyms) for key, each in value.items()}
    return value


def _member(key: str, value: Json, pseudonyms: Pseudonyms) -> Json:
    if key in ("host", "node") and isinstance(value, str) and value not in [*Role]:
        return pseudonyms.name(value, kind="host")
    if key == "command" and isinstance(value, list):
        return [word for word in value if str(word).startswith("collectors.")]
    return in_document(value, pseudonyms)


def radio(path: Path, into: Path, pseudonyms: Pseudonyms) -> Written:
    """Write a radio log as a table with pseudonymous cells, and its positions as a second table."""
    _, parsed = parsers.read(path)
    if isinstance(parsed, dict) and DISH.name in parsed:
        return _dish(parsed, path, into, pseudonyms)
    tables = _tables(path, RADIO.name)
    table = tables[RADIO.name]
    _map_cells(table, pseudonyms)
    messages = tables.get(SIGNALLING.name)
    raw = "the raw answers" if messages is None else f"the raw log and its {len(messages):,} messages"
    why = f"decoded readings; {raw} not copied{_signalling(tables, path, into, pseudonyms)}"
    fixes = tables.get(POSITION.name)
    if fixes is not None and len(fixes):
        name = f"{pseudonyms.in_words(_stem(path))}-position.csv.gz"
        _as_csv(_rounded(fixes), pseudonyms, into, name)
        why += f"; positions in a separate file, {_ROUNDED}"
    why += _zone_words(table)
    return Written(_as_csv(table, pseudonyms, into, f"{_stem(path)}.csv.gz"), why)


_OF_DISH = {
    "state": "state", "uptime_s": "uptime", "loss_ratio": "pop_ping_drop_rate",
    "downlink_bps": "downlink_throughput_bps", "uplink_bps": "uplink_throughput_bps",
    "obstructed_ratio": "fraction_obstructed", "obstructed": "currently_obstructed",
}  # fmt: skip
"""Names of starlink-grpc-tools, whose CSV is read again; the direction of the antenna is left out."""


def _dish(tables: dict[str, Table], path: Path, into: Path, pseudonyms: Pseudonyms) -> Written:
    """Write what a dish says of itself as CSV, without its identity and the direction of its antenna."""
    dish, outages, pings = (tables[schema.name] for schema in (DISH, DISH_OUTAGES, PINGS))
    rtt_ms = dict(zip(pings["time_ns"].tolist(), (1000 * pings["rtt_s"]).tolist(), strict=True))
    name = free_name(into, f"{_stem(path)}.csv.gz")
    with _compressed(into / name) as stream:
        stream.write(f"datetimestamp_utc,{','.join(_OF_DISH.values())},pop_ping_latency_ms\n".encode())
        for row in dish.rows():
            if row["time_ns"] is None:
                continue
            moment = datetime.fromtimestamp(row["time_ns"] // NS_PER_S, UTC).replace(tzinfo=None)
            micros = row["time_ns"] % NS_PER_S // NS_PER_US
            latency = rtt_ms.get(row["time_ns"]) if row["loss_ratio"] is not None else None
            values = [pseudonyms.in_words(row["state"]), *(row[each] for each in (*_OF_DISH,)[1:]), latency]
            stream.write(f"{moment:%Y-%m-%dT%H:%M:%S}.{micros:06d},{','.join(map(_cell, values))}\n".encode())
    lost = f", and {count(len(outages), 'outage')}" if len(outages) else ""
    return Written(name, f"decoded readings; identity and direction of the dish{lost} not copied")


def position(path: Path, into: Path, pseudonyms: Pseudonyms) -> Written:
    """Write a position log as a table with rounded positions, without columns that would reveal the route."""
    table = _rounded(_tables(path, POSITION.name)[POSITION.name])
    why = f"{_ROUNDED}{_zone_words(table)}"
    return Written(_as_csv(table, pseudonyms, into, f"{_stem(path)}.csv.gz"), why)


def transactions(path: Path, into: Path, pseudonyms: Pseudonyms) -> Written:
    """Write the transactions of a measurement under the name that readers know, without what names a place or a cell.

    The labels stay; a cell that its column cannot hold is left out, and so is a line that is no transaction, counted.
    """
    name = free_name(into, _unpacked(path))
    with open_stream(path) as source:
        lines = LogLines(io.BufferedReader(source))
        rows = map(_cells, lines)
        header = next(rows, [])
        if not header:
            raise FormatError(path, "the first line is not the header of transactions.csv", line=1)
        with (into / name).open("w", encoding="utf-8", newline="") as stream:
            copied = csv.writer(stream, lineterminator="\n")
            copied.writerow(header)
            for row in rows:
                if len(row) == len(header):
                    copied.writerow(_of_transaction(*each, pseudonyms) for each in zip(header, row, strict=True))
                else:
                    lines.skip("no transaction")
    why = f"positions {_ROUNDED.partition(',')[0]}, pseudonyms of cells; the labels are copied"
    if left_out := sum(lines.skipped.values()) + bool(lines.cut):
        why += f"; without {count(left_out, 'line')} that cannot be read"
    return Written(name, f"{why}; the file is damaged: {lines.damage}" if lines.damage else why)


def _cells(line: str) -> list[str]:
    """Return the cells of one line of a CSV file, as its parser reads it; an empty list if it is none."""
    try:
        return next(csv.reader([line]), [])
    except csv.Error:  # a cell that is too long, or a carriage return
        return []


def _of_transaction(name: str, text: str, pseudonyms: Pseudonyms) -> str:
    """Return a cell of transactions.csv for the copy."""
    if name.startswith(LABEL) or not text:
        return text
    if name == "cell":
        return _CELL.sub(lambda match: f"{match[1]}{pseudonyms.of_cell(_CELL_NAMES[match[1]], int(match[2]))}", text)
    if name in _TEXTS:
        return pseudonyms.in_words(text)
    number = decimal_of(text)
    if number is None:
        return ""
    return str(round(number, _POSITION_DIGITS)) if name in ("lat_deg", "lon_deg") else text


def _rounded(table: Table) -> Table:
    """Round the positions of POSITION in place, remove columns that would reveal the route, and return it."""
    for name in _ROUTE_COLUMNS:
        table.columns[name][:] = np.nan
    for name in ("lat_deg", "lon_deg"):
        table.columns[name] = np.round(table.columns[name], _POSITION_DIGITS)
    return table


def _zone_words(table: Table) -> str:
    """Return the caveat about the time zone of a log, because the copy no longer shows it."""
    is_unknown = table.provenance.get("zone") == "unknown"
    return "; times without a zone, read as UTC" if is_unknown else ""


def _tables(path: Path, name: str) -> dict[str, Table]:
    """Return the tables of a log; a table `name` must be among them."""
    _, parsed = parsers.read(path)
    if not isinstance(parsed, dict) or name not in parsed:
        raise FormatError(path, f'the log contains no table "{name}"')
    return parsed


def _as_csv(table: Table, pseudonyms: Pseudonyms, into: Path, name: str) -> str:
    """Write a table as a CSV file into a folder; return the file name."""
    name = free_name(into, name)
    for column in table.schema:
        if column.dtype.startswith("U"):
            values = table.columns[column.name]
            values[:] = [pseudonyms.in_words(str(value)) for value in values]
    with _compressed(into / name) as stream:
        for line in _csv_lines(table):
            stream.write(f"{line}\n".encode())
    return name


def _csv_lines(table: Table) -> Iterator[str]:
    yield ",".join(table.columns)
    for row in table.rows():
        yield ",".join(_cell(value) for value in row.values())


def _cell(value: object) -> str:
    text = "" if value is None else str(value)
    return '"' + text.replace('"', '""') + '"' if set(text) & set(',"\r\n') else text


def free_name(into: Path, name: str) -> str:
    """Return the name; if the folder already has such a file, with a number before the extension.

    `drive.csv` and `drive.gpx` both become `drive.csv.gz`, as do the files of a ring of captures.
    """
    stem, ending = next(
        (name.removesuffix(each), each) for each in (".pcap.gz", ".csv.gz", ".gz", "") if name.endswith(each)
    )
    names = chain([name], (f"{stem}-{number}{ending}" for number in itertools.count(2)))
    return next(each for each in names if not (into / each).exists())


def _unpacked(path: Path) -> str:
    """Return the name of a log without the extension of a compression format."""
    return next((path.name.removesuffix(each) for each in _PACKED if path.name.endswith(each)), path.name)


def _stem(path: Path) -> str:
    """Return the name of a log without its extensions; a date in the name remains."""
    return PurePath(_unpacked(path)).stem


def _compressed(path: Path) -> gzip.GzipFile:
    return gzip.GzipFile(path, "wb", mtime=0)
