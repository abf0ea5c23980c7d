"""The log of `collectors.tcp_info`: one JSON record in each line; readings contain the raw `struct tcp_info`.

The struct is decoded again from its bytes; the decoded fields in the record are only for human readers.
Source: collectors/tcp_info.py for the records, linux/tcp.h for the struct.
"""

from __future__ import annotations

import base64
import binascii
from typing import TYPE_CHECKING, Any, BinaryIO, Literal

import numpy as np

from multitracer.protocols.sock_diag import (
    BIT_FIELDS,
    INFINITE_SSTHRESH,
    LAYOUT,
    STRUCT_ORDERS,
    TCP_INFO_BYTES,
    ReadBy,
    split_bit_fields,
)
from multitracer.schemas.sender import TCP_STATE
from multitracer.tables import NA, NOT_A_TIME
from multitracer.units import NS_PER_MS, NS_PER_US
from parsers._format import Format, Match
from parsers._text.collector_log import CollectorLog, header_of, is_time
from parsers._text.lines import LogLines
from parsers._text.times import MOST, Rows, address, scaled_ns, times

if TYPE_CHECKING:
    from collections.abc import Sequence

    from multitracer.protocols.sock_diag import ByteOrder
    from multitracer.tables import Array, Document, Numbers, Table

_MOST_GAPS = 10_000

FROM_RECORD = (
    "read_before_ns", "read_after_ns", "ip_version", "address_local", "address_remote", "port_local",
    "port_remote", "cookie", "inode", "state", "timer", "timer_expires_ns", "receive_queue_bytes",
    "send_queue_bytes", "congestion_control",
)  # fmt: skip
_AS_READ = {
    "ca_state": "ca_state",
    "retransmits": "retransmits",
    "backoff": "backoff",
    "snd_mss_bytes": "snd_mss",
    "cwnd_segments": "snd_cwnd",
    "unacked_segments": "unacked",
    "sacked_segments": "sacked",
    "lost_segments": "lost",
    "retransmitted_segments": "retrans",
    "snd_wnd_bytes": "snd_wnd",
    "rcv_wnd_bytes": "rcv_wnd",
    "notsent_bytes": "notsent_bytes",
    "total_sent_bytes": "bytes_sent",
    "total_retransmitted_bytes": "bytes_retrans",
    "total_acked_bytes": "bytes_acked",
    "total_received_bytes": "bytes_received",
    "total_retransmitted_segments": "total_retrans",
    "total_timeouts": "total_rto",
    "delivery_rate": "delivery_rate",
    "app_limited": "app_limited",
}
"""Field of struct tcp_info by table column, if both have the same unit."""
_MICROSECONDS = {
    "srtt_ns": "rtt",
    "rttvar_ns": "rttvar",
    "min_rtt_ns": "min_rtt",
    "rto_ns": "rto",
    "busy_ns": "busy_time",
    "rwnd_limited_ns": "rwnd_limited",
    "sndbuf_limited_ns": "sndbuf_limited",
}
_NO_MIN_RTT = 0xFFFFFFFF


class _Log(CollectorLog):
    """Reads the records of a log, and collects the rows."""

    def __init__(self, path: str, lines: LogLines) -> None:
        super().__init__(path, lines, name="tcp-info")
        self.rows = Rows(TCP_STATE, FROM_RECORD)
        self.blobs: list[bytes] = []
        self.late: list[tuple[int, int, int]] = []

    def take(self, text: str) -> None:
        """Read one line, or count it as unusable by reason."""
        record = self.record(text)
        if record is None or record.get("kind") == "gone":
            return
        if record.get("kind") != "reading" or not self._reading(record):
            self.lines.skip("not a record of this format")

    def _reading(self, record: Document) -> bool:
        try:
            row = _row(record)
            blob = base64.b64decode(record["raw"], validate=True)
        except (KeyError, TypeError, ValueError, binascii.Error):
            return False
        self.rows.append(*row)
        self.blobs.append(blob)
        return True

    def _miss(self, record: Document) -> bool:
        """Store the time of skipped readings; they are no gap, because the next reading has all counters."""
        since, until, count = (record.get(key) for key in ("since_ns", "until_ns", "count"))
        if not (is_time(since) and is_time(until) and is_time(count)):
            return False
        self.late.append((since, until, count))
        self._late += count if record.get("why") == "late" else 0
        return True

    def table(self) -> Table:
        """Return the readings; times are wall-clock times, converted with the clock records of the log."""
        columns = self.rows.columns()
        info = tcp_info_columns(self.blobs, byte_order=_byte_order(self.header))
        placed = [self.pairs.place(columns[f"read_{end}_ns"]) for end in ("before", "after")]
        columns |= variables(info) | dict(zip(("read_before_ns", "read_after_ns"), placed, strict=True))
        columns["time_ns"] = placed[0] + (placed[1] - placed[0]) // 2
        columns["method"] = np.full(len(self.blobs), ReadBy.TCP_INFO, dtype=np.uint8)
        return self.rows.table(self.provenance(), columns)

    def provenance(self) -> Document:
        """Return the provenance: counts, clock conversion and warnings."""
        gaps = np.array([gap[:2] for gap in self.late[:_MOST_GAPS]], dtype=np.int64).reshape(-1, 2)
        since, until = (self.pairs.place(gaps[:, side]).tolist() for side in (0, 1))
        return super().provenance() | {
            "missed_reads": sum(count for _, _, count in self.late),
            "gaps": list(zip(since, until, (count for _, _, count in self.late), strict=False)),
        }


