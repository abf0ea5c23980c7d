"""The collector tcp_probe on the running kernel: nothing lost, nothing left behind."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import time
from ipaddress import ip_network
from pathlib import Path

import pytest

from collectors import tcp_probe
from collectors.tcp_probe import tracefs
from multitracer.protocols.sock_diag import decode_tcp_info
from tests.collectors.running import PATIENCE_S, command, connection, end, records, running, until

pytestmark = pytest.mark.root
EVENT = re.compile(r" (\d+\.\d{6}): (tcp_\w+): (.*)")


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return tmp_path / "tcp_probe.ftrace"


def instances() -> set[str]:
    return {path.name for path in (tracefs() / "instances").iterdir()}


def instance_of(child: subprocess.Popen[str]) -> set[str]:
    return {name for name in instances() if name.startswith(f"multitracer-{child.pid}-")}


def events(log: Path) -> list[tuple[float, str, str]]:
    found = map(EVENT.search, log.read_text().splitlines())
    return [(float(match[1]), match[2], match[3]) for match in found if match]


def flood(client: socket.socket, server: socket.socket, *, seconds: float, rate: float) -> None:
    """Send small segments; each makes tcp_probe fire at the server, and each second one at the client."""
    client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    began = time.monotonic()
    sent = 0
    while (elapsed := time.monotonic() - began) < seconds:
        if sent < elapsed * rate:
            for _ in range(20):
                client.send(b"x" * 100)
            server.recv(1 << 20)
            sent += 20
        else:
            time.sleep(0.0002)
    time.sleep(0.1)  # a delayed ACK


def segments_in(end_: socket.socket) -> int:
    return decode_tcp_info(end_.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 280))["segs_in"]


def merged_in_backlog() -> int:
    """Return how many segments were merged with another before TCP saw them (TcpExt of netstat)."""
    names, values = (
        row.split() for row in Path("/proc/net/netstat").read_text().splitlines() if row.startswith("TcpExt:")
    )
    return int(dict(zip(names, values, strict=True))["TCPBacklogCoalesce"])


@pytest.mark.realtime  # within 100 ms
def test_log_holds_the_events_of_the_chosen_port_on_the_monotonic_clock(log: Path) -> None:
    with connection() as (client, server), connection() as (other, _):
        port = server.getsockname()[1]
        with running("tcp_probe", log, "--port", port) as child:
            began = time.monotonic()
            for end_ in (client, other):
                end_.sendall(b"x" * 10)
            ended = time.monotonic()
            assert end(child) == 0
    probes = [(at, text) for at, event, text in events(log) if event == "tcp_probe"]
    assert len(probes) == 2, "the data at the server and its ACK at the client"
    for at, text in probes:
        assert began - 1e-3 <= at <= ended + 1e-1
        assert f":{port} " in text
    kinds = [record["kind"] for record in records(log)]
    assert (kinds[0], kinds[1], kinds[-2:]) == ("header", "clock", ["clock", "end"])
    assert records(log, "end")[0]["reason"] == "SIGTERM"


@pytest.mark.parametrize(
    ("ends", "wanted"),
    [
        ("src=[2001:db8::5:1]:80 dest=[fe80::2]:5999 mark=0", True),
        ("src=[2001:db8::5]:1 dest=[fe80::2]:5999 mark=0", False),
        ("src=10.0.0.1:80 dest=10.0.0.2:5999 mark=0", True),
        ("src=10.0.0.10:1 dest=10.0.0.2:5999 mark=0", False),
        ("saddrv6=::1 daddrv6=::1 state=TCP_SYN_SENT", False),
        ("saddrv6=2001:db8::5:1 daddrv6=::1 cong_state=4", True),
        ("saddrv6=::ffff:10.0.0.1 daddrv6=::ffff:10.0.0.2 cong_state=4", True),
    ],
)
def test_addresses_of_both_families_are_told_from_ports(ends: str, wanted: bool) -> None:
    """An address of IPv6 that ends in digits, as ::1 of somebody's loopback, has no port in it."""
    chosen = [ip_network("2001:db8::5:1"), ip_network("10.0.0.1")]
    recording = tcp_probe.TcpProbeRecorder(None, None, networks=chosen)  # type: ignore[arg-type]
    row = f"<idle>-0 [001] ..s.. 1.5: tcp_probe: family=AF_INET6 {ends}\n".encode()
    assert recording._chosen(row) == (row if wanted else b"")


