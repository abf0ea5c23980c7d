"""The text of `ss -tin` in a loop, as people record it: any of -o -e -m -p -H -O, with dates between.

`ss` prints no time. The recorder's time stamps say between which instants a reading was made: it lies after
the stamp before it and before the stamp after it. A token that `ss` leaves out because its value is zero
is NA here, for an older kernel leaves it out too. Source: misc/ss.c of iproute2 (read with 6.1).
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, BinaryIO

import numpy as np

from multitracer.errors import FormatError
from multitracer.protocols.sock_diag import ReadBy, TcpState
from multitracer.sender import TCP_STATE
from multitracer.tables import NA, NOT_A_TIME
from multitracer.units import BITS_PER_BYTE, NS_PER_MS, NS_PER_S
from parsers._date_line import DateLine, date_line
from parsers._format import Format, Match
from parsers._lines import Lines
from parsers._sender import Rows, address, filled, times

if TYPE_CHECKING:
    from multitracer.tables import Array, Table

_STATES = {
    "ESTAB": TcpState.ESTABLISHED,
    "SYN-SENT": TcpState.SYN_SENT,
    "SYN-RECV": TcpState.SYN_RECV,
    "FIN-WAIT-1": TcpState.FIN_WAIT1,
    "FIN-WAIT-2": TcpState.FIN_WAIT2,
    "CLOSE-WAIT": TcpState.CLOSE_WAIT,
    "LAST-ACK": TcpState.LAST_ACK,
    "CLOSING": TcpState.CLOSING,
}
_WITHOUT_VARIABLES = ("LISTEN", "TIME-WAIT", "UNCONN")
_SOCKET = re.compile(
    r"\s*(?:(?:tcp|mptcp)\s+)?(?:(?P<state>[A-Z][A-Z0-9-]{4,10})\s+)?"
    r"(?P<received>\d{1,10})\s+(?P<queued>\d{1,10})\s+"
    r"(?P<local>\S+):(?P<port_local>[\w*-]+)\s+(?P<remote>\S+):(?P<port_remote>[\w*-]+)(?P<rest>\s.*|)"
)
_HEADING = re.compile(r"\s*(?:Netid\s+)?(?:State\s+)?Recv-Q\s+Send-Q\s")
_USERS = re.compile(r"users:\(\(.*\)\)")
"""Names of processes may hold anything, also what looks like a token."""
_TIMER = re.compile(r"timer:\((\w+),([^,)]*),(\d{1,3})\)")
_NUMBER = r"\d[\d.]*(?:e[+-]?\d{1,2})?"
_TOKEN = re.compile(rf"(?<!\S)([a-z_]+):({_NUMBER})(?:/({_NUMBER}))?")
_RATE = re.compile(r"(?<!\S)(send|pacing_rate|delivery_rate) (\d[\d.]{0,20})([KMGT]?)bps")
_COOKIE = re.compile(r"(?<!\S)sk:([0-9a-f]{1,16})(?!\S)")
_SPAN = re.compile(r"(\d{1,9}(?:\.\d{1,9})?)(ms|sec|min)")
_ALGORITHM = re.compile(r"(?<!\S)([a-z][\w-]{0,14}) (?:wscale|rto):")
_FLAGS = ("ts", "sack", "ecn", "ecnseen", "fastopen")
_SNIFFED = re.compile(rb"(?m)^.{0,60}?(?:ESTAB|\d)\s+\d{1,10}\s+\d{1,10}\s+\S+:\S+\s+\S+:\S+")
_HEADED = re.compile(rb"(?m)^(?:Netid +)?(?:State +)?Recv-Q +Send-Q +Local Address:Port ")
_DETAIL = re.compile(rb"\srto:\d.*\scwnd:\d")
_POWERS = {"": 1, "K": 10**3, "M": 10**6, "G": 10**9, "T": 10**12}
_TIMERS = {"on": 1, "keepalive": 2, "timewait": 3, "persist": 4}
_SPAN_NS = {"ms": NS_PER_MS, "sec": NS_PER_S, "min": 60 * NS_PER_S}
_MOST = 1 << 53
_MOST_MS = 1e12

_COUNTS = {
    "snd_mss_bytes": "mss",
    "cwnd_segments": "cwnd",
    "ssthresh_segments": "ssthresh",
    "backoff": "backoff",
    "unacked_segments": "unacked",
    "sacked_segments": "sacked",
    "lost_segments": "lost",
    "snd_wnd_bytes": "snd_wnd",
    "notsent_bytes": "notsent",
    "total_sent_bytes": "bytes_sent",
    "total_retransmitted_bytes": "bytes_retrans",
    "total_acked_bytes": "bytes_acked",
    "total_received_bytes": "bytes_received",
    "inode": "ino",
}
"""Column -> token whose unit is the column's."""
_MILLISECONDS = {
    "srtt_ns": "rtt",
    "min_rtt_ns": "minrtt",
    "rto_ns": "rto",
    "busy_ns": "busy",
    "rwnd_limited_ns": "rwnd_limited",
    "sndbuf_limited_ns": "sndbuf_limited",
}
_COLUMNS = (
    "time_ns", "read_before_ns", "read_after_ns", "ip_version", "address_local", "port_local",
    "address_remote", "port_remote", "state", "receive_queue_bytes", "send_queue_bytes", "cookie",
    "congestion_control", "timer", "timer_expires_ns", "retransmits", "retransmitted_segments",
    "total_retransmitted_segments", "rttvar_ns", "delivery_rate", "app_limited", *_COUNTS, *_MILLISECONDS,
)  # fmt: skip


