"""`measure run --latency`: beside other programs' pings on a slow path with a second of buffer, and bad servers."""

from __future__ import annotations

import contextlib
import json
import shutil
import signal
import socket
import statistics
import subprocess
import sys
import threading
import time
from typing import TYPE_CHECKING, Any

import pytest

import multitracer as mt
from multitracer.measure.exchange import ECHO, FILL, LOAD, PROBE, MessageReader, Words, encode
from tests.cli.program import COMMAND, ENVIRONMENT, call
from tests.measure.relay import Relay
from tests.netns import Namespaces, namespaces

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

RATE_BPS = 10e6
_PINGER = """
import socket, struct, sys, threading, time
pings = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
pings.connect((sys.argv[1], 7))
def send():
    while True:
        pings.send(struct.pack("!Q", time.time_ns()))
        time.sleep(0.02)
threading.Thread(target=send, daemon=True).start()
while True:
    (sent_ns,) = struct.unpack("!Q", pings.recv(100))
    print(sent_ns, time.time_ns() - sent_ns, flush=True)
"""
"""A pinger over UDP that has nothing of ours: when each datagram was sent, and its round trip, in ns."""
_ECHO = """
import socket
echo = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
echo.bind(("10.0.2.2", 7))
print("bound", flush=True)
while True:
    octets, peer = echo.recvfrom(100)
    echo.sendto(octets, peer)
"""


@contextlib.contextmanager
def _slow_path() -> Iterator[Namespaces]:
    """Join hosts `a` and `b` by a router that carries 10 Mbit/s each way, with a second of buffer."""
    with namespaces("a", "r", "b") as hosts:
        hosts.join("a", "r", network="10.0.1")
        hosts.join("r", "b", network="10.0.2")
        hosts.route("a", via="10.0.1.2")
        hosts.route("b", via="10.0.2.1")
        hosts.sysctl("r", ip_forward=1)
        for device in ("to-a", "to-b"):
            hosts.limit("r", device, rate="10mbit", burst="16kb", latency="1000ms")
        yield hosts


@contextlib.contextmanager
def _served(hosts: Namespaces, where: str = "10.0.2.2:5100") -> Iterator[None]:
    argv = [*COMMAND, "measure", "serve", "--latency", "--listen", where]
    with hosts.start("b", *argv, stdout=subprocess.PIPE, env=ENVIRONMENT) as child:
        assert child.stdout is not None
        assert child.stdout.readline() == f"the latency server listens at {where}\n"
        try:
            yield
        finally:
            child.terminate()


def _lines(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / "latency.jsonl").read_text().splitlines()]


def _results(folder: Path) -> dict[str, dict[str, Any]]:
    return {line["result"]["phase"]: line["result"] for line in _lines(folder) if "result" in line}


def _window(folder: Path, phase: str) -> tuple[int, int]:
    """Return the begin and the end of the intervals of which the result is."""
    intervals = [line for line in _lines(folder) if line.get("interval") == phase][-4:]
    return intervals[0]["time_ns"], intervals[-1]["until_ns"]


def _median_s(round_trips: list[tuple[int, int]], window: tuple[int, int]) -> float:
    """Return the median of the round trips that ended in a window."""
    chosen = [rtt_ns for sent_ns, rtt_ns in round_trips if window[0] <= sent_ns + rtt_ns < window[1]]
    assert len(chosen) > 50
    return statistics.median(chosen) / 1e9


def _of_irtt(path: Path) -> list[tuple[int, int]]:
    trips = json.loads(path.read_text())["round_trips"]
    arrived = [each for each in trips if each["lost"] == "false"]
    return [(each["timestamps"]["client"]["send"]["wall"], each["delay"]["rtt"]) for each in arrived]


