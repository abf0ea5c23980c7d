"""Records `sample_traces/load`: iperf3 over the loopback with a capture of it, and pings of flent.

    python -m sample_traces.recording.load FOLDER

It needs iperf3, tcpdump, flent and fping, and may capture. What names the machine is taken out: the kernel
and the name of the host in iperf3's and flent's documents, and flent's facts about its interfaces.
"""

from __future__ import annotations

import gzip
import json
import signal
import subprocess
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory

_PORT = 5201
_SNAPPED = 96
"""Bytes kept of a packet: its headers."""
_TEST = """
AGGREGATOR = 'timeseries'
DESCRIPTION = 'Ping'
DEFAULTS = {'PLOT': 'ping'}
TOTAL_LENGTH = LENGTH
DATA_SETS = o([('Ping (ms) ICMP', {'ip_version': IP_VERSION, 'interval': STEP_SIZE, 'length': LENGTH,
    'host': HOST, 'units': 'ms', 'runner': 'ping'})])
PLOTS = o([('ping', {'description': 'Ping', 'type': 'timeseries', 'axis_labels': ['Latency (ms)'],
    'series': [{'data': 'Ping (ms) ICMP', 'label': 'ping'}]})])
"""
_KEPT = ("DATA_FILENAME", "FLENT_VERSION", "HOST", "LENGTH", "NAME", "SERIES_META", "STEP_SIZE", "T0", "TIME")


def main(folder: Path) -> None:
    """Record a test of iperf3 and one of flent into a folder that does not exist yet."""
    folder.mkdir()
    _iperf3(folder)
    _flent(folder)


def _iperf3(folder: Path) -> None:
    capture = folder / "lo.pcap"
    words = ["tcpdump", "-i", "lo", "-s", str(_SNAPPED), "-U", "-w", str(capture), f"tcp port {_PORT}"]
    tcpdump = subprocess.Popen(words)
    server = subprocess.Popen(["iperf3", "-s", "-1", "-p", str(_PORT)], stdout=subprocess.DEVNULL)
    time.sleep(1)
    client = ["iperf3", "-c", "127.0.0.1", "-p", str(_PORT), "-t", "2", "-i", "0.5", "-l", "8K", "-b", "1M", "-P", "2"]
    done = subprocess.run([*client, "--json"], capture_output=True, check=True)
    time.sleep(1)
    tcpdump.send_signal(signal.SIGINT)
    tcpdump.wait()
    server.wait()
    document = json.loads(done.stdout)
    document["start"] |= {"system_info": "Linux", "cookie": "0" * 36}
    (folder / "iperf3.json").write_text(json.dumps(document, separators=(",", ":")))
    (folder / "lo.pcap.gz").write_bytes(gzip.compress(capture.read_bytes(), mtime=0))
    capture.unlink()


def _flent(folder: Path) -> None:
    with TemporaryDirectory() as place:
        Path(place, "loopback.conf").write_text(_TEST)
        command = ["flent", f"{place}/loopback", "-H", "127.0.0.1", "-l", "4", "-D", place]
        subprocess.run(command, check=True)
        (path,) = Path(place).glob("*.flent.gz")
        document = json.loads(gzip.decompress(path.read_bytes()))
    metadata = {name: document["metadata"][name] for name in _KEPT}
    document["metadata"] = metadata | {"DATA_FILENAME": "loopback.flent.gz", "NAME": "loopback"}
    text = json.dumps(document, separators=(",", ":")).encode()
    (folder / "loopback.flent.gz").write_bytes(gzip.compress(text, mtime=0))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
