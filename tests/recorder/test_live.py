"""The live view: rates as the kernel counts them, what limits now, several radios, the place; from 60 columns on."""

from __future__ import annotations

import gzip
import io
import json
import lzma
import re
import struct
import subprocess
import sys
import time
from contextlib import ExitStack, closing
from statistics import mean
from typing import TYPE_CHECKING, Any

import pytest
from rich.cells import cell_len
from rich.console import Console

import multitracer as mt
from multitracer.cli import _now
from multitracer.manifest import CollectorRun
from multitracer.protocols.modem.android import location_of, serving_of
from multitracer.recorder.child import CollectorProcess
from multitracer.recorder.folder import Room
from multitracer.recorder.plan import PlannedCollector
from multitracer.recorder.screen import PlainView, page, plain_line
from multitracer.recorder.status import CurrentLimit, RecordingStatus, Watcher, watchers_of
from tests.collectors.running import command
from tests.conftest import SAMPLES
from tests.netns import namespaces
from tests.parsers.frames import ethernet, ipv4, pcap_file, tcp
from tests.parsers.test_telephony_registry import DUMP
from tests.recorder.capturing import command as capture_command
from tests.recorder.capturing import until

if TYPE_CHECKING:
    from collections import deque
    from pathlib import Path

S = 1_000_000_000
BOTH_WAYS = """
import socket, sys, time
if sys.argv[1] == "serve":
    with socket.create_server(("10.9.0.2", 9000)) as server:
        print("listening", flush=True)
        end = server.accept()[0]
else:
    end = socket.create_connection(("10.9.0.2", 9000))
end.setblocking(False)
size, began = int(sys.argv[2]), time.monotonic()
sent = 0
while True:
    try:
        while sent < (time.monotonic() - began) * 100:  # late or not, so many by now
            sent += end.send(bytes(size)) / size
    except BlockingIOError: pass
    try:
        while end.recv(1 << 16): pass
    except BlockingIOError: pass
    time.sleep(0.01)
"""
"""Each end sends a block of its own size a hundred times a second."""


def child_of(name: str, stem: str, folder: Path) -> CollectorProcess:
    child = CollectorProcess(PlannedCollector(name, stem, ".jsonl"), folder)
    child.runs.append(CollectorRun(name, "", [], "", 0))
    return child


@pytest.mark.root
@pytest.mark.realtime
def test_rates_of_both_directions_are_those_of_the_kernel_of_the_interface(tmp_path: Path) -> None:
    """Payload is the interface's octets less the headers of its packets: Ethernet, IPv4, TCP with time stamps."""
    with namespaces("a", "b") as hosts:
        hosts.join("a", "b", network="10.9.0")

        def counted() -> dict[str, int]:
            link = json.loads(hosts.run("a", "ip", "-s", "-j", "link", "show", "to-b").stdout)[0]["stats64"]
            return {way: link[way]["bytes"] - 66 * link[way]["packets"] for way in ("rx", "tx")}

        server = hosts.start("b", sys.executable, "-ISc", BOTH_WAYS, "serve", "9000", stdout=subprocess.PIPE)
        assert server.stdout is not None
        assert server.stdout.readline()
        hosts.start("a", sys.executable, "-ISc", BOTH_WAYS, "connect", "3000")
        log = tmp_path / "tcp_state-0.jsonl"
        hosts.start("a", *command("tcp_info", "-o", log))
        until(lambda: log.exists() and log.read_bytes().count(b'"reading"') > 12)
        watcher, series = Watcher(child_of("tcp_info", "tcp_state", tmp_path)), dict[str, "deque[float]"]()
        watcher.look({}, time.monotonic_ns())
        before, before_ns = counted(), time.monotonic_ns()
        for _ in range(8):
            time.sleep(0.5)
            watcher.look(series, time.monotonic_ns())
        after, seconds = counted(), (time.monotonic_ns() - before_ns) / S
        server.stdout.close()
    for label, way in (("sent, kbit/s", "tx"), ("received, kbit/s", "rx")):
        assert mean(series[label]) == pytest.approx((after[way] - before[way]) * 8e-3 / seconds, rel=0.05), label