@pytest.mark.root
@pytest.mark.slow
@pytest.mark.realtime
def test_working_round_trips_and_rates_are_those_that_other_programs_find(tmp_path: Path) -> None:
    folder, own, irtt = tmp_path / "latency", tmp_path / "own.txt", tmp_path / "irtt.json"
    with _slow_path() as hosts, own.open("w") as out, _served(hosts):
        echo = hosts.start("b", sys.executable, "-c", _ECHO, stdout=subprocess.PIPE)
        assert echo.stdout is not None
        assert echo.stdout.readline() == "bound\n"
        echo.stdout.close()
        hosts.start("a", sys.executable, "-c", _PINGER, "10.0.2.2", stdout=out)
        other = None
        if shutil.which("irtt"):
            _start_irtt_server(hosts)
            pinging = ("irtt", "client", "-i", "20ms", "-d", "120s", "-q", "-o", str(irtt), "10.0.2.2")
            other = hosts.start("a", *pinging, stdout=subprocess.DEVNULL)
        argv = (*COMMAND, "measure", "run", "--latency", "--server", "10.0.2.2:5100", "-o", str(folder))
        said = hosts.run("a", *argv, env=ENVIRONMENT).stdout
        if other is not None:
            other.send_signal(signal.SIGINT)
            other.wait(30)
        rates_bps = _iperf3_rates_bps(hosts, tmp_path / "load")
    pings = [(int(sent), int(rtt)) for sent, rtt in (line.split() for line in own.read_text().splitlines())]
    results = _results(folder)
    assert results["idle"]["rtt_s"] < 0.05
    for phase in ("up", "down"):
        found, window = results[phase], _window(folder, phase)
        assert found["rtt_s"] == pytest.approx(_median_s(pings, window), rel=0.05)
        if other is not None:
            assert found["rtt_s"] == pytest.approx(_median_s(_of_irtt(irtt), window), rel=0.05)
        assert found["rtt_s"] > 0.5, "the buffer is not full, so nothing is shown"
        assert 15 < found["responsiveness_rpm"] < 120
        for rate_bps in rates_bps[phase]:
            assert found["goodput_bps"] == pytest.approx(rate_bps, rel=0.03)
            assert rate_bps == pytest.approx(rates_bps[phase][0], rel=0.03)
    assert [line.split()[0] for line in said.splitlines()] == ["path", "idle", "upload", "download", "the"]
    assert said.count("RPM (poor)") == 2
    session = mt.open(folder)
    assert {"up loaded", "down connect"} < set(session.table("application", "pings")["series"])


@pytest.mark.root
@pytest.mark.slow
@pytest.mark.realtime
@pytest.mark.skipif(not (shutil.which("irtt") and shutil.which("iperf3")), reason="irtt or iperf3 is not installed")
def test_round_trips_beside_a_load_of_iperf3_are_those_that_irtt_finds(tmp_path: Path) -> None:
    """To the test of latency the path of another's load is the idle one: each round trip takes the full buffer."""
    folder, irtt = tmp_path / "latency", tmp_path / "irtt.json"
    with _slow_path() as hosts, _served(hosts):
        _start_iperf3_server(hosts)
        _start_irtt_server(hosts)
        load = ("--protocol", "iperf3", "--server", "10.0.2.2:5201", "--udp", "14M", "--direction", "up")
        argv = (*COMMAND, "measure", "run", *load, "--duration", "40", "-o", str(tmp_path / "load"))
        loading = hosts.start("a", *argv, stdout=subprocess.DEVNULL, env=ENVIRONMENT)
        pinging = ("irtt", "client", "-i", "20ms", "-d", "60s", "-q", "-o", str(irtt), "10.0.2.2")
        other = hosts.start("a", *pinging, stdout=subprocess.DEVNULL)
        time.sleep(8)  # 4 Mbit/s more than the path carries fill the buffer of 10 Mbit in 2.5 s
        testing = hosts.start("a", *COMMAND, *_run("10.0.2.2:5100", folder), stderr=subprocess.DEVNULL, env=ENVIRONMENT)
        _wait_for(folder / "latency.jsonl", b'"result": {"phase": "idle"')
        assert loading.poll() is None, "the load was over before the test"
        testing.terminate()
        other.send_signal(signal.SIGINT)
        other.wait(30)
    probes = [line for line in _lines(folder) if line.get("phase") == "idle"]
    window = min(line["time_ns"] for line in probes), max(line["time_ns"] + line["rtt_ns"] for line in probes)
    found_s = _results(folder)["idle"]["rtt_s"]
    assert found_s > 0.9, "the buffer is not full, so nothing is shown"
    assert found_s == pytest.approx(_median_s(_of_irtt(irtt), window), rel=0.05)