def _row(record: Document) -> tuple[Any, ...]:
    """Return the values of `FROM_RECORD`; raise KeyError, TypeError or ValueError if one is not valid."""
    version, local = address(str(record["local"]))
    other, remote = address(str(record["remote"]))
    ports = [_number(record, key, 0xFFFF) for key in ("local_port", "remote_port")]
    numbers = [_number(record, key, MOST) for key in ("inode", "state", "timer", "expires_ms")]
    queues = [_number(record, key, MOST) for key in ("receive_queue_bytes", "send_queue_bytes")]
    stamps = [record[key] for key in ("read_before_ns", "read_after_ns")]
    if version != other or NA in ports or not all(map(is_time, stamps)) or stamps[0] > stamps[1]:
        raise ValueError("the address of an endpoint or a timestamp is not valid")
    inode, state, timer, expires = numbers
    expires_ns = NOT_A_TIME if NA in (timer, expires) or timer == 0 else expires * NS_PER_MS
    cookie = max(_number(record, "cookie", (1 << 64) - 1), 0)
    name = str(record.get("congestion_control") or "")[:16].encode("ascii", "replace").decode()
    return (*stamps, version, local, remote, *ports, cookie, inode or NA, state, timer, expires_ns, *queues, name)


def _number(record: Document, key: str, most: int) -> int:
    value = record.get(key)
    if value is None:
        return NA
    if type(value) is not int or not 0 <= value <= most:
        raise ValueError(f'"{key}" must be a whole number from 0 to {most}, but is {value!r}')
    return value


def tcp_info_columns(blobs: Sequence[bytes], *, byte_order: ByteOrder = "little") -> dict[str, Numbers]:
    """Return the fields of many `struct tcp_info` as columns, by the kernel's names.

    Returns
    -------
    dict of str to ndarray of int64, each of shape (n_blobs,)
        The names are those of `decode_tcp_info`. A field beyond the end of a struct, and a rate that is
        unlimited (all bits set), is NA.
    """
    padded = b"".join(blob[:TCP_INFO_BYTES].ljust(TCP_INFO_BYTES, b"\0") for blob in blobs)
    rows = np.frombuffer(padded, dtype=np.uint8).reshape(-1, TCP_INFO_BYTES)
    lengths = np.fromiter(map(len, blobs), dtype=np.int64, count=len(blobs))
    columns: Document = {}
    end = 0
    for name, code in LAYOUT:
        dtype = np.dtype(STRUCT_ORDERS[byte_order] + code)
        begin, end = end, end + dtype.itemsize
        values = np.ascontiguousarray(rows[:, begin:end]).view(dtype).reshape(-1).astype(np.int64)
        columns[name] = np.where(lengths >= end, np.maximum(values, NA), NA)
    gone = {part: columns[complete] == NA for complete, parts in BIT_FIELDS.items() for part in parts}
    split_bit_fields(columns, byte_order)
    return columns | {part: np.where(gone[part], NA, columns[part]) for part in gone}


def variables(info: dict[str, Array]) -> dict[str, Array]:
    """Return the columns that come from the struct."""
    columns = {column: info[name] for column, name in _AS_READ.items()}
    columns |= {column: scaled_ns(info[name], NS_PER_US) for column, name in _MICROSECONDS.items()}
    unmeasured = info["rtt"] == 0
    for column in ("srtt_ns", "rttvar_ns"):
        columns[column][unmeasured] = NOT_A_TIME
    columns["min_rtt_ns"][info["min_rtt"] == _NO_MIN_RTT] = NOT_A_TIME
    ssthresh = np.where(info["snd_ssthresh"] >= INFINITE_SSTHRESH, NA, info["snd_ssthresh"])
    columns["ssthresh_segments"] = ssthresh
    columns["cwnd_bytes"] = times(info["snd_cwnd"], info["snd_mss"])
    columns["ssthresh_bytes"] = times(ssthresh, info["snd_mss"])
    columns["flight_bytes"] = times(info["unacked"], info["snd_mss"])
    return columns


def _byte_order(header: Document) -> Literal["little", "big"]:
    return "big" if header.get("byte_order") == "big" else "little"


def sniff(head: bytes) -> Match:
    """Return "yes" for a log that begins with the header of `collectors.tcp_info`."""
    return "yes" if head.startswith(header_of("tcp-info")) else "no"


def parse(stream: BinaryIO, *, path: str) -> dict[str, Table]:
    """Return the table `tcp_state`.

    Raises
    ------
    FormatError
        If the first record is not this header.
    """
    return {"tcp_state": _Log(path, LogLines(stream)).read().table()}


FORMAT = Format(
    name="tcp-info",
    layer="tcp",
    description="variables of TCP senders, polled by MultiTracer's collector tcp_info",
    source="collectors/tcp_info.py; struct tcp_info of linux/tcp.h",
    sniff=sniff,
    parse=parse,
)