def test_address_chooses(log: Path) -> None:
    with (
        connection("127.0.0.1") as (four, _),
        connection("::1") as (six, _),
        running("tcp_probe", log, "--address", "::1") as child,
    ):
        for end_ in (four, six):
            end_.sendall(b"x" * 10)
        end(child)
    ours = [text for _, _, text in events(log) if "src=[::1]" in text]
    assert ours
    assert not [text for _, _, text in events(log) if "127.0.0.1" in text]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_signal_leaves_no_instance(log: Path, number: signal.Signals) -> None:
    with running("tcp_probe", log) as child:
        assert instance_of(child)
        assert end(child, number) == 0
        assert not instance_of(child)


def test_error_leaves_no_instance(log: Path) -> None:
    too_long_for_the_kernel = [word for port in range(1, 1000) for word in ("--port", port)]
    argv = command("tcp_probe", "-o", log, *too_long_for_the_kernel)
    with subprocess.Popen(argv, stderr=subprocess.PIPE, text=True) as child:
        _, said = child.communicate(timeout=PATIENCE_S)
    assert child.returncode == 1
    assert said.startswith("Error: ")
    assert not instance_of(child)


def test_kill_leaves_whole_records_and_the_next_start_cleans_up(log: Path) -> None:
    someone_elses = tracefs() / "instances" / f"multitracer-not-ours-{os.getpid()}"
    someone_elses.mkdir(exist_ok=True)
    try:
        with connection() as (client, server), running("tcp_probe", log) as child:
            flood(client, server, seconds=0.5, rate=5000)
            end(child, signal.SIGKILL)
            assert instance_of(child), "nobody removed it yet"
        *complete, last = log.read_bytes().split(b"\n")
        assert all(row.startswith(b"# multitracer {") or EVENT.search(row.decode()) for row in complete)
        assert len(last) < 1000
        with (
            running("tcp_probe", log.with_name("second")) as second,
            running("tcp_probe", log.with_name("third")) as third,
        ):
            assert not instance_of(child)
            assert instance_of(second), "a living collector keeps its instance"
            assert instance_of(third)
            assert someone_elses.name in instances()
    finally:
        someone_elses.rmdir()


@pytest.mark.realtime  # a reader that waits too long loses some
def test_19000_events_a_second_are_recorded_without_loss(log: Path) -> None:
    with connection() as ends, running("tcp_probe", log, "--port", ends[1].getsockname()[1]) as child:
        before, merged = sum(map(segments_in, ends)), merged_in_backlog()
        flood(*ends, seconds=3, rate=27_000)
        arrived = sum(map(segments_in, ends)) - before
        merged = merged_in_backlog() - merged
        rate = arrived / 3.1
        assert end(child) == 0
    seen = [text for _, event, text in events(log) if event == "tcp_probe"]
    assert arrived - merged <= len(seen) <= arrived
    assert set(records(log, "clock")[-1]["lost"].values()) == {0}
    if rate < 19_000:
        pytest.skip(f"this machine is too busy to make more than {rate:.0f} events a second; none was lost")


def test_events_that_found_no_room_are_counted(log: Path) -> None:
    options = ("--buffer-kib", 8)
    with connection() as ends, running("tcp_probe", log, "--port", ends[1].getsockname()[1], *options) as child:
        before, merged = sum(map(segments_in, ends)), merged_in_backlog()
        child.send_signal(signal.SIGSTOP)
        flood(*ends, seconds=0.3, rate=1e6)
        child.send_signal(signal.SIGCONT)
        arrived, merged = sum(map(segments_in, ends)) - before, merged_in_backlog() - merged
        end(child)
    lost = sum(records(log, "clock")[-1]["lost"].values())
    seen = [text for _, event, text in events(log) if event == "tcp_probe"]
    assert lost > 0
    assert arrived - merged <= len(seen) + lost <= arrived * 1.01, "the kernel may count a filtered event"


def test_without_root_it_says_what_to_do(log: Path) -> None:
    powerless = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"]
    reading = ["--inh-caps=+dac_read_search", "--ambient-caps=+dac_read_search"]  # a clone in /root is closed
    argv = [*powerless, *reading, *command("tcp_probe")]
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "only root" in done.stderr


def test_it_waits_for_nobody(log: Path) -> None:
    with running("tcp_probe", log, "--port", 1, "--duration", 1.2) as child:
        until(lambda: child.poll() is not None)
    assert records(log, "end")[0]["reason"] == "duration"