def _start_iperf3_server(hosts: Namespaces) -> None:
    hosts.start("b", "iperf3", "--server", stdout=subprocess.DEVNULL)
    _wait_until_bound(hosts, "-Hltn", port=5201)


def _start_irtt_server(hosts: Namespaces) -> None:
    """Start irtt's server and wait for it: its client ends for good where nobody answers its first datagram."""
    hosts.start("b", "irtt", "server", "-b", "10.0.2.2", stdout=subprocess.DEVNULL)
    _wait_until_bound(hosts, "-Hlun", port=2112)


def _wait_until_bound(hosts: Namespaces, sockets: str, *, port: int) -> None:
    deadline = time.monotonic() + 20
    while not hosts.run("b", "ss", sockets, f"sport = :{port}").stdout:
        assert time.monotonic() < deadline
        time.sleep(0.05)


def _iperf3_rates_bps(hosts: Namespaces, folder: Path) -> dict[str, list[float]]:
    """Return what iperf3 measures in each direction on the same path, by itself and through `measure run`."""
    if shutil.which("iperf3") is None:
        return {"up": [], "down": []}
    _start_iperf3_server(hosts)
    own = {}
    for direction, more in (("up", ()), ("down", ("-R",))):
        own[direction] = json.loads(hosts.run("a", "iperf3", "-c", "10.0.2.2", "-J", "-t", "8", *more).stdout)
        time.sleep(1)  # it closes its socket and opens another: until then it refuses
        _wait_until_bound(hosts, "-Hltn", port=5201)
    argv = (*COMMAND, "measure", "run", "--protocol", "iperf3", "--server", "10.0.2.2:5201", "--duration", "8")
    hosts.run("a", *argv, "-o", str(folder), env=ENVIRONMENT)
    sums = mt.open(folder).table("application", "application_sums")
    received = sums[sums["reporter"] == "receiver"]
    return {
        direction: [
            own[direction]["end"]["sum_received"]["bits_per_second"],
            received[received["direction"] == heading]["rate_bps"].sum(),
        ]
        for direction, heading in (("up", "sent"), ("down", "received"))
    }


def test_probe_that_is_open_when_a_direction_ends_is_none_of_the_next(tmp_path: Path) -> None:
    """A relay holds what it passes on, so that at the end of the upload requests are on their way."""
    with loopback_server() as (server, _), Relay("tcp", server, delay_s=0.15) as relay:
        call(*_run(relay.address, tmp_path))
    begin_ns = _window(tmp_path, "down")[0]
    probes = [line for line in _lines(tmp_path) if "probe" in line]
    assert {line["phase"] for line in probes} == {"idle", "up", "down"}
    assert all((line["time_ns"] >= begin_ns) == (line["phase"] == "down") for line in probes)


@pytest.mark.root
@pytest.mark.slow
def test_link_local_address_is_measured_through_its_interface(tmp_path: Path) -> None:
    with namespaces("a", "b") as hosts:
        hosts.join("a", "b", network="10.0.1")
        for label, device, address in (("a", "to-b", "fe80::1/64"), ("b", "to-a", "fe80::2/64")):
            hosts.run(label, "sysctl", "-qw", f"net.ipv6.conf.{device}.disable_ipv6=0")
            hosts.run(label, "ip", "-6", "address", "add", address, "dev", device, "nodad")
        with _served(hosts, "[fe80::2%to-a]:5100"):
            hosts.run("a", *COMMAND, *_run("[fe80::2%to-b]:5100", tmp_path), env=ENVIRONMENT)
    assert list(_results(tmp_path)) == ["idle", "up", "down"]


