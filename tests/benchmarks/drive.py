"""How long a report of a whole day's drive takes, and a frame of its map: `python -m tests.benchmarks.drive`.

It writes a made-up drive of 30,000 s (8.3 hours): a position and a reading of the radio in each second, and
500 uploads one after the other, 5 M packets of headers, as captured at the phone. Then it starts
`multitracer report` as a process of its own, opens the page in Chromium and pans the map.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from tests.report.chromium import EXECUTABLE, Browser

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Column = NDArray[np.int64] | int

START_S = 1_800_000_000
SECONDS = 30_000
CONNECTIONS = 500
RUNS = 10
FRAMES = 30
_MSS = 1448
_RTT_S = 0.05
_RECORD = np.dtype(
    [
        ("seconds", "<u4"), ("nanoseconds", "<u4"), ("kept", "<u4"), ("length", "<u4"),
        ("ethernet", "V12"), ("ethertype", ">u2"), ("version", "u1"), ("tos", "u1"), ("ip_length", ">u2"),
        ("ip_rest", "V4"), ("ttl", "u1"), ("protocol", "u1"), ("ip_checksum", ">u2"), ("source", ">u4"),
        ("destination", ">u4"), ("source_port", ">u2"), ("destination_port", ">u2"), ("seq", ">u4"),
        ("ack", ">u4"), ("offset", "u1"), ("flags", "u1"), ("window", ">u2"), ("checksum", ">u2"),
        ("urgent", ">u2"),
    ]
)  # fmt: skip
_PHONE, _SERVER = 0x0A000002, 0xC0000201
_SYN, _ACK, _FIN = 2, 16, 1


def connection(packets: int, lasting_s: float) -> tuple[NDArray[np.void], NDArray[np.float64]]:
    """Return an upload of so many packets and the seconds of each: two segments, then the ACK of both.

    One segment in 1,000 is sent again a round trip later.
    """
    pairs = (packets - 5) * 1000 // 3001
    number = np.arange(2 * pairs)
    sent = 1 + number // 2 * (lasting_s - 1) / pairs + number % 2 * 1e-4
    again = number[500::1000]
    rows = [
        (0.0, _PHONE, 0, 0, _SYN, 0),
        (_RTT_S, _SERVER, 0, 1, _SYN | _ACK, 0),
        (_RTT_S + 1e-4, _PHONE, 1, 1, _ACK, 0),
    ]
    facts = np.array(rows, dtype=np.float64)
    data = _facts(sent, _PHONE, 1 + number * _MSS, 1, _MSS)
    resent = _facts(sent[again] + _RTT_S, _PHONE, 1 + again * _MSS, 1, _MSS)
    acks = _facts(sent[1::2] + _RTT_S, _SERVER, 1, 1 + (number[1::2] + 1) * _MSS, 0)
    last = 1 + 2 * pairs * _MSS
    close = np.array(
        [(lasting_s, _PHONE, last, 1, _FIN | _ACK, 0), (lasting_s + _RTT_S, _SERVER, 1, last + 1, _FIN | _ACK, 0)]
    )
    everything = np.concatenate([facts, data, resent, acks, close])
    everything = everything[np.argsort(everything[:, 0], kind="stable")]
    return _records(everything), everything[:, 0]


def _facts(seconds: NDArray[np.float64], source: int, seq: Column, ack: Column, payload: int) -> NDArray[np.float64]:
    columns = np.broadcast_arrays(seconds, source, seq, ack, _ACK, payload)
    return np.column_stack(columns).astype(np.float64)


def _records(facts: NDArray[np.float64]) -> NDArray[np.void]:
    records = np.zeros(len(facts), _RECORD)
    up = facts[:, 1] == _PHONE
    records["kept"], records["length"] = 54, 54 + facts[:, 5]
    records["ethertype"], records["version"], records["ttl"], records["protocol"] = 0x0800, 0x45, 64, 6
    records["ip_length"] = 40 + facts[:, 5]
    records["source"] = np.where(up, _PHONE, _SERVER)
    records["destination"] = np.where(up, _SERVER, _PHONE)
    records["seq"], records["ack"], records["flags"] = facts[:, 2], facts[:, 3], facts[:, 4]
    records["offset"], records["window"] = 0x50, 65_000
    return records


def write_capture(path: Path, packets: int) -> None:
    """Write the uploads, one after the other."""
    lasting_s = SECONDS / CONNECTIONS
    records, seconds = connection(packets // CONNECTIONS, lasting_s - 1)
    up = records["source"] == _PHONE
    with path.open("wb") as stream:
        stream.write(np.array([0xA1B23C4D, 0x00040002, 0, 0, 65535, 1], "<u4").tobytes())
        for number in range(CONNECTIONS):
            at = START_S + number * lasting_s + seconds
            records["seconds"] = np.floor(at)
            records["nanoseconds"] = (at % 1) * 1e9
            port = 20_000 + number
            records["source_port"] = np.where(up, port, 443)
            records["destination_port"] = np.where(up, 443, port)
            stream.write(records.tobytes())


def write_log(path: Path) -> None:
    """Write position and radio of each second, a new cell every two minutes, on a winding road."""
    head = "Timestamp,Longitude,Latitude,Speed,Operatorname,CellID,NetworkMode,RSRP,RSRQ,SNR,CQI,DL_bitrate,UL_bitrate"
    second = np.arange(SECONDS)
    heading = np.cumsum(0.3 * np.sin(second / 37) + 0.2 * np.sin(second / 11)) / 4
    speed = 14 + 10 * np.sin(second / 300)
    lat = 51.8955 + np.degrees(np.cumsum(speed * np.cos(heading)) / 6_371_008.8)
    lon = -8.4958 + np.degrees(np.cumsum(speed * np.sin(heading)) / 6_371_008.8 / np.cos(np.radians(52)))
    power = np.rint(-95 + 15 * np.sin(second / 60) + 5 * np.sin(second / 7)).astype(int)
    with path.open("w") as stream:
        stream.write(f"{head}\n")
        for i in second.tolist():
            stamp = datetime.fromtimestamp(START_S + i, UTC).strftime("%Y.%m.%d_%H.%M.%S")
            place = f"{lon[i]:.6f},{lat[i]:.6f},{speed[i] * 3.6:.0f}"
            radio = f"A,{1000 + i // 120},LTE,{power[i]},{-11 - i % 5},{8 - i % 9},{10 - i % 6}"
            stream.write(f"{stamp},{place},{radio},{1000 + i % 700},{5000 + i % 900}\n")


def measured_report(session: Path, page: Path) -> dict[str, float]:
    """Return what `report` took: seconds, seconds of processors, and MiB of its largest process."""
    begin = time.monotonic()
    subprocess.run([sys.executable, "-m", "multitracer", "report", session, "-o", page], check=True)
    took_s = time.monotonic() - begin
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    processor_s = used.ru_utime + used.ru_stime
    return {"report, s": took_s, "report, processor s": processor_s, "report, MiB": used.ru_maxrss / 1024}


_PAN = """
(async () => {
  const frame = () => new Promise(requestAnimationFrame);
  const between = [], drawing = [];
  let before = await frame();
  for (let i = 0; i < FRAMES; i++) {
    window.routeMap.pan(i % 2 ? -9 : 7, 5);
    const begin = performance.now();
    window.routeMap.draw();
    drawing.push(performance.now() - begin);
    const now = await frame();
    between.push(now - before);
    before = now;
  }
  const median = (all) => all.sort((a, b) => a - b)[all.length >> 1];
  return [median(between), median(drawing)];
})()
""".replace("FRAMES", str(FRAMES))


def measured_frames(page: Path, profile: Path) -> dict[str, float]:
    """Return the median over runs of the median time between frames while the map is panned, in ms."""
    found: dict[str, float] = {}
    with Browser(profile) as browser:
        browser.resize(1280, 900)
        begin = time.monotonic()
        browser.open(page)
        browser.wait("window.routeMap && window.routeMap.place()")
        browser.evaluate("window.report.then(() => true)")
        found["page opens, s"] = time.monotonic() - begin
        browser.evaluate("document.querySelector('.map canvas').scrollIntoView()")
        for name, zoom in (("whole route", 1), ("zoomed in 8 times", 8)):
            browser.evaluate(f"window.routeMap.zoom({zoom}); true")
            runs = [browser.evaluate(_PAN) for _ in range(RUNS)]
            found[f"{name}: between frames, ms"] = statistics.median(run[0] for run in runs)
            found[f"{name}: drawing, ms"] = statistics.median(run[1] for run in runs)
    return found


def main() -> None:
    """Make the drive, measure, print a line for each number."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--packets", type=int, default=5_000_000)
    parser.add_argument("--folder", type=Path, help="keep the drive and its report here")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        folder = options.folder or Path(temporary)
        session = folder / "drive"
        (session / "phone").mkdir(parents=True, exist_ok=True)
        if not (session / "phone" / "tcp.pcap").exists():
            write_log(session / "phone" / "drive.csv")
            write_capture(session / "phone" / "tcp.pcap", options.packets)
        found = measured_report(session, folder / "report.html")
        found["page, MB"] = (folder / "report.html").stat().st_size / 1e6
        if EXECUTABLE is not None:
            found |= measured_frames(folder / "report.html", Path(temporary) / "profile")
    load = os.getloadavg()[0]
    print(json.dumps({name: round(value, 2) for name, value in found.items()} | {"load": load}, indent=1))


if __name__ == "__main__":
    main()
