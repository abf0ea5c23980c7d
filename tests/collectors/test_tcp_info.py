"""The collector tcp_info on this host's own sockets: what it writes, whom it reads, how it ends."""

from __future__ import annotations

import base64
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from collectors._ready import Schedule
from multitracer.protocols.sock_diag import decode_tcp_info
from tests.collectors.running import command, connection, end, records, run, running, until
from tests.narrowed import known

if TYPE_CHECKING:
    import socket

STEP_BYTES = 700
HOLD_A_CONNECTION = """
import socket, sys
server = socket.create_server(("127.0.0.1", 0))
client = socket.create_connection(server.getsockname())
accepted, _ = server.accept()
print(client.getsockname()[1], flush=True)
input()
"""


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return tmp_path / "tcp_state.jsonl"


def port_of(end_: socket.socket) -> int:
    return end_.getsockname()[1]


def local_ports(log: Path) -> set[int]:
    return {reading["local_port"] for reading in records(log, "reading")}


def test_log_tells_who_wrote_it_what_was_asked_and_how_it_ended(log: Path) -> None:
    with connection() as (_, server):
        done = run("tcp_info", "-o", log, "--hz", 50, "--port", port_of(server), "--duration", 1)
        assert (done.returncode, done.stderr) == (0, "")
        header, ending = records(log, "header", "end")
        assert header["ports"] == [port_of(server)]
    assert (header["format"], header["version"], header["hz"]) == ("multitracer-tcp-info", 1, 50)
    assert header["kernel"] == os.uname().release
    kinds = [record["kind"] for record in records(log)]
    assert (kinds[0], kinds[1], kinds[-2:]) == ("header", "reading", ["clock", "end"])
    assert ending["reason"] == "duration"
    begun = [record["read_before_ns"] for record in records(log, "reading")]
    rounds = round((begun[-1] - begun[0]) * 50 / 1e9)
    assert rounds <= ending["reads"] + ending["missed"] <= 51, "each round is one or the other"
    assert len(records(log, "reading")) == 2 * ending["reads"]


@pytest.mark.realtime  # more than 20 of 40 states seen, 11 ms apart
def test_reading_is_the_state_between_its_two_stamps(log: Path) -> None:
    steps = []
    with connection() as (client, server):
        with running("tcp_info", log, "--port", port_of(server), "--hz", 200) as child:
            for _ in range(40):
                before = time.monotonic_ns()
                client.sendall(b"x" * STEP_BYTES)
                steps.append((before, time.monotonic_ns()))
                time.sleep(0.011)
            assert end(child) == 0
        ours = [r for r in records(log, "reading") if r["local_port"] == port_of(client)]
    assert len({written(r) for r in ours}) > 20
    for reading in ours:
        minimum = sum(after < reading["read_before_ns"] for _, after in steps) * STEP_BYTES
        most = sum(before < reading["read_after_ns"] for before, _ in steps) * STEP_BYTES
        assert minimum <= written(reading) <= most


def written(reading: dict[str, Any]) -> int:
    """Return what the application gave to the socket, paced out or not."""
    return reading["tcp_info"]["bytes_sent"] + reading["tcp_info"]["notsent_bytes"]


def test_reading_keeps_the_raw_struct_beside_its_main_fields(log: Path) -> None:
    with connection() as (_, server):
        run("tcp_info", "-o", log, "--port", port_of(server), "--duration", 0.2)
    for reading in records(log, "reading"):
        fields = decode_tcp_info(base64.b64decode(reading["raw"]))
        assert reading["tcp_info"].items() <= fields.items()
        assert {"snd_cwnd", "snd_ssthresh", "rtt", "rto", "snd_mss"} <= reading["tcp_info"].keys()
        assert reading["congestion_control"]


@pytest.mark.realtime  # brackets under 1 ms
def test_clock_records_place_the_readings_on_wall_clock_time(log: Path) -> None:
    before = time.time_ns() - time.monotonic_ns()
    run("tcp_info", "-o", log, "--duration", 1.5)
    clocks = records(log, "clock")
    assert len(clocks) >= 3
    for clock in clocks:
        bracket = clock["monotonic_after_ns"] - clock["monotonic_before_ns"]
        assert 0 < bracket < 1_000_000
        assert abs(clock["realtime_ns"] - clock["monotonic_after_ns"] - before) < 10_000_000


@pytest.mark.parametrize("address", ["127.0.0.1", "::1"])
def test_port_and_address_choose(log: Path, address: str) -> None:
    with connection(address) as (client, server), connection("127.0.0.1") as (_, other):
        options = ("--port", port_of(server), "--port", port_of(other), "--address", address)
        run("tcp_info", "-o", log, *options, "--duration", 0.3, "--hz", 100)
        wanted = {port_of(client), port_of(server)}
        assert wanted <= local_ports(log)
        assert (port_of(other) in local_ports(log)) == (address == "127.0.0.1")


