"""Records packets with scapy, where tcpdump is missing: slower, it loses packets above some 1,000 a second.

The capture is a pcap with headers only; scapy stamps to the microsecond. Needs root (CAP_NET_RAW).
"""

from __future__ import annotations

import select
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from collectors._collector import Collector
from collectors._log import Log, clock_reading
from collectors._options import header, parser, run
from collectors._stop import Stop
from collectors.tcpdump import SNAP_BYTES
from multitracer.errors import CollectorError, PreflightError
from multitracer.protocols.pcap_file import pcap_header, pcap_record
from multitracer.units import NS_PER_MS, NS_PER_S

if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence

_LOOK_NS = 20 * NS_PER_MS
_ALL = 262_144


def _socket(interface: str, expression: str) -> Any:
    """Return scapy's socket for an interface."""
    from scapy.all import conf

    try:
        return conf.L2listen(iface=None if interface == "any" else interface, filter=expression or None)
    except PermissionError as error:
        fix = f"sudo {sys.executable} -m multitracer capture"
        raise PreflightError(f"packets: {error.strerror}; `{fix}` may capture them") from error
    except Exception as error:  # scapy raises Scapy_Exception, OSError and others for one thing
        raise CollectorError(f"{interface}: scapy cannot open it: {error}; check name and filter") from error


def _link_type(link: Any) -> int:
    from scapy.all import conf

    return int(conf.l2types.layer2num.get(getattr(link, "LL", None), 1))


def _record(chosen: argparse.Namespace, link: Any, stop: Stop, notes: Log) -> None:
    packets = clock_ns = 0
    with Log(chosen.output) as capture:
        capture.write(pcap_header(link_type=_link_type(link), snap_bytes=chosen.snap or _ALL))
        while stop.wait(time.monotonic_ns() + _LOOK_NS):
            while select.select([link], [], [], 0)[0]:
                _, data, stamp = link.recv_raw(_ALL)
                if data:
                    time_ns = round(float(stamp) * NS_PER_S) if stamp else time.time_ns()
                    capture.write(pcap_record(data, time_ns=time_ns, snap_bytes=chosen.snap or _ALL))
                    packets += 1
            if time.monotonic_ns() >= clock_ns:
                clock_ns = time.monotonic_ns() + NS_PER_S
                notes.record(kind="clock", **clock_reading(), captured=packets)
    notes.record(kind="end", reason=stop.reason, captured=packets)


def main(argv: Sequence[str]) -> None:
    """Record until told to stop."""
    options = parser(__doc__)
    options.add_argument("-i", "--interface", default="any", help="default: any")
    options.add_argument("--filter", default="tcp", help="in the language of pcap-filter(7)")
    options.add_argument(
        "--snap", type=int, default=SNAP_BYTES, help=f"bytes of each packet; default {SNAP_BYTES}"
    )
    options.add_argument("--notes", type=Path, metavar="LOG", help="a new file; default: standard output")
    chosen = options.parse_args(argv)
    link = _socket(chosen.interface, chosen.filter)
    with (
        Stop(duration_ns=chosen.duration, outlive_parent=chosen.outlive_parent, tags=chosen.tags) as stop,
        Log(chosen.notes) as notes,
    ):
        notes.record(
            **header("multitracer-sniffer", chosen, interface=chosen.interface, filter=chosen.filter)
        )
        stop.on_tag = notes.clap
        try:
            _record(chosen, link, stop, notes)
        finally:
            link.close()


def check() -> None:
    """Raise PreflightError if scapy is missing or may not open a socket."""
    try:
        import scapy.all  # noqa: F401
    except ImportError as error:
        raise PreflightError("scapy: not installed; pip install 'multitracer[field]'") from error
    try:
        _socket("any", "").close()
    except CollectorError as error:
        raise PreflightError(str(error)) from error


COLLECTOR = Collector(
    name="sniffer",
    layer="packet",
    description="packets, with scapy: where tcpdump is missing; slower",
    log_format="pcap",
    suffix=".pcap",
    check=check,
)

if __name__ == "__main__":
    run(main)