@pytest.fixture
def status(tmp_path: Path) -> RecordingStatus:
    """A recording of two phones, a modem, a router and a dish: for 75 s one phone is unplugged, the modem silent."""
    place = location_of("100.00 1\nLocation[gps 52.520008,13.404954 hAcc=4.5 et=+1m39s250ms vel=13.9]")
    assert place is not None
    dish = {"state": "CONNECTED", "pop_ping_latency_ms": 31.5, "pop_ping_drop_rate": 0.25, "currently_obstructed": True,
            "downlink_throughput_bps": 120e6, "uplink_throughput_bps": 9e6}  # fmt: skip
    phone = [{"kind": "answer", "of": "registry", "shown": serving_of(DUMP)},
             {"kind": "answer", "of": "location", "shown": place.values}]  # fmt: skip
    logs: dict[str, list[Any]] = {
        "android-1": phone,
        "android-2": [{"kind": "missed", "why": "unplugged"}],
        "modem": [{"kind": "answer", "shown": [{"role": "serving", "rsrp_dbm": -90, "rat": "LTE"}]}],
        "remote": [{"kind": "answer", "shown": [{"role": "serving", "rsrp_dbm": -101, "rat": "NR"}]}],
        "starlink": [{"kind": "status", **dish}],
    }
    children, status = [child_of(name, name, tmp_path) for name in logs], RecordingStatus(3725, sync_probes=1)
    watchers = watchers_of(children)
    with ExitStack() as running:
        for child in children:
            child._process = running.enter_context(subprocess.Popen("cat", stdin=subprocess.PIPE))
        for second, silent in ((100, ""), (175, "modem")):
            for name in logs.keys() - {silent}:
                with (tmp_path / f"{name}-0.jsonl").open("a") as log:
                    log.writelines(json.dumps(record) + "\n" for record in logs[name])
            status.lines = [watcher.look(status.series, second * S) for watcher in watchers]
    status.room = Room(123_400_000_000, 10**12, 4 * 86_400.0)
    status.now = "congestion window for 62 % of the time, 3.2 Mbit/s (inferred)"
    return status


@pytest.mark.parametrize("width", [60, 80, 120])
def test_page_fits_the_terminal_and_cuts_no_number(status: RecordingStatus, width: int) -> None:
    status.lines[0].dropped, status.lines[0].restarts = 1_234, 1
    terminal = io.StringIO()
    Console(file=terminal, width=width).print(page("a-drive-with-two-phones", status, None, width))
    shown = terminal.getvalue()
    assert max(map(cell_len, shown.splitlines())) <= width
    for words in ("1 sync probe, 0 markers", "1:02:05", "enough for 4 days", "now: congestion window", "1,234",
                  "place: 52.52001 13.40495 (android-1)", "android-1 RSRP, dBm", "-65.0", "modem RSRP, dBm –",
                  "remote RSRP, dBm", "-101.0", "starlink latency, ms", "31.5", "starlink downlink, kbit/s",
                  "120,000.0", "no values 75 s"):  # fmt: skip
        assert words in " ".join(shown.split()), words
    assert ("MB" in shown) == (width >= 80)


def test_silent_collector_is_timed_from_its_last_record(status: RecordingStatus) -> None:
    states = {line.name: (line.state, round(line.since_s)) for line in status.lines}
    assert states["modem"] == ("silent", 75)
    assert states["android-2"] == ("no values", 75)
    assert status.lines[-1].last == "CONNECTED, obstructed"
    assert status.lines[0].last == "LTE Big Cell Co IN_SERVICE"


def test_place_is_not_known_without_a_fix(tmp_path: Path) -> None:
    (tmp_path / "gps-0.jsonl").write_text(json.dumps({"kind": "report", "shown": {"fix": 0}}) + "\n")
    watcher, status = Watcher(child_of("gps", "gps", tmp_path)), RecordingStatus()
    status.lines = [watcher.look({}, S)]
    assert status.place == "not known (gps: no fix)"
    with (tmp_path / "gps-0.jsonl").open("a") as log:
        log.write(json.dumps({"kind": "report", "shown": {"lat_deg": 52.5, "lon_deg": 13.25}}) + "\n")
    status.lines = [watcher.look({}, 2 * S)]
    assert status.place == "52.50000 13.25000 (gps)"
    status.lines = [watcher.look({}, 20 * S)]
    assert status.place == "not known (gps: no fix)", "a place of 18 s ago is another place"


def test_limit_now_is_that_of_the_newest_packets(tmp_path: Path) -> None:
    sample = SAMPLES / "cellular_upload" / "mobile" / "tcp-0.pcap.gz"
    (tmp_path / "tcp-0.pcap").write_bytes(gzip.decompress(sample.read_bytes()))
    window = _now.Tail(tmp_path).look()
    assert window is not None
    assert 1 < window.span_ns / S <= 10
    last_ns = window.records[-1][0]
    now = _now.words_of(window, b"", last_ns)
    assert now.startswith("link"), now
    assert now.endswith("(inferred)")
    assert _now.words_of(window, b"", last_ns + 5 * S).startswith("no packet for ")
    assert _now.words_of(window, b"", last_ns + 11 * S) == "not known: no TCP packet in the last 10 s"
    few = window._replace(records=window.records[-3:])
    assert _now.words_of(few, b"", last_ns) == "not known: only 3 packets so far"