@contextlib.contextmanager
def loopback_server() -> Iterator[tuple[str, subprocess.Popen[str]]]:
    """Start a server of tests of latency; yield its address, and the program."""
    argv = [*COMMAND, "measure", "serve", "--latency", "--listen", "127.0.0.1:0"]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, text=True, env=ENVIRONMENT) as child:
        assert child.stdout is not None
        try:
            yield child.stdout.readline().split(" at ")[1].strip(), child
        finally:
            child.kill()


def _run(server: str, folder: Path, *more: str) -> list[str]:
    return ["measure", "run", "--latency", "--server", server, "-o", str(folder), "--duration", "2", *more]


@pytest.mark.slow
def test_finished_test_is_told_again_and_an_interrupted_one_begins_anew(tmp_path: Path) -> None:
    with loopback_server() as (server, _):
        first = call(*_run(server, tmp_path, "--direction", "down")).stdout
        assert call(*_run(server, tmp_path, "--direction", "down")).stdout == first
        log = (tmp_path / "latency.jsonl").read_bytes()
        (tmp_path / "latency.jsonl").write_bytes(log[: len(log) // 2])
        call(*_run(server, tmp_path, "--direction", "down"))
        told = call(*_run(server, tmp_path, "--direction", "up"), status=1).stderr
    assert list(_results(tmp_path)) == ["idle", "down"]
    assert _lines(tmp_path)[-1] == {"ended": None}
    assert "does not belong to this plan" in told


@pytest.mark.slow
def test_server_that_vanishes_ends_the_test_with_the_reason(tmp_path: Path) -> None:
    with loopback_server() as (server, child):
        argv = [*COMMAND, *_run(server, tmp_path / "run", "--duration", "60")]
        with subprocess.Popen(argv, stderr=subprocess.PIPE, text=True, env=ENVIRONMENT) as client:
            _wait_for(tmp_path / "run" / "latency.jsonl", b'"interval": "up"')
            child.kill()
            _, errors = client.communicate(timeout=60)
    assert client.returncode == 1
    assert errors.startswith(f"Error: {server}: the test of latency failed (")
    assert errors.endswith(f"check that `multitracer measure serve --latency --listen {server}` is running\n")
    assert _lines(tmp_path / "run")[-1]["ended"]


def _wait_for(path: Path, octets: bytes) -> None:
    deadline = time.monotonic() + 60
    while not path.exists() or octets not in path.read_bytes():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def _junk(octets: bytes) -> bytes:
    del octets
    return b"HTTP/1.1 400 Bad Request\r\n\r\n" * 3


def _load_where_none_is_due(octets: bytes) -> bytes:
    return encode(Words(FILL, 0, 0, 0, 0, bytes(16_000))) if octets else b""


def _unasked_answers(octets: bytes) -> bytes:
    """Answer questions that nobody asked a thousand times, and the one that was asked never."""
    return b"".join(encode(Words(ECHO, 2**64 - 1, 2**32 - 1 - n, 0, 0, b"")) for n in range(1000)) if octets else b""


def _nothing(octets: bytes) -> bytes:
    del octets
    return b""


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (_junk, "is not a message of this protocol"),
        (_load_where_none_is_due, "it is not the server of this test"),
        (_unasked_answers, "it is not the server of this test"),
        pytest.param(_nothing, "the server did not answer within 10 s", marks=pytest.mark.slow),
    ],
)
def test_another_program_at_the_address_is_one_sentence(
    answer: Callable[[bytes], bytes], words: str, tmp_path: Path
) -> None:
    with _answering(answer) as server:
        told = call(*_run(server, tmp_path), status=1).stderr
    assert words in told
    assert told.count("\n") == 1