@dataclass(slots=True)
class _Block:
    """One socket, from its own line to the last of its details."""

    line: re.Match[str]
    stamp: int
    """How many time stamps precede it."""
    stamped_itself: bool
    details: str


@dataclass(slots=True)
class _Log:
    """What the lines read so far add up to."""

    lines: Lines
    rows: Rows = field(default_factory=lambda: Rows(TCP_STATE, _COLUMNS))
    stamps: list[DateLine] = field(default_factory=list)
    stamp_of_row: list[int] = field(default_factory=list)
    stamped_itself: list[bool] = field(default_factory=list)
    pending: _Block | None = None
    idle: int = 0

    def take(self, text: str) -> None:
        """Use one line."""
        stamp = date_line(text)
        if stamp:
            self._stamp(stamp)
            text = stamp.rest
        if _HEADING.match(text):
            self.flush()
        elif line := _SOCKET.fullmatch(text):
            self.flush()
            itself = stamp is not None
            self.pending = _Block(line, len(self.stamps), itself, " " + line["rest"])
        elif self.pending and text.strip():
            self.pending.details += " " + text
        elif text.strip():
            self.lines.skip("neither a socket nor a date")

    def _stamp(self, stamp: DateLine) -> None:
        if not stamp.rest:
            self.flush()
        if stamp.doubt:
            self.lines.warn(stamp.doubt)
        self.stamps.append(stamp)

    def flush(self) -> None:
        """Take in the socket whose lines are complete now."""
        block, self.pending = self.pending, None
        if block is None:
            return
        if block.line["state"] in _WITHOUT_VARIABLES:
            self.idle += 1
            return
        try:
            self.rows.append(NOT_A_TIME, NOT_A_TIME, NOT_A_TIME, *_values(block))
        except ValueError:
            self.lines.skip("a socket whose address, port or number is none; record with `ss -n`")
            return
        self.stamp_of_row.append(block.stamp)
        self.stamped_itself.append(block.stamped_itself)

    def table(self, path: str) -> Table:
        """Return the readings, each between the stamps around it."""
        columns = self.rows.columns()
        columns |= self._times()
        columns["method"] = np.full(len(self.stamp_of_row), ReadBy.SS, dtype=np.uint8)
        columns["cwnd_bytes"] = times(columns["cwnd_segments"], columns["snd_mss_bytes"])
        columns["ssthresh_bytes"] = times(columns["ssthresh_segments"], columns["snd_mss_bytes"])
        columns["flight_bytes"] = times(columns["unacked_segments"], columns["snd_mss_bytes"])
        if not self.stamps:
            self.lines.warn("no time stamps; put `date +%s.%N` into the loop, before ss")
        provenance = self.lines.provenance(
            path, FORMAT.name, stamps=len(self.stamps), sockets_without_variables=self.idle
        )
        return filled(TCP_STATE, columns, provenance)

    def _times(self) -> dict[str, Array]:
        """Return the three time columns: a stamp stands before its sockets, unless sockets come first."""
        stamps = np.array([NOT_A_TIME, *(s.time_ns for s in self.stamps), NOT_A_TIME], dtype=np.int64)
        coarse = np.array([0, *(s.resolution_ns for s in self.stamps), 0], dtype=np.int64)
        before = np.array(self.stamp_of_row, dtype=np.int64)
        itself = np.array(self.stamped_itself, dtype=bool)
        follow = bool(len(before)) and before[0] == 0
        after = np.where(itself, before, before + 1)
        chosen = np.where(itself | follow, after, before)
        return {
            "time_ns": stamps[chosen] + coarse[chosen] // 2,
            "read_before_ns": np.where(itself, NOT_A_TIME, stamps[before]),
            "read_after_ns": stamps[after] + coarse[after],
        }


