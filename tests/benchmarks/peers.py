"""The programs that are compared, as command lines, and the three that need a few lines of Python.

`python -m tests.benchmarks.peers scapy|pandas|netflower CAPTURE` runs those three.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

_FIELDS = (
    "frame.time_epoch", "ip.src", "ip.dst", "tcp.srcport", "tcp.dstport", "tcp.seq_raw", "tcp.ack_raw",
    "tcp.len", "tcp.flags", "tcp.window_size_value", "tcp.options.timestamp.tsval",
    "tcp.options.timestamp.tsecr", "tcp.stream", "tcp.analysis.retransmission",
)  # fmt: skip


def multitracer(*words: str) -> list[str]:
    """Return our command as a user types it."""
    return [str(Path(sys.executable).with_name("multitracer")), *words]


def tcptrace(capture: Path) -> list[str]:
    """Return tcptrace's long summary of every connection."""
    return ["tcptrace", "-l", "-n", str(capture)]


def tshark_conversations(capture: Path) -> list[str]:
    """Return tshark's table of TCP conversations."""
    return ["tshark", "-n", "-q", "-z", "conv,tcp", "-r", str(capture)]


def pcap_toolkit(capture: Path) -> list[str]:
    """Return the packets and bytes of every flow by pcap-toolkit, a program in Rust."""
    return ["pcap-toolkit", "stats", str(capture)]


def netflower(capture: Path) -> list[str]:
    """Return what writes the features of every flow by netflower, a package in Python."""
    return [sys.executable, "-m", "tests.benchmarks.peers", "netflower", str(capture)]


def tshark_to_pandas(capture: Path) -> list[str]:
    """Return what analysts write to have the packets in pandas."""
    return [sys.executable, "-m", "tests.benchmarks.peers", "pandas", str(capture)]


def scapy(capture: Path) -> list[str]:
    """Return a loop over the packets with scapy."""
    return [sys.executable, "-m", "tests.benchmarks.peers", "scapy", str(capture)]


def _read_with_pandas(capture: str) -> None:
    import pandas as pd

    argv = ["tshark", "-n", "-r", capture, "-T", "fields", "-E", "separator=,", "-E", "occurrence=f"]
    for field in _FIELDS:
        argv += ["-e", field]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as tshark:
        assert tshark.stdout is not None
        print(len(pd.read_csv(tshark.stdout, names=_FIELDS, low_memory=False)))


def _read_with_scapy(capture: str) -> None:
    from scapy.layers.inet import IP, TCP
    from scapy.utils import PcapReader

    rows = []
    with PcapReader(capture) as packets:
        for packet in packets:
            ip, tcp = packet[IP], packet[TCP]
            rows.append((packet.time, ip.src, ip.dst, tcp.sport, tcp.dport, tcp.seq, tcp.ack, ip.len,
                         tcp.flags, tcp.window))  # fmt: skip
    print(len(rows))


def _convert_with_netflower(capture: str) -> None:
    from netflower import convert_pcap_to_csv

    convert_pcap_to_csv(capture, os.devnull)


if __name__ == "__main__":
    readers = {"pandas": _read_with_pandas, "scapy": _read_with_scapy, "netflower": _convert_with_netflower}
    readers[sys.argv[1]](sys.argv[2])