def quic_packet(*, is_down: bool, octets: int, port: int = 50_000) -> bytes:
    ports = (443, port) if is_down else (port, 443)
    datagram = struct.pack(">4H", *ports, 8 + octets, 0) + bytes(octets)
    ends = ("192.0.2.7", "10.0.0.2") if is_down else ("10.0.0.2", "192.0.2.7")
    return ethernet(ipv4(datagram, protocol=17, source=ends[0], destination=ends[1]))


def test_of_quic_the_rates_of_both_directions_are_stated(tmp_path: Path) -> None:
    """Of the connection that carries most, if it carries more than the one of TCP; the packets are cut."""
    first_ns = time.time_ns()  # the last one is 5 s ahead: it is new however long a busy machine takes
    packets = [
        quic_packet(is_down=True, octets=1200)[:192], quic_packet(is_down=False, octets=60),
        quic_packet(is_down=True, octets=300, port=50_001)[:192],
    ] * 51  # fmt: skip
    lengths = [14 + 28 + octets for _ in range(51) for octets in (1200, 60, 300)]
    (tmp_path / "udp-0.pcap").write_bytes(timed_pcap(packets, lengths, first_ns, S // 30))
    (tmp_path / "tcp-0.pcap").write_bytes(pcap_file([]))

    def words() -> str:
        return _now._look(_now.Tail(tmp_path), _now.Tail(tmp_path, "udp-*.pcap*"), tmp_path)

    assert words() == "not known (QUIC, no keys): down 96.6 kbit/s, up 4.83 kbit/s"
    (tmp_path / "tcp-0.pcap").write_bytes(
        timed_pcap([ethernet(ipv4(tcp(payload=bytes(40))))] * 51, [14 + 40 + 40] * 51, first_ns, S // 10)
    )
    assert words().startswith("not known (QUIC, no keys)"), "TCP carries less"
    (tmp_path / "tcp-0.pcap").write_bytes(
        timed_pcap([ethernet(ipv4(tcp()))] * 51, [14 + 40 + 9000] * 51, first_ns, S // 10)
    )
    assert "QUIC" not in words(), "TCP carries more"


def timed_pcap(packets: list[bytes], lengths: list[int], first_ns: int, step_ns: int) -> bytes:
    """Return a capture of Ethernet with ns, whose packets come at even times and had these lengths."""
    data = struct.pack("=IHHiIII", 0xA1B23C4D, 2, 4, 0, 0, 192, 1)
    for number, (packet, length) in enumerate(zip(packets, lengths, strict=True)):
        seconds, fraction = divmod(first_ns + number * step_ns, S)
        data += struct.pack("=4I", seconds, fraction, len(packet), length) + packet
    return data


_QUIC_LIKE = """
import socket, sys, threading, time
server, client = (socket.socket(socket.AF_INET, socket.SOCK_DGRAM) for _ in range(2))
server.bind(("127.0.0.1", 443)); client.bind(("127.0.0.1", 0))
def send(end, to, octets):
    began, sent = time.monotonic(), 0
    while True:
        while sent < (time.monotonic() - began) * 100:
            end.sendto(bytes(octets), to); sent += 1
        time.sleep(0.01)
threading.Thread(target=send, args=(server, client.getsockname(), 1000), daemon=True).start()
threading.Thread(target=send, args=(client, ("127.0.0.1", 443), 100), daemon=True).start()
sys.stdin.read()
"""
"""Datagrams of 1000 and of 100 octets, a hundred a second each way, between UDP port 443 and another."""


@pytest.mark.root
@pytest.mark.realtime
def test_plain_view_has_now_with_the_rates_of_quic_within_five_percent(tmp_path: Path) -> None:
    argv = capture_command(tmp_path / "drive", "-i", "lo", "--with", "tcpdump", "--", "sleep", "1000")
    with (
        subprocess.Popen((sys.executable, "-ISc", _QUIC_LIKE), stdin=subprocess.PIPE) as sender,
        subprocess.Popen(argv, stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) as child,
    ):
        assert child.stderr is not None
        assert sender.stdin is not None
        shown: list[tuple[float, float]] = []
        for line in child.stderr:
            if match := re.search(r"now: not known \(QUIC, no keys\): down (\S+) kbit/s, up (\S+) kbit/s", line):
                shown.append((float(match[1]), float(match[2])))
            if len(set(shown)) > 2 or (len(shown) > 20):
                break
        child.terminate()
        sender.stdin.close()
        child.communicate(timeout=90)
    down, up = shown[-1]
    assert down == pytest.approx(800, rel=0.05)
    assert up == pytest.approx(80, rel=0.05)


def shown_by(view: PlainView, status: RecordingStatus, lines: list[str]) -> str:
    view.show(status)
    return lines[-1]


def test_plain_view_has_now_and_place_and_ends_its_program(status: RecordingStatus, tmp_path: Path) -> None:
    words = json.dumps({"at_ns": 1, "words": "x"})
    program = f"import pathlib, sys; print({words!r}); sys.stdin.read(); pathlib.Path(sys.argv[1]).touch()"
    lines: list[str] = []
    with PlainView(lines.append, lines.append, (sys.executable, "-ISc", program, str(tmp_path / "end"))) as view:
        until(lambda: "now: not known: no analysis for" in shown_by(view, status, lines))
    assert (tmp_path / "end").exists()
    status.now = "link, 3.2 Mbit/s (inferred)"
    assert "now: link, 3.2 Mbit/s (inferred) | place: 52.52001 13.40495 (android-1)" in plain_line(status)


def test_fast_capture_is_read_to_its_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_now, "_MOST_BYTES", 10_000)
    sample = SAMPLES / "cellular_upload" / "mobile" / "tcp-0.pcap.gz"
    data = gzip.decompress(sample.read_bytes())
    (tmp_path / "tcp-0.pcap").write_bytes(data)
    tail = _now.Tail(tmp_path)
    window = tail.look()
    assert window is not None
    assert data.endswith(window.records[-1][1])
    assert tail.look() == window, "nothing is new"


def test_rate_goes_on_after_a_look_between_two_readings(tmp_path: Path) -> None:
    watcher, series = Watcher(child_of("tcp_info", "tcp_state", tmp_path)), dict[str, "deque[float]"]()
    for second, is_read in ((1, True), (2, False), (3, True)):
        with (tmp_path / "tcp_state-0.jsonl").open("a") as log:
            reading = {"cookie": 7, "read_before_ns": second * S, "tcp_info": {"bytes_acked": second * 125_000}}
            log.write(json.dumps({"kind": "reading" if is_read else "clock", **reading}) + "\n")
        watcher.look(series, second * S)
    assert list(series["sent, kbit/s"]) == [1000.0]


def test_the_states_of_the_phone_are_those_that_its_modem_said_last(tmp_path: Path) -> None:
    assert _now.phone_of(tmp_path, 0) == ""
    log = lzma.decompress((SAMPLES / "rehearsed-drive" / "mobile" / "radio-0.jsonl.xz").read_bytes())
    (tmp_path / "radio-0.jsonl").write_bytes(log)
    states = mt.open(SAMPLES / "rehearsed-drive").signalling_states
    last = states[(states["machine"] == "RRC") & states["end_frame"].isna()]
    assert last[["state", "source"]].to_numpy().tolist() == [["idle", "+QENG"]]
    begin_ns = int(last["begin_ns"].astype("int64").iloc[0])
    says = _now.phone_of(tmp_path, begin_ns + 7 * S)
    assert says.startswith("RRC idle for 7 s (+QENG), EMM registered for "), says
    (tmp_path / "radio-0.jsonl").write_bytes(log[:100])
    assert _now.phone_of(tmp_path, 0) == "", "the log has only begun"


def test_limit_now_ends_by_itself_and_removes_its_files(tmp_path: Path) -> None:
    words = json.dumps({"at_ns": S, "words": "link"})
    program = f"import pathlib, sys; print({words!r}, flush=True); sys.stdin.read(); pathlib.Path(sys.argv[1]).touch()"
    with closing(CurrentLimit((sys.executable, "-ISc", program, str(tmp_path / "end")))) as limit:
        until(lambda: limit.look(S) == "link")
    assert (tmp_path / "end").exists()


def test_program_that_ends_or_writes_no_more_is_not_believed() -> None:
    words = json.dumps({"at_ns": S, "words": "link\x1b[2J"})
    with closing(CurrentLimit((sys.executable, "-ISc", f"print({words!r})"))) as limit:
        until(lambda: limit.look(S) == "not known: the analysis ended with status 0")
    with closing(CurrentLimit((sys.executable, "-ISc", f"print({words!r}, flush=True); input()"))) as limit:
        until(lambda: limit.look(2 * S))
        assert limit.look(2 * S) == "link\ufffd[2J"
        assert limit.look(14 * S) == "not known: no analysis for 13 s"
    assert limit.look(15 * S) == ""
