"""The output of `ss -tin` in a loop, with time stamps between the outputs; -o -e -m -p -H -O are allowed.

`ss` prints no time. The time stamps of the recorder bound the time of a reading: it was made after the
previous stamp and before the next one; a stamp on the line of a socket, at its start or end, is later than
the reading. If no line names a socket (for example because of `grep`), the reader assumes one connection and
warns. Source: misc/ss.c of iproute2 (read with 6.1).
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, BinaryIO

import numpy as np

from multitracer.errors import FormatError
from multitracer.protocols.sock_diag import LAYOUT, ReadBy, TcpState
from multitracer.schemas.sender import TCP_STATE
from multitracer.tables import NA, NOT_A_TIME
from multitracer.units import BITS_PER_BYTE, NS_PER_MS, NS_PER_S
from parsers._format import Format, Match
from parsers._text.lines import DateLine, LogLines, date_at_end, date_line
from parsers._text.times import BEYOND, MOST, Rows, address, decimal, decimal_of, integer, natural, times

if TYPE_CHECKING:
    from multitracer.tables import Array, Table

# A socket's details in `ss -tin`: variables of struct tcp_info, and the meaning of absent ones.
#
# iproute2 prints a variable only if it is not 0, so a variable that is not there is 0, as long as this `ss`
# on this kernel can print it at all. Struct tcp_info only ever grew at its end: a log in which one variable
# was printed comes from a kernel and an `ss` that know those before it, too. Missing (NA) stays what `ss`
# leaves out for other reasons: a slow-start threshold of 65535 and more, a time that nobody measured yet, a
# window of an `ss` that never prints it. Source: tcp_stats_print of misc/ss.c, iproute2 3.x to 6.1.


_USERS = re.compile(r"users:\(\(.*\)\)")
"""Pattern of process names, which is removed first: they may contain text that looks like a token."""
_TIMER = re.compile(r"timer:\((\w+),([^,)]*),(\d{1,3})\)")
_NUMBER = r"\d[\d.]*(?:e[+-]?\d{1,2})?"
_TOKEN = re.compile(rf"(?<!\S)([a-z_]+):({_NUMBER})(?:/({_NUMBER}))?")
_RATE = re.compile(r"(?<!\S)(send|pacing_rate|delivery_rate) (\d[\d.]{0,20})([KMGT]?)bps")
_COOKIE = re.compile(r"(?<!\S)sk:([0-9a-f]{1,16})(?!\S)")
_SPAN = re.compile(r"(\d{1,9}(?:\.\d{1,9})?)(ms|sec|min)")
_ALGORITHM = re.compile(r"(?<!\S)([a-z][\w-]{0,14}) (?:wscale|rto):")
_LIMITED = re.compile(r"(?<!\S)app_limited(?!\S)")
_VARIABLES = re.compile(r"(?<!\S)(?:rto|rtt|mss|cwnd):\d")
_FLAGS = ("ts", "sack", "ecn", "ecnseen", "fastopen")
_POWERS = {"": 1, "K": 10**3, "M": 10**6, "G": 10**9, "T": 10**12}
_TIMERS = {"on": 1, "keepalive": 2, "timewait": 3, "persist": 4}
_SPAN_NS = {"ms": NS_PER_MS, "sec": NS_PER_S, "min": 60 * NS_PER_S}
_MOST_MS = 1e12
_MOST_PORT = 0xFFFF
_MOST_COOKIE = (1 << 64) - 1

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
"""Token of `ss` by table column, if both have the same unit."""
_MILLISECONDS = {
    "srtt_ns": "rtt",
    "min_rtt_ns": "minrtt",
    "rto_ns": "rto",
    "busy_ns": "busy",
    "rwnd_limited_ns": "rwnd_limited",
    "sndbuf_limited_ns": "sndbuf_limited",
}
COLUMNS = (
    "cookie", "congestion_control", "timer", "timer_expires_ns", "retransmits", "retransmitted_segments",
    "total_retransmitted_segments", "rttvar_ns", "delivery_rate", "app_limited", *_COUNTS, *_MILLISECONDS,
)  # fmt: skip
"""The columns of TCP_STATE that `details_of` returns, in this order."""

_PLACES = {name: place for place, (name, _) in enumerate(LAYOUT)}
_FIELD_OF = {
    "notsent": "notsent_bytes", "minrtt": "min_rtt", "delivery_rate": "delivery_rate", "busy": "busy_time",
    "rcv_ooopack": "rcv_ooopack", "pacing_rate": "pacing_rate",
}  # fmt: skip
"""Field of struct tcp_info by token, where the names differ or the token is not `name:number`."""
_PROOFS = _PLACES | {token: _PLACES[field] for token, field in _FIELD_OF.items()}
"""Position of the field in struct tcp_info, by token."""

_ZERO_ALWAYS = (
    "backoff", "unacked_segments", "sacked_segments", "lost_segments", "retransmitted_segments",
    "total_retransmitted_segments",
)  # fmt: skip
"""Columns that all versions of `ss` print with the variables, unless the value is 0."""
_ZERO_IF_KNOWN = {
    "total_acked_bytes": "bytes_acked",
    "total_received_bytes": "bytes_received",
    "notsent_bytes": "notsent_bytes",
    "app_limited": "delivery_rate",
    "busy_ns": "busy_time",
    "rwnd_limited_ns": "rwnd_limited",
    "sndbuf_limited_ns": "sndbuf_limited",
    "total_sent_bytes": "bytes_sent",
    "total_retransmitted_bytes": "bytes_retrans",
    "snd_wnd_bytes": "snd_wnd",
}
"""Newer fields of struct tcp_info, by column; if one is not printed, it is 0 only if the kernel supports it."""


def has_variables(details: str) -> bool:
    """Return whether a text contains variables from struct tcp_info."""
    return _VARIABLES.search(details) is not None


def details_of(text: str) -> tuple[tuple[object, ...], int]:
    """Return the values of `COLUMNS` in a socket's text, and the last position in struct tcp_info among them.

    A value that is no number, or too large, is BEYOND.
    """
    details = _USERS.sub(" ", text)
    tokens = {name: (value, second) for name, value, second in _TOKEN.findall(details)}
    rates = {name: decimal(value) * _POWERS[power] for name, value, power in _RATE.findall(details)}
    cookie, algorithm = _COOKIE.search(details), _ALGORITHM.search(details)
    values = (
        natural(cookie[1], base=16, most=_MOST_COOKIE) if cookie else 0,
        algorithm[1] if algorithm and algorithm[1] not in _FLAGS else "",
        *_timer(details), *_retransmitted(tokens), _ms(tokens["rtt"][1]) if "rtt" in tokens else NOT_A_TIME,
        *_delivery(details, rates),
        *(_count(tokens[t][0]) if t in tokens else NA for t in _COUNTS.values()),
        *(_ms(tokens[t][0]) if t in tokens else NOT_A_TIME for t in _MILLISECONDS.values()),
    )  # fmt: skip
    return values, max((_PROOFS[name] for name in (*tokens, *rates) if name in _PROOFS), default=-1)


def with_zeros(columns: dict[str, Array], has_info: Array, newest: int) -> dict[str, Array]:
    """Return columns of TCP_STATE with 0 for the variables that `ss` omits because they are 0.

    Parameters
    ----------
    columns : dict of str to ndarray, each of shape (n,)
        Columns by name, as `details_of` returns them, and `send_queue_bytes`.
    has_info : ndarray of bool, shape (n,)
        Whether a row has variables from struct tcp_info.
    newest : int
        The highest position in struct tcp_info that `details_of` found in the log.

    Returns
    -------
    dict of str to ndarray, each of shape (n,)
        The columns; NA where a variable remains unknown.
    """
    known = [name for name, field in _ZERO_IF_KNOWN.items() if newest >= _PLACES[field]]
    zeros = {name: _zero(columns[name], has_info) for name in (*_ZERO_ALWAYS, *known)}
    if "notsent_bytes" not in zeros:
        # An `ss` that may be too old to print it: all that is queued is outstanding, or nobody can tell.
        outstanding = times(zeros["unacked_segments"], columns["snd_mss_bytes"])
        queued = columns["send_queue_bytes"]
        zeros["notsent_bytes"] = _zero(
            columns["notsent_bytes"], has_info & (queued != NA) & (queued <= np.maximum(outstanding, 0))
        )
    return columns | zeros


def _zero(values: Array, where: Array) -> Array:
    missing = (values == NA) | (values == NOT_A_TIME)
    return np.where(missing & where, 0, values)


def _timer(details: str) -> tuple[int, int, int]:
    """Return the running timer, its remaining time, and the number of consecutive retransmission timeouts."""
    match = _TIMER.search(details)
    if match is None:
        return NA, NOT_A_TIME, NA
    kind = _TIMERS.get(match[1], NA)
    expires = sum(_span_ns(number, unit) for number, unit in _SPAN.findall(match[2]))
    return kind, expires, integer(match[3]) if match[1] == "on" else NA


def _span_ns(number: str, unit: str) -> int:
    """Return a duration of `ss` in ns; `ss` prints 4.5 seconds as "4.500ms"."""
    unit_ns = NS_PER_S if "." in number else _SPAN_NS[unit]
    return round((decimal_of(number) or 0.0) * unit_ns)


def _retransmitted(tokens: dict[str, tuple[str, str]]) -> tuple[int, int]:
    now, total = tokens.get("retrans", ("", ""))
    return (_count(now), _count(total)) if now and total else (NA, NA)


def _delivery(details: str, rates: dict[str, float]) -> tuple[int, int]:
    """Return the delivery rate in bytes/s, and whether the application limited it."""
    limited = 1 if _LIMITED.search(details) else NA
    return _within(rates["delivery_rate"] / BITS_PER_BYTE, MOST) if "delivery_rate" in rates else NA, limited


def _count(text: str) -> int:
    return _within(decimal_of(text), MOST)


def _ms(text: str) -> int:
    if not text:
        return NOT_A_TIME
    value = decimal_of(text)
    return round(value * NS_PER_MS) if value is not None and value < _MOST_MS else BEYOND


def _within(value: float | None, most: int) -> int:
    """Return the whole part of a number; BEYOND if there is none, or it is above `most`."""
    return int(value) if value is not None and value <= most else BEYOND


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
"""Values of endpoints, state and queues for a socket whose own line is not in the log."""
_ONE_ASSUMED = "no line names a socket; all readings are assumed to be of one connection"
_DAY_NS = 86_400 * NS_PER_S


@dataclass(slots=True)
class _Block:
    """One socket, from its own line to the last of its details."""

    line: re.Match[str] | None
    """The line of the socket; None if only its variables were recorded."""
    stamp: int
    """Number of time stamps before the socket, including its own."""
    details: str
    stamped_itself: bool = False


@dataclass(slots=True)
class _Log:
    """Reads the lines of a log, and collects the rows."""

    lines: LogLines
    rows: Rows = field(default_factory=lambda: Rows(TCP_STATE, _COLUMNS))
    stamps: list[tuple[int, int]] = field(default_factory=list)
    """Time and resolution of each stamp in ns; NOT_A_TIME and 0 if its date cannot be."""
    last_ns: int = NOT_A_TIME
    blocks: list[tuple[int, bool, bool, bool]] = field(default_factory=list)
    """For each row: number of stamps before it, and whether it has its own stamp, a name, variables."""
    newest: int = -1
    pending: _Block | None = None
    idle: int = 0
    days: int = 0

    def take(self, text: str) -> None:
        """Read one line."""
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
            self.lines.skip("neither a socket nor a time")

    def _lacks_variables(self) -> bool:
        """Return whether the variables of the current socket have not been read yet."""
        return self.pending is not None and not has_variables(self.pending.details)

    def _stamp(self, stamp: DateLine, *, alone: bool) -> None:
        if alone:
            self.flush()
        if stamp.caveat:
            self.lines.warn(stamp.caveat)
        time_ns = self.lines.time_of(stamp)
        if time_ns is None:
            self.stamps.append((NOT_A_TIME, 0))
            return
        time_ns += self.days * _DAY_NS
        if not stamp.has_day and time_ns < self.last_ns - _DAY_NS // 2:
            self.days += 1  # past midnight
            time_ns += _DAY_NS
        self.last_ns = time_ns
        self.stamps.append((time_ns, stamp.resolution_ns))

    def flush(self) -> None:
        """Add the current socket as a row."""
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
            self.lines.skip("the address or port of a socket is not numeric; record with `ss -n`")
            return
        self.newest = max(self.newest, newest)
        self.blocks.append((block.stamp, block.stamped_itself, block.line is not None, has_variables(block.details)))

    def table(self, path: str) -> Table:
        """Return the readings; the time of each lies between two time stamps."""
        stamp, itself, named, has_info = np.array(self.blocks, dtype=np.int64).reshape(-1, 4).T
        collected = self.rows.columns()
        columns = with_zeros(collected, has_info.astype(bool), self.newest)
        for name, rows in self.rows.unusable.items():
            columns[name][rows] = collected[name][rows]  # they were printed: not 0
        columns |= self._times(stamp, itself.astype(bool))
        columns["method"] = np.full(len(self.blocks), ReadBy.SS, dtype=np.uint8)
        columns["cwnd_bytes"] = times(columns["cwnd_segments"], columns["snd_mss_bytes"])
        columns["ssthresh_bytes"] = times(columns["ssthresh_segments"], columns["snd_mss_bytes"])
        columns["flight_bytes"] = times(columns["unacked_segments"], columns["snd_mss_bytes"])
        if not self.stamps:
            self.lines.warn("the log has no timestamps; add `date +%s.%N` before `ss` to the loop that records the log")
        whose = self._is_known(stamp, itself.astype(bool), named.astype(bool))
        provenance = self.lines.provenance(
            path, FORMAT.name, stamps=len(self.stamps), sockets_without_variables=self.idle
        )
        return self.rows.table(provenance, {name: values[whose] for name, values in columns.items()})

    def _is_known(self, stamp: Array, itself: Array, named: Array) -> Array:
        """Return which readings belong to a known socket, or to the only socket; count all others."""
        if named.any():
            self.lines.skip("variables without a preceding line of their socket", int((~named).sum()))
            return named
        between = np.bincount(stamp[~itself], minlength=len(self.stamps) + 1)
        several = ~itself & (between[stamp] > 1) & bool(self.stamps)
        self.lines.skip("variables of one of several sockets, without the line of the socket", int(several.sum()))
        if not several.all():
            self.lines.warn(_ONE_ASSUMED)
        return ~several

    def _times(self, before: Array, itself: Array) -> dict[str, Array]:
        """Return the three time columns; time stamps precede sockets, unless the log begins with a socket."""
        stamps, coarse = np.array([(NOT_A_TIME, 0), *self.stamps, (NOT_A_TIME, 0)], dtype=np.int64).T
        follow = bool(len(before)) and before[0] == 0
        after = np.where(itself, before, before + 1)
        chosen = np.where(itself | follow, after, before)
        return {
            "time_ns": stamps[chosen] + coarse[chosen] // 2,
            "read_before_ns": np.where(itself, NOT_A_TIME, stamps[before]),
            "read_after_ns": stamps[after] + coarse[after],
        }


def _of_socket(text: str) -> bool:
    """Return whether a text is the line of a socket, or a line of its details."""
    return bool(_SOCKET.fullmatch(text) or _HEADING.match(text) or _DETAILS.search(text))


def _endpoints(line: re.Match[str] | None) -> tuple[object, ...]:
    """Return endpoints, state and queues of a socket; raise ValueError if one is not valid."""
    if line is None:
        return _NOBODY
    (version, local), (other, remote) = address(line["local"]), address(line["remote"])
    ports = [_port(line[f"port_{side}"]) for side in ("local", "remote")]
    if version != other:
        raise ValueError("the IP addresses of the two endpoints are not of one version")
    queues = natural(line["received"]), natural(line["queued"])
    return version, local, ports[0], remote, ports[1], _STATES.get(line["state"], NA), *queues


def _port(text: str) -> int:
    """Return a port, BEYOND if it is no port; raise ValueError if it is a name."""
    if not text.lstrip("-").isdecimal():
        raise ValueError("the port is a name")
    port = integer(text)
    return port if 0 <= port <= _MOST_PORT else BEYOND


def sniff(head: bytes) -> Match:
    """Return "yes" for sockets with variables, "maybe" for sockets without variables or only the heading."""
    if _DETAIL.search(head):
        return "yes"
    return "maybe" if _SNIFFED.search(head) or _HEADED.search(head) else "no"


def parse(stream: BinaryIO, *, path: str) -> dict[str, Table]:
    """Return the table `tcp_state`.

    Raises
    ------
    FormatError
        If the log contains no socket.
    """
    lines = LogLines(stream)
    log = _Log(lines)
    for text in lines:
        log.take(text)
    if not lines.cut.startswith((b" ", b"\t")):  # else its details were cut
        log.flush()
    if not (log.rows or log.idle):
        raise FormatError(path, "no line of the file is a TCP socket in the format of ss")
    return {"tcp_state": log.table(path)}


FORMAT = Format(
    name="ss",
    layer="tcp",
    description="variables of TCP senders, recorded with `ss -tin` in a loop",
    source="misc/ss.c of iproute2; ss(8)",
    sniff=sniff,
    parse=parse,
)