def _values(block: _Block) -> tuple[object, ...]:
    """Return the values of `_COLUMNS` behind the times; raise ValueError if one makes no sense."""
    line = block.line
    details = _USERS.sub(" ", block.details)
    tokens = {name: (value, second) for name, value, second in _TOKEN.findall(details)}
    (version, local), (other, remote) = address(line["local"]), address(line["remote"])
    ports = int(line["port_local"]), int(line["port_remote"])
    if version != other or max(ports) > 0xFFFF:
        raise ValueError("ends that no socket has")
    cookie, algorithm = _COOKIE.search(details), _ALGORITHM.search(details)
    return (
        version, local, ports[0], remote, ports[1],
        _STATES.get(line["state"], NA), int(line["received"]), int(line["queued"]),
        int(cookie[1], 16) if cookie else 0,
        algorithm[1] if algorithm and algorithm[1] not in _FLAGS else "",
        *_timer(details), *_retransmitted(tokens), _ms(tokens["rtt"][1]) if "rtt" in tokens else NOT_A_TIME,
        *_delivery(details),
        *(_count(tokens[t][0]) if t in tokens else NA for t in _COUNTS.values()),
        *(_ms(tokens[t][0]) if t in tokens else NOT_A_TIME for t in _MILLISECONDS.values()),
    )  # fmt: skip


def _timer(details: str) -> tuple[int, int, int]:
    """Return which timer runs, when it fires, and how often the retransmission timer fired in a row."""
    match = _TIMER.search(details)
    if match is None:
        return NA, NOT_A_TIME, NA
    kind = _TIMERS.get(match[1], NA)
    expires = sum(_span_ns(number, unit) for number, unit in _SPAN.findall(match[2]))
    return kind, expires, int(match[3]) if match[1] == "on" else NA


def _span_ns(number: str, unit: str) -> int:
    """Return a span as `ss` prints it, which writes 4.5 seconds as "4.500ms"."""
    unit_ns = NS_PER_S if "." in number else _SPAN_NS[unit]
    return round(float(number) * unit_ns)


def _retransmitted(tokens: dict[str, tuple[str, str]]) -> tuple[int, int]:
    now, total = tokens.get("retrans", ("", ""))
    return (_count(now), _count(total)) if now and total else (NA, NA)


def _delivery(details: str) -> tuple[int, int]:
    """Return the delivery rate in bytes/s, and whether the application limited it."""
    rates = {name: float(value) * _POWERS[power] for name, value, power in _RATE.findall(details)}
    limited = 1 if " app_limited" in details else (0 if "delivery_rate" in rates else NA)
    return int(rates["delivery_rate"] / BITS_PER_BYTE) if "delivery_rate" in rates else NA, limited


def _count(text: str) -> int:
    value = float(text)
    if not 0 <= value < _MOST:
        raise ValueError(f"{text} is no count")
    return int(value)


def _ms(text: str) -> int:
    return round(_count_ms(text) * NS_PER_MS) if text else NOT_A_TIME


def _count_ms(text: str) -> float:
    value = float(text)
    if not 0 <= value < _MOST_MS:
        raise ValueError(f"{text} ms is no time")
    return value


def sniff(head: bytes) -> Match:
    """Return "yes" for sockets with their variables, "maybe" for sockets alone or only the heading."""
    if _SNIFFED.search(head):
        return "yes" if _DETAIL.search(head) else "maybe"
    return "maybe" if _HEADED.search(head) else "no"


def parse(stream: BinaryIO, *, path: str) -> dict[str, Table]:
    """Return `tcp_state`.

    Raises
    ------
    FormatError
        If there is no socket in it.
    """
    lines = Lines(stream)
    log = _Log(lines)
    for text in lines:
        log.take(text)
    if not lines.cut.startswith((b" ", b"\t")):  # else its details were cut
        log.flush()
    if not (log.rows or log.idle):
        raise FormatError(path, "no line is a TCP socket of ss")
    return {"tcp_state": log.table(path)}


FORMAT = Format(
    name="ss",
    layer="tcp",
    description="variables of TCP senders, recorded with `ss -tin` in a loop",
    source="misc/ss.c of iproute2; ss(8)",
    sniff=sniff,
    parse=parse,
)
