"""The output of `ss -tin` in a loop: any of -o -e -m -p -H -O, with dates between.

`ss` prints no time. The recorder's time stamps say between which instants a reading was made: it lies after
the stamp before it and before the stamp after it; a stamp on a socket's own line, at its start or end, is
later than the reading. Where no line names a socket, because `grep` left them out, one connection is assumed,
and said to be. Source: misc/ss.c of iproute2 (read with 6.1).
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, BinaryIO

import numpy as np

from multitracer.errors import FormatError
from multitracer.protocols.sock_diag import ReadBy, TcpState
from multitracer.sender import TCP_STATE
from multitracer.tables import NA, NOT_A_TIME
from multitracer.units import NS_PER_S
from parsers._format import Format, Match
from parsers._ss_details import COLUMNS, details_of, has_variables, with_zeros
from parsers._text.date_line import DateLine, date_at_end, date_line
from parsers._text.lines import Lines
from parsers._text.rows import Rows, address, filled, times

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
_DETAILS = re.compile(r"(?<!\S)[a-z_]+:[\d(]")
_SNIFFED = re.compile(rb"(?m)^.{0,60}?(?:ESTAB|\d)\s+\d{1,10}\s+\d{1,10}\s+\S+:\S+\s+\S+:\S+")
_HEADED = re.compile(rb"(?m)^(?:Netid +)?(?:State +)?Recv-Q +Send-Q +Local Address:Port ")
_DETAIL = re.compile(rb"(?m)(?:^|\s)rto:\d[^\n]{0,999}\scwnd:\d")
_COLUMNS = (
    "time_ns", "read_before_ns", "read_after_ns", "ip_version", "address_local", "port_local",
    "address_remote", "port_remote", "state", "receive_queue_bytes", "send_queue_bytes", *COLUMNS,
)  # fmt: skip
_NOBODY = (0, bytes(16), 0, bytes(16), 0, NA, NA, NA)
"""Ends, state and queues of a socket whose own line is not in the log."""
_ONE_ASSUMED = "no line names a socket; all readings are assumed to be of one connection"
_DAY_NS = 86_400 * NS_PER_S


@dataclass(slots=True)
class _Block:
    """One socket, from its own line to the last of its details."""

    line: re.Match[str] | None
    """Its own line; None where only its variables were recorded."""
    stamp: int
    """How many time stamps precede it, its own included."""
    details: str
    stamped_itself: bool = False


@dataclass(slots=True)
class _Log:
    """The totals of the lines read so far."""

    lines: Lines
    rows: Rows = field(default_factory=lambda: Rows(TCP_STATE, _COLUMNS))
    stamps: list[DateLine] = field(default_factory=list)
    blocks: list[tuple[int, bool, bool, bool]] = field(default_factory=list)
    """Of each row: stamps before it, whether it was stamped itself, is named, has variables."""
    newest: int = -1
    pending: _Block | None = None
    idle: int = 0
    days: int = 0

    def take(self, text: str) -> None:
        """Use one line."""
        stamp = date_line(text, time_of_day=True) or date_at_end(text)
        own = stamp is not None and _of_socket(stamp.rest)
        if stamp:
            self._stamp(stamp, alone=not own)
            text = stamp.rest if own else ""  # else what is beside a date decorates it
        self._take(text)
        if own and self.pending and not self.pending.stamped_itself:
            self.pending.stamp, self.pending.stamped_itself = len(self.stamps), True

    def _take(self, text: str) -> None:
        line = _SOCKET.fullmatch(text)
        if line or (has_variables(text) and not self._lacks_variables()):
            self.flush()
            self.pending = _Block(line, len(self.stamps), " " + (line["rest"] if line else text))
        elif _HEADING.match(text):
            self.flush()
        elif self.pending and text.strip():
            self.pending.details += " " + text
        elif text.strip():
            self.lines.skip("neither a socket nor a date")

    def _lacks_variables(self) -> bool:
        """Return whether the socket of the last lines still waits for its variables."""
        return self.pending is not None and not has_variables(self.pending.details)

    def _stamp(self, stamp: DateLine, *, alone: bool) -> None:
        if alone:
            self.flush()
        if stamp.doubt:
            self.lines.warn(stamp.doubt)
        time_ns = stamp.time_ns + self.days * _DAY_NS
        if not stamp.has_day and self.stamps and time_ns < self.stamps[-1].time_ns - _DAY_NS // 2:
            self.days += 1  # past midnight
            time_ns += _DAY_NS
        self.stamps.append(replace(stamp, time_ns=time_ns))

    def flush(self) -> None:
        """Take the socket whose lines are complete now."""
        block, self.pending = self.pending, None
        if block is None:
            return
        if block.line and block.line["state"] in _WITHOUT_VARIABLES:
            self.idle += 1
            return
        try:
            values, newest = details_of(block.details)
            self.rows.append(NOT_A_TIME, NOT_A_TIME, NOT_A_TIME, *_endpoints(block.line), *values)
        except ValueError:
            self.lines.skip("a socket whose address, port or number is none; record with `ss -n`")
            return
        self.newest = max(self.newest, newest)
        self.blocks.append(
            (block.stamp, block.stamped_itself, block.line is not None, has_variables(block.details))
        )

    def table(self, path: str) -> Table:
        """Return the readings, each between the stamps around it."""
        stamp, itself, named, has_info = np.array(self.blocks, dtype=np.int64).reshape(-1, 4).T
        columns = with_zeros(self.rows.columns(), has_info.astype(bool), self.newest)
        columns |= self._times(stamp, itself.astype(bool))
        columns["method"] = np.full(len(self.blocks), ReadBy.SS, dtype=np.uint8)
        columns["cwnd_bytes"] = times(columns["cwnd_segments"], columns["snd_mss_bytes"])
        columns["ssthresh_bytes"] = times(columns["ssthresh_segments"], columns["snd_mss_bytes"])
        columns["flight_bytes"] = times(columns["unacked_segments"], columns["snd_mss_bytes"])
        if not self.stamps:
            self.lines.warn("no time stamps; put `date +%s.%N` into the loop, before ss")
        whose = self._is_known(stamp, itself.astype(bool), named.astype(bool))
        provenance = self.lines.provenance(
            path, FORMAT.name, stamps=len(self.stamps), sockets_without_variables=self.idle
        )
        return filled(TCP_STATE, {name: values[whose] for name, values in columns.items()}, provenance)

    def _is_known(self, stamp: Array, itself: Array, named: Array) -> Array:
        """Return which readings belong to a known socket, or to the only one; count the others."""
        if named.any():
            self.lines.skip("variables without a line that names their socket", int((~named).sum()))
            return named
        between = np.bincount(stamp[~itself], minlength=len(self.stamps) + 1)
        several = ~itself & (between[stamp] > 1) & bool(self.stamps)
        self.lines.skip("variables of one of several sockets, and no line names them", int(several.sum()))
        if not several.all():
            self.lines.warn(_ONE_ASSUMED)
        return ~several

    def _times(self, before: Array, itself: Array) -> dict[str, Array]:
        """Return the three time columns: stamps precede sockets, unless the log begins with sockets."""
        stamps = np.array([NOT_A_TIME, *(s.time_ns for s in self.stamps), NOT_A_TIME], dtype=np.int64)
        coarse = np.array([0, *(s.resolution_ns for s in self.stamps), 0], dtype=np.int64)
        follow = bool(len(before)) and before[0] == 0
        after = np.where(itself, before, before + 1)
        chosen = np.where(itself | follow, after, before)
        return {
            "time_ns": stamps[chosen] + coarse[chosen] // 2,
            "read_before_ns": np.where(itself, NOT_A_TIME, stamps[before]),
            "read_after_ns": stamps[after] + coarse[after],
        }


def _of_socket(text: str) -> bool:
    """Return whether a text is a socket's line, or its details."""
    return bool(_SOCKET.fullmatch(text) or _HEADING.match(text) or _DETAILS.search(text))


def _endpoints(line: re.Match[str] | None) -> tuple[object, ...]:
    """Return ends, state and queues of a socket; raise ValueError if one is not valid."""
    if line is None:
        return _NOBODY
    (version, local), (other, remote) = address(line["local"]), address(line["remote"])
    ports = int(line["port_local"]), int(line["port_remote"])
    if version != other or max(ports) > 0xFFFF:
        raise ValueError("ends that no socket has")
    queues = int(line["received"]), int(line["queued"])
    return version, local, ports[0], remote, ports[1], _STATES.get(line["state"], NA), *queues


def sniff(head: bytes) -> Match:
    """Return "yes" for the variables of sockets, "maybe" for sockets alone or only the heading."""
    if _DETAIL.search(head):
        return "yes"
    return "maybe" if _SNIFFED.search(head) or _HEADED.search(head) else "no"


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