def test_process_chooses_its_sockets_also_those_it_opens_later(log: Path) -> None:
    with connection() as (client, server):
        holder = subprocess.Popen(
            [sys.executable, "-c", HOLD_A_CONNECTION], text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        with holder, running("tcp_info", log, "--pid", os.getpid(), "--hz", 100) as child:
            theirs = int(known(holder.stdout).readline())
            with connection() as (later, _):
                until(lambda: {port_of(later), port_of(client), port_of(server)} <= local_ports(log))
            holder.communicate("\n")
            end(child)
    assert theirs not in local_ports(log)


def test_name_chooses_processes(log: Path) -> None:
    name = Path("/proc/self/comm").read_text().strip()
    with connection() as (client, _):
        run("tcp_info", "-o", log, "--process", name, "--duration", 0.2)
        assert port_of(client) in local_ports(log)
    other = log.with_name("other.jsonl")
    run("tcp_info", "-o", other, "--process", "no-such-process", "--duration", 0.2)
    assert records(other, "reading") == []


def test_unknown_process_is_an_error_in_one_line(log: Path) -> None:
    done = run("tcp_info", "-o", log, "--pid", 2**22 + 1)
    assert done.returncode == 1
    assert done.stderr == "Error: --pid 4194305: no process has this number; `ps` lists the processes\n"
    assert not log.exists()


def test_log_that_exists_is_not_touched(log: Path) -> None:
    log.write_text("evidence")
    done = run("tcp_info", "-o", log)
    assert done.returncode == 1
    assert "already exists" in done.stderr
    assert log.read_text() == "evidence"


def test_full_disk_is_an_error_not_a_hole(full_device: Path) -> None:
    done = run("tcp_info", "-o", full_device)
    assert done.returncode == 1
    assert done.stderr == f"Error: {full_device}: cannot write to this log: No space left on device\n"


def test_socket_that_ends_is_said_to_be_gone_and_the_next_one_is_another(log: Path) -> None:
    with running("tcp_info", log, "--hz", 100) as child:
        cookies = []
        for _ in range(2):
            with connection() as (client, _):
                cookies.append(cookie_of(log, port_of(client)))
            until(lambda: cookies[-1] in {r["cookie"] for r in records(log, "gone")})
        end(child)
    assert len(set(cookies)) == 2


def cookie_of(log: Path, port: int) -> int:
    until(lambda: port in local_ports(log))
    return next(r["cookie"] for r in records(log, "reading") if r["local_port"] == port)


@pytest.mark.realtime  # within 5 s
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_signal_ends_it_in_order(log: Path, number: signal.Signals) -> None:
    with running("tcp_info", log, "--hz", 0.01) as child:
        asked = time.monotonic()
        assert end(child, number) == 0
        assert time.monotonic() - asked < 5
    assert records(log)[-1] | {"reads": 1, "missed": 0} == {
        "kind": "end", "reason": number.name, "reads": 1, "missed": 0,
    }  # fmt: skip


def start_and_die(log: Path, *options: str) -> int:
    """Start the collector from a process that ends at once; return the collector's number."""
    program = (
        "import pathlib, subprocess, sys, time\n"
        "child = subprocess.Popen(sys.argv[2:])\n"
        "log = pathlib.Path(sys.argv[1])\n"
        "while not (log.exists() and b'clock' in log.read_bytes()): time.sleep(0.01)\n"
    )
    subprocess.run([sys.executable, "-c", program, str(log), *command("tcp_info", "-o", log, *options)], check=True)
    return records(log, "header")[0]["pid"]


def test_it_ends_with_the_process_that_started_it(log: Path) -> None:
    start_and_die(log)
    until(lambda: records(log, "end"))
    assert records(log, "end")[0]["reason"] == "parent ended"


def test_it_outlives_that_process_if_asked(log: Path) -> None:
    child = start_and_die(log, "--outlive-parent")
    time.sleep(1.5)
    assert not records(log, "end")
    os.kill(child, signal.SIGTERM)
    until(lambda: records(log, "end"))


@pytest.mark.realtime  # the newest record within 200 ms
def test_kill_costs_at_most_the_record_it_was_writing(log: Path) -> None:
    with connection() as (_, server), running("tcp_info", log, "--hz", 500, "--port", port_of(server)) as child:
        time.sleep(0.5)
        assert end(child, signal.SIGKILL) == -signal.SIGKILL
        killed_ns = time.monotonic_ns()
    *complete, last = log.read_bytes().split(b"\n")
    parsed = [json.loads(line) for line in complete]
    newest = max(r["read_after_ns"] for r in parsed if r["kind"] == "reading")
    assert killed_ns - newest < 200_000_000
    assert last == b"" or len(last) < 2000


def test_rounds_that_did_not_happen_are_counted(log: Path) -> None:
    with running("tcp_info", log, "--hz", 100) as child:
        child.send_signal(signal.SIGSTOP)
        time.sleep(0.5)
        child.send_signal(signal.SIGCONT)
        until(lambda: sum(r["count"] for r in records(log, "missed")) >= 45)
        end(child)
    ending = records(log, "end")[0]
    assert sum(r["count"] for r in records(log, "missed")) == ending["missed"]
    long = max(records(log, "missed"), key=lambda r: r["count"])
    assert long["until_ns"] - long["since_ns"] >= 490_000_000


@given(hz=st.floats(10, 1000), lateness_ns=st.lists(st.integers(0, 200_000_000), min_size=1, max_size=60))
def test_schedule_keeps_to_its_instants_however_late_a_round_is(hz: float, lateness_ns: list[int]) -> None:
    schedule = Schedule(hz=hz, poisson=False, start_ns=0)
    passed = 0
    for rounds, late in enumerate(lateness_ns, start=1):
        now = schedule.due_ns + late
        passed += schedule.advance(round(now))
        assert schedule.due_ns > round(now)
        assert schedule.due_ns == pytest.approx((rounds + passed) * 1e9 / hz)


def test_poisson_schedule_has_the_rate_and_the_spread_of_one() -> None:
    schedule = Schedule(hz=100, poisson=True, start_ns=0)
    gaps, last = [], 0.0
    for _ in range(4000):
        schedule.advance(round(schedule.due_ns))
        gaps.append(schedule.due_ns - last)
        last = schedule.due_ns
    mean = sum(gaps) / len(gaps)
    deviation = (sum((gap - mean) ** 2 for gap in gaps) / len(gaps)) ** 0.5
    assert mean == pytest.approx(10_000_000, rel=0.1)
    assert deviation == pytest.approx(mean, rel=0.1)
