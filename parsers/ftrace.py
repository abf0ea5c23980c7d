"""Text of the kernel's TCP trace points: tcp_probe, tcp_retransmit_skb, tcp_cong_state_set.

Reads `trace_pipe` and `trace` of ftrace, `trace-cmd report` and `perf script`, of old kernels (4.16) and new;
fields are found by name, because they came and went. The log of `collectors.tcp_probe` also carries clock
records, which place it on the wall clock; without them the times are the trace clock's own. Source:
include/trace/events/tcp.h of Linux, Documentation/trace/ftrace.rst.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import TYPE_CHECKING, BinaryIO

import numpy as np

from multitracer.errors import FormatError
from multitracer.protocols.sock_diag import INFINITE_SSTHRESH, ReadBy, TcpEvent, TcpState
from multitracer.schemas.sender import TCP_EVENTS, TCP_STATE
from multitracer.tables import NA, NOT_A_TIME
from multitracer.units import NS_PER_US
from parsers._format import Format, Match
from parsers._text.collector_log import ClockPairs
from parsers._text.lines import LogLines
from parsers._text.times import MOST, Rows, address, decimal_ns, integer, natural, parsed_json

if TYPE_CHECKING:
    from collections.abc import Mapping

    from multitracer.tables import Table

_COMMENT = "# multitracer "
_FORMAT = "multitracer-tcp-probe"
_KINDS = ("header", "clock", "end")
_EVENT = re.compile(
    r"\[\d{3,}\]\s+(?:\S+\s+)?(?P<s>\d+)\.(?P<fraction>\d{6,9}):\s+(?:\w+:)?(?P<name>\w+):\s*(?P<fields>.*)"
)
"""Processor, flags (not all tools print them), time, event; before it a name that may hold anything."""
_FIELD = re.compile(r"(\w+)=(\S+)")
_LOST = re.compile(r"\[LOST (\d+) EVENTS\]")
_END = re.compile(r"(.*):(\d+)")
_SNIFFED = re.compile(rb"\[\d{3,}\][^\n]*\d\.\d{6,9}:\s+(?:tcp:)?tcp_(?:probe|retransmit_skb|cong_state_set):")

_ENDS = ("ip_version", "address_local", "port_local", "address_remote", "port_remote")
_PROBED = (
    "time_ns", *_ENDS, "cookie", "cwnd_segments", "ssthresh_segments", "srtt_ns", "snd_una", "snd_nxt",
    "flight_bytes", "snd_wnd_bytes", "rcv_wnd_bytes", "received_bytes",
)  # fmt: skip
_MOST_OTHER_EVENTS = 100
_SEQUENCE = 1 << 32
_ROUNDING_NS = 500
"""ftrace prints microseconds, rounded."""


class _Log:
    """The totals of the lines read so far."""

    def __init__(self, path: str, lines: LogLines) -> None:
        self.path = path
        self.lines = lines
        self.comments: dict[str, dict[str, object]] = {}
        self.pairs = ClockPairs()
        self.probes = Rows(TCP_STATE, _PROBED)
        self.events = Rows(TCP_EVENTS, ("time_ns", "event", *_ENDS, "state", "ca_state", "left_host"))
        self.lost = 0
        self.other: dict[str, int] = {}

    def take(self, text: str) -> None:
        """Use one line, or count why it could not be used."""
        if text.startswith(_COMMENT):
            self._comment(text.removeprefix(_COMMENT))
        elif match := _EVENT.search(text):
            self._event(match)
        elif match := _LOST.search(text):
            self.lost += min(integer(match[1]), MOST)
        elif text.strip() and not text.startswith("#"):
            self.lines.skip("not an event")

    def _comment(self, text: str) -> None:
        record = parsed_json(text)
        if not isinstance(record, dict):
            self.lines.skip("not a record of our collector")
            return
        kind = record.get("kind")
        if kind in _KINDS:
            self.comments[kind] = record
        if kind == "clock" and not self.pairs.add(record):
            self.lines.skip("a clock reading has invalid values")

    def _event(self, match: re.Match[str]) -> None:
        use = {
            "tcp_probe": self._probe,
            "tcp_retransmit_skb": self._retransmission,
            "tcp_cong_state_set": self._ca_state,
        }.get(match["name"])
        if use is None:
            if match["name"] in self.other or len(self.other) < _MOST_OTHER_EVENTS:
                self.other[match["name"]] = self.other.get(match["name"], 0) + 1
            return
        try:
            use(decimal_ns(match["s"], match["fraction"]), dict(_FIELD.findall(match["fields"])))
        except (KeyError, ValueError):
            self.lines.skip("an event has invalid fields")

    def _probe(self, time_ns: int, fields: Mapping[str, str]) -> None:
        ends = _pair(fields["src"], fields["dest"])
        nxt, una = (natural(fields[name], base=16, most=_SEQUENCE - 1) for name in ("snd_nxt", "snd_una"))
        srtt, ssthresh = _natural(fields["srtt"]), _natural(fields["ssthresh"])
        self.probes.append(
            time_ns,
            *ends,
            natural(fields.get("sock_cookie", "0"), base=16, most=(1 << 64) - 1),
            _natural(fields["snd_cwnd"]),
            NA if ssthresh >= INFINITE_SSTHRESH else ssthresh,
            srtt * NS_PER_US if srtt else NOT_A_TIME,
            una,
            nxt,
            (nxt - una) % _SEQUENCE,
            _natural(fields["snd_wnd"]),
            _natural(fields["rcv_wnd"]) if "rcv_wnd" in fields else NA,
            _natural(fields.get("data_len") or fields["length"]),
        )

    def _retransmission(self, time_ns: int, fields: Mapping[str, str]) -> None:
        state = fields.get("state", "").removeprefix("TCP_")
        number = TcpState[state] if state in TcpState.__members__ else NA
        left = NA if "err" not in fields else int(fields["err"] == "0")
        self.events.append(time_ns, TcpEvent.RETRANSMISSION, *_socket(fields), number, NA, left)

    def _ca_state(self, time_ns: int, fields: Mapping[str, str]) -> None:
        state = _natural(fields["cong_state"])
        self.events.append(time_ns, TcpEvent.CA_STATE, *_socket(fields), NA, state, NA)

    def tables(self) -> dict[str, Table]:
        """Return both tables, on the wall clock where the log's clock records place them."""
        provenance = self.lines.provenance(
            self.path,
            FORMAT.name,
            header=self.comments.get("header", {}),
            clock=self.pairs.facts(),
            ended=self.comments.get("end", {}).get("reason"),
            lost_events=self.lost,
            lost_in_buffers=self.comments.get("clock", {}).get("lost"),
            other_events=self.other,
        )
        probes, events = self.probes.columns(), self.events.columns()
        for columns in (probes, events):
            columns["time_ns"] = self.pairs.place(columns["time_ns"])
        probes["read_before_ns"] = probes["time_ns"] - _ROUNDING_NS
        probes["read_after_ns"] = probes["time_ns"] + _ROUNDING_NS
        probes["method"] = np.full(len(probes["time_ns"]), ReadBy.TCP_PROBE, dtype=np.uint8)
        probes["state"] = np.full(len(probes["time_ns"]), TcpState.ESTABLISHED)
        return {"tcp_state": self.probes.table(provenance, probes), "tcp_events": self.events.table(provenance, events)}


