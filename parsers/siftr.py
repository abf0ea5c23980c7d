"""FreeBSD's siftr(4): the state of a TCP sender at each packet, in bytes.

There are three layouts: 1.2.2 and 1.2.3 (25 fields), 1.2.4 (28), 1.3.0 (27, no hash). RTT and timeout are in ticks if
the first line has `hz` and `tcp_rtt_scale`, else in microseconds. A line with direction `i` has the state before an
incoming packet, a line with `o` the state when a packet is sent. Source: sys/netinet/siftr.c of FreeBSD.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, BinaryIO

import numpy as np

from multitracer.errors import FormatError
from multitracer.protocols.sock_diag import ReadBy, TcpState
from multitracer.schemas.sender import TCP_STATE
from multitracer.tables import NA, NOT_A_TIME
from multitracer.units import NS_PER_S, NS_PER_US
from parsers._format import Format, Match
from parsers._text.lines import LogLines
from parsers._text.times import Rows, address, decimal_ns, natural, nearest

if TYPE_CHECKING:
    from collections.abc import Sequence

    from multitracer.tables import Table

_INFINITE_SSTHRESH = 65535 << 14
_FIELDS_WITH_HASH = (25, 28)
_FIELDS_WITHOUT_HASH = (27,)
_STATES = (
    TcpState.CLOSE, TcpState.LISTEN, TcpState.SYN_SENT, TcpState.SYN_RECV, TcpState.ESTABLISHED,
    TcpState.CLOSE_WAIT, TcpState.FIN_WAIT1, TcpState.CLOSING, TcpState.LAST_ACK, TcpState.FIN_WAIT2,
    TcpState.TIME_WAIT,
)  # fmt: skip
"""TCP states by their number in FreeBSD (tcp_fsm.h)."""
_COLUMNS = (
    "time_ns", "ip_version", "address_local", "port_local", "address_remote", "port_remote",
    "ssthresh_bytes", "cwnd_bytes", "snd_wnd_bytes", "rcv_wnd_bytes", "state", "snd_mss_bytes", "srtt_ns",
    "rto_ns", "send_queue_bytes", "receive_queue_bytes", "flight_bytes",
)  # fmt: skip
_DATA = re.compile(r"[io],(?:0x[0-9a-f]{8},)?(\d{1,10})\.(\d{6}),")
_SNIFFED = re.compile(rb"(?m)^[io],(?:0x[0-9a-f]{8},)?\d{9,10}\.\d{6},[0-9a-f.:]+,\d+,[0-9a-f.:]+,\d+,")
_MOST = 1 << 40
_MOST_FACTS = 100


@dataclass(frozen=True, slots=True)
class _Units:
    """The unit of the fields srtt and RTO, None if the log does not state it."""

    srtt_ns: float | None
    rto_ns: float | None


class _Log:
    """Reads the lines of a log, and collects the rows."""

    def __init__(self, lines: LogLines) -> None:
        self.lines = lines
        self.rows = Rows(TCP_STATE, _COLUMNS)
        self.facts: dict[str, str] = {}
        self.units = _Units(None, None)

    def take(self, text: str) -> None:
        """Read one line, or count it as unusable by reason."""
        if text.startswith(("enable_time_secs=", "disable_time_secs=")):
            self._facts(text)
        elif not _DATA.match(text):
            self.lines.skip("not a packet, first or last line of siftr")
        else:
            fields = text.split(",")
            try:
                self.rows.append(*_values(fields, self.units))
            except ValueError:
                self.lines.skip("a packet has invalid fields")

    def _facts(self, text: str) -> None:
        pairs = (pair.partition("=") for pair in text.split("\t"))
        for key, _, value in pairs:
            if key in self.facts or len(self.facts) < _MOST_FACTS:
                self.facts[key[:40]] = value[:4096]
        if text.startswith("enable"):
            self.units = _units(self.facts)

    def table(self, path: str) -> Table:
        """Return the readings."""
        columns = self.rows.columns()
        columns["read_before_ns"] = columns["read_after_ns"] = columns["time_ns"]
        columns["method"] = np.full(len(self.rows), ReadBy.SIFTR, dtype=np.uint8)
        if self.rows and self.units.srtt_ns is None:
            self.lines.warn("the first line of the log is missing, so the units of srtt and RTO are unknown")
        return self.rows.table(self.lines.provenance(path, FORMAT.name, facts=self.facts), columns)


def _units(facts: dict[str, str]) -> _Units:
    if "hz" not in facts:
        return _Units(NS_PER_US, NS_PER_US)
    try:
        hz, scale = natural(facts["hz"]), natural(facts.get("tcp_rtt_scale", "32"))
        return _Units(NS_PER_S / (hz * scale), NS_PER_S / hz)
    except (ValueError, ZeroDivisionError):
        return _Units(None, None)


def _values(fields: Sequence[str], units: _Units) -> tuple[object, ...]:
    """Return the values of `_COLUMNS`; raise ValueError if one is not valid."""
    if len(fields) in _FIELDS_WITH_HASH:
        fields = [fields[0], *fields[2:]]
    elif len(fields) not in _FIELDS_WITHOUT_HASH:
        raise ValueError(f"the line has {len(fields)} fields, which is not a number of fields that siftr writes")
    seconds, _, fraction = fields[1].partition(".")
    (version, local), (other, remote) = address(fields[2]), address(fields[4])
    ports = natural(fields[3], most=0xFFFF), natural(fields[5], most=0xFFFF)
    if version != other:
        raise ValueError("the IP addresses of the two endpoints are not of one version")
    numbers = [natural(field, most=_MOST) for field in fields[6:24]]
    ssthresh, cwnd, _, snd_wnd, rcv_wnd, _, _, state, mss, srtt, _, _, rto = numbers[:13]
    _, unsent, _, unread, flight = numbers[13:]
    return (
        decimal_ns(seconds, fraction), version, local, ports[0], remote, ports[1],
        NA if ssthresh >= _INFINITE_SSTHRESH else ssthresh, cwnd, snd_wnd, rcv_wnd,
        _STATES[state] if state < len(_STATES) else NA, mss,
        _span(srtt, units.srtt_ns), _span(rto, units.rto_ns), unsent, unread, flight,
    )  # fmt: skip


def _span(steps: int, step_ns: float | None) -> int:
    return NOT_A_TIME if step_ns is None or steps == 0 else nearest(steps * step_ns)


def sniff(head: bytes) -> Match:
    """Return "yes" for a log with siftr's first line, "maybe" for packet lines without it."""
    if head.startswith(b"enable_time_secs=") and b"siftrver=" in head.partition(b"\n")[0]:
        return "yes"
    return "maybe" if _SNIFFED.search(head) else "no"


def parse(stream: BinaryIO, *, path: str) -> dict[str, Table]:
    """Return the table `tcp_state`.

    Raises
    ------
    FormatError
        If the log contains no packet line of siftr.
    """
    lines = LogLines(stream)
    log = _Log(lines)
    for text in lines:
        log.take(text)
    if not (log.rows or log.facts):
        raise FormatError(path, "no line of the file has the format of siftr")
    return {"tcp_state": log.table(path)}


FORMAT = Format(
    name="siftr",
    layer="tcp",
    description="variables of FreeBSD's TCP at each packet, recorded by siftr(4)",
    source="sys/netinet/siftr.c of FreeBSD, 1.2.2 to 1.3.0; siftr(4)",
    sniff=sniff,
    parse=parse,
)
