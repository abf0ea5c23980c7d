"""The real tcptrace and tshark, run on a capture and read back."""

from __future__ import annotations

import csv
import subprocess
from dataclasses import dataclass
from ipaddress import ip_address
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

TIMEOUT_S = 60
_TCPTRACE_COUNTS = {
    "rexmt_data_pkts": "retransmitted_segments",
    "rexmt_data_bytes": "retransmitted_bytes",
    "outoforder_pkts": "out_of_order",
    "total_packets": "packets",
    "actual_data_bytes": "payload_bytes",
    "actual_data_pkts": "data_segments",
    "hardware_dups": "capture_duplicates",
    "zwnd_probe_pkts": "zero_window_probes",
}

End = tuple[str, int]


@dataclass(frozen=True)
class Reference:
    """One connection as another tool sees it."""

    ends: tuple[End, End]
    counts: tuple[dict[str, int], dict[str, int]]
    """What the first end sent, and what the second sent."""


def end(host: str, port: str | int) -> End:
    """Return an endpoint; an address in its shortest form (tcptrace writes ::1 as :0001)."""
    return str(ip_address("::" + host[1:] if host[:1] == ":" != host[1:2] else host)), int(port)


def tcptrace(path: Path) -> list[Reference]:
    """Return every connection as tcptrace counts it; empty where it does not read the file."""
    done = subprocess.run(
        ["tcptrace", "-l", "-n", "--csv", str(path)], capture_output=True, timeout=TIMEOUT_S, check=False
    )
    lines = done.stdout.decode("latin-1").splitlines()
    header = next((i for i, line in enumerate(lines) if line.startswith("conn_#")), None)
    if header is None:
        return []
    rows = csv.DictReader([lines[header], *(line for line in lines[header + 1 :] if line[:1].isdigit())])
    return [_tcptrace_row(row) for row in rows]


def _tcptrace_row(row: dict[str, str]) -> Reference:
    ends = end(row["host_a"].strip(), row["port_a"]), end(row["host_b"].strip(), row["port_b"])
    counts = [
        {ours: int(row[f"{theirs}_{way}"]) for theirs, ours in _TCPTRACE_COUNTS.items()} for way in ("a2b", "b2a")
    ]
    return Reference(ends, (counts[0], counts[1]))


_FIELDS = (
    "frame.protocols",
    "tcp.stream",
    "tcp.srcport",
    "tcp.dstport",
    "tcp.len",
    "ip.src",
    "ip.dst",
    "ipv6.src",
    "ipv6.dst",
)


def tshark(path: Path) -> list[Reference]:
    """Return every connection as tshark tells streams apart, with packets and payload bytes each way."""
    command = ["tshark", "-n", "-r", str(path), "-Y", "tcp && !icmp && !icmpv6", "-T", "fields"]
    for field in _FIELDS:
        command += ["-e", field]
    done = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_S, check=False)
    streams: dict[str, Reference] = {}
    for line in done.stdout.splitlines():
        stream, ends, payload = _tshark_row(line)
        counts = {"packets": 0, "payload_bytes": 0}
        reference = streams.setdefault(stream, Reference(ends, (counts, dict(counts))))
        way = reference.counts[0 if ends == reference.ends else 1]
        way["packets"] += 1
        way["payload_bytes"] += payload
    return list(streams.values())


def _tshark_row(line: str) -> tuple[str, tuple[End, End], int]:
    """Return stream, ends and payload of the outermost TCP header of a packet."""
    protocols, *fields = line.split("\t")
    stream, sport, dport, length, *addresses = (field.split(",") for field in fields)
    outside = protocols.split(":")[: protocols.split(":").index("tcp")]
    layers = [layer for layer in outside if layer in ("ip", "ipv6")]
    sources, targets = addresses[:2] if layers[-1] == "ip" else addresses[2:]
    nth = layers.count(layers[-1]) - 1
    return stream[0], (end(sources[nth], sport[0]), end(targets[nth], dport[0])), int(length[0] or 0)