def _natural(text: str) -> int:
    return natural(text, most=_SEQUENCE - 1)


def _end(text: str) -> tuple[str, str]:
    match = _END.fullmatch(text)
    if match is None:
        raise ValueError(f"{text!r} must be an IP address and a port")
    return match[1], match[2]


@lru_cache(maxsize=1024)
def _pair(source: str, destination: str) -> tuple[object, ...]:
    """Return both ends of a probe; nearly all lines of a log are of a few connections."""
    return _endpoints(_end(source), _end(destination))


def _socket(fields: Mapping[str, str]) -> tuple[object, ...]:
    """Return both ends of an event's socket; the IPv6 form holds IPv4 addresses, too (mapped)."""
    kind = "" if fields.get("family") == "AF_INET" else "v6"
    local, remote = (fields.get(f"{end}addr{kind}") or fields[f"{end}addr"] for end in "sd")
    return _endpoints((local, fields["sport"]), (remote, fields["dport"]))


def _endpoints(local: tuple[str, str], remote: tuple[str, str]) -> tuple[object, ...]:
    (version, here), (other, there) = address(local[0]), address(remote[0])
    ports = natural(local[1], most=0xFFFF), natural(remote[1], most=0xFFFF)
    if version != other:
        raise ValueError("the IP addresses of the two endpoints are not of one version")
    return version, here, ports[0], there, ports[1]


def sniff(head: bytes) -> Match:
    """Return "yes" for our collector's log and for text with one of the events, "maybe" for other ftrace."""
    if head.startswith(b"# multitracer {") and _FORMAT.encode() in head.partition(b"\n")[0]:
        return "yes"
    if _SNIFFED.search(head):
        return "yes"
    return "maybe" if head.startswith(b"# tracer:") else "no"


def parse(stream: BinaryIO, *, path: str) -> dict[str, Table]:
    """Return `tcp_state`, from tcp_probe, and `tcp_events`.

    Raises
    ------
    FormatError
        If no line is an event or a record of our collector.
    """
    lines = LogLines(stream)
    log = _Log(path, lines)
    for text in lines:
        log.take(text)
    if not (log.comments or log.probes or log.events or log.other):
        raise FormatError(path, "no line of the file is an event of ftrace")
    return log.tables()


FORMAT = Format(
    name="ftrace",
    layer="tcp",
    description="trace points of Linux TCP as text: tcp_probe, retransmissions, congestion states",
    source="include/trace/events/tcp.h of Linux; Documentation/trace/ftrace.rst",
    sniff=sniff,
    parse=parse,
)