def test_missing_server_is_one_sentence(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        server = "{}:{}".format(*free.getsockname())
    told = call(*_run(server, tmp_path), status=1).stderr
    assert f"check that `multitracer measure serve --latency --listen {server}` is running" in told


@contextlib.contextmanager
def _answering(answer: Callable[[bytes], bytes]) -> Iterator[str]:
    """A TCP server that answers what arrives with what a function returns."""
    listener = socket.create_server(("127.0.0.1", 0))
    over = threading.Event()

    def serve(accepted: socket.socket) -> None:
        with contextlib.suppress(OSError), accepted:
            while octets := accepted.recv(4096):
                accepted.sendall(answer(octets))

    def accept() -> None:
        with contextlib.suppress(OSError):
            while not over.is_set():
                threading.Thread(target=serve, args=(listener.accept()[0],)).start()

    worker = threading.Thread(target=accept)
    worker.start()
    try:
        yield "{}:{}".format(*listener.getsockname())
    finally:
        over.set()
        listener.shutdown(socket.SHUT_RDWR)
        worker.join()
        listener.close()


def _ask_and_never_read(connection: socket.socket) -> None:
    while True:
        connection.sendall(encode(Words(PROBE, 0, 1, 0, 0, b"")) * 10_000)


@pytest.mark.slow
def test_client_that_reads_no_answers_is_closed_and_another_is_served(tmp_path: Path) -> None:
    with loopback_server() as (server, child):
        host, port = server.split(":")
        with (
            socket.create_connection((host, int(port)), 30) as greedy,
            pytest.raises((ConnectionResetError, BrokenPipeError)),
        ):
            _ask_and_never_read(greedy)
        with socket.create_connection((host, int(port)), 30) as rude:
            rude.sendall(b"GET / HTTP/1.1\r\nHost: somewhere\r\n\r\n")
            assert rude.recv(100) == b""
        call(*_run(server, tmp_path, "--direction", "down"))
        child.send_signal(signal.SIGTERM)
        words, _ = child.communicate(timeout=30)
    assert words.startswith("the server answered ")
    assert words.endswith(" probes\n")
    assert child.returncode == 0


def test_probe_among_a_load_is_answered_in_it() -> None:
    with loopback_server() as (server, _):
        host, port = server.split(":")
        with socket.create_connection((host, int(port)), 30) as connection:
            connection.sendall(encode(Words(LOAD, 0, 0, 0, 0, b"")))
            reader = MessageReader()
            seen: list[Words] = []
            while not seen:
                seen += reader.feed(connection.recv(65_536))
            connection.sendall(encode(Words(PROBE, 0, 9, 0, 0, b"")))
            while ECHO not in {words.letters for words in seen}:
                seen += reader.feed(connection.recv(65_536))
    assert [words.number for words in seen if words.letters == ECHO] == [9]
    assert {words.letters for words in seen} == {FILL, ECHO}


@pytest.mark.parametrize(
    "more", [(), ("--latency", "--protocol", "tcp"), ("--latency", "-o", "served")], ids=["neither", "both", "records"]
)
def test_server_is_of_one_kind(more: tuple[str, ...]) -> None:
    assert "give either --protocol NAME, or --latency" in call("measure", "serve", *more, status=2).stderr


@pytest.mark.parametrize("more", [("--key-file", "key"), ("--extension", "path-mtu"), ("--baud", "9600")])
def test_options_of_centauruscomm_are_refused_by_a_server_of_latency(
    more: tuple[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "key").write_text("a secret of 16 bytes and more")
    told = call("measure", "serve", "--latency", "--listen", "127.0.0.1:0", *more, status=2).stderr
    assert f"{more[0]} has no effect on a test of latency; omit it" in " ".join(told.split())
