"""`measure run --protocol iperf3` with the real iperf3: what it prints is the log, and its failures are sentences."""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import socket
import stat
import struct
import subprocess
import sys
import threading
import time
from typing import TYPE_CHECKING, Any

import pytest

import multitracer as mt
from multitracer.manifest import RECORDED_AT, changed_files, read_manifest
from multitracer.words import duration, rate, share
from tests.cli.program import COMMAND, ENVIRONMENT, call, run
from tests.measure.test_latency import loopback_server
from tests.narrowed import known

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

needs_iperf3 = pytest.mark.skipif(shutil.which("iperf3") is None, reason="iperf3 is not installed")


def _free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


@contextlib.contextmanager
def iperf3_server(host: str = "127.0.0.1") -> Iterator[tuple[str, subprocess.Popen[bytes]]]:
    """Start `iperf3 --server`; yield its address as `measure` takes it, and the program."""
    port = _free_port()
    with subprocess.Popen(
        ["iperf3", "--server", "--bind", host, "--port", str(port)], stdout=subprocess.DEVNULL
    ) as child:
        try:
            deadline = time.monotonic() + 20
            while subprocess.run(["ss", "-Hltn", f"sport = :{port}"], capture_output=True, check=True).stdout == b"":
                assert time.monotonic() < deadline
                time.sleep(0.02)
            yield (f"[{host}]:{port}" if ":" in host else f"{host}:{port}"), child
        finally:
            child.kill()


def _run(server: str, folder: Path, *more: str) -> list[str]:
    return ["measure", "run", "--protocol", "iperf3", "--server", server, "-o", str(folder), *more]


@needs_iperf3
def test_both_directions_are_logs_of_iperf3_whose_rates_are_printed(tmp_path: Path) -> None:
    folder = tmp_path / "load"
    with iperf3_server() as (server, _):
        said = call(*_run(server, folder, "--duration", "1", "--label", "place=campus"))
        again = call(*_run(server, folder, "--duration", "1", "--label", "place=campus"))
    assert said.stdout == again.stdout, "it is not measured a second time"
    assert [line.split()[0] for line in said.stdout.splitlines()[:3]] == ["direction", "upload", "download"]
    manifest = known(read_manifest(folder))
    assert sorted(log.path for log in manifest.files) == ["iperf3-down.json", "iperf3-up.json"]
    assert list(changed_files(folder, manifest)) == []
    measurement = known(manifest.variables.measurement)
    assert (measurement.protocol, measurement.server, measurement.more["duration_s"]) == ("iperf3", server, 1)
    sums = mt.open(folder).table("application", "application_sums")
    for direction, heading in (("up", "sent"), ("down", "received")):
        document = json.loads((folder / f"iperf3-{direction}.json").read_text())
        own_bps = document["end"]["sum_received"]["bits_per_second"]
        rows = sums[(sums["direction"] == heading) & (sums["reporter"] == "receiver")]
        assert rows["rate_bps"].sum() == pytest.approx(own_bps, rel=1e-9)


@needs_iperf3
def test_udp_has_loss_and_jitter_and_works_over_ipv6(tmp_path: Path) -> None:
    with iperf3_server("::1") as (server, _):
        said = call(*_run(server, tmp_path / "load", "--duration", "1", "--udp", "2M", "--direction", "down"))
    document = json.loads((tmp_path / "load" / "iperf3-down.json").read_text())
    assert document["start"]["test_start"]["protocol"] == "UDP"
    assert document["start"]["test_start"]["reverse"] == 1
    assert {each["remote_host"] for each in document["start"]["connected"]} == {"::1"}
    assert document["end"]["sum"]["packets"] > 0
    sums = mt.open(tmp_path / "load").table("application", "application_sums")
    (row,) = sums[sums["reporter"] == "receiver"].to_dict("records")
    assert row["rate_bps"] == pytest.approx(2e6, rel=0.1)
    assert row["lost_packets"] == document["end"]["sum"]["lost_packets"]
    assert row["jitter_s"] == pytest.approx(document["end"]["sum"]["jitter_ms"] / 1e3)
    heading, line = said.stdout.splitlines()[:2]
    shown = dict(zip(re.split(r" {2,}", heading), re.split(r" {2,}", line), strict=True))
    assert shown["rate"] == rate(row["rate_bps"])
    assert shown["lost"] == share(row["lost_packets"], row["packets"])
    assert shown["jitter"] == duration(row["jitter_s"] * 1e9)
    assert shown["sent again"] == shown["RTT median"] == "-", "TCP has them"


@needs_iperf3
@pytest.mark.root
@pytest.mark.parametrize("kind", ["iperf3", "latency"])
def test_load_measured_as_root_is_private_and_belongs_to_who_called_sudo(kind: str, tmp_path: Path) -> None:
    folder = tmp_path / "load"
    sudo: dict[str, Any] = {"env": ENVIRONMENT | {"SUDO_UID": "4321", "SUDO_GID": "8765"}, "umask": 0o022}
    with iperf3_server() if kind == "iperf3" else loopback_server() as (server, _):
        test = ("--protocol", "iperf3") if kind == "iperf3" else ("--latency",)
        more = ("--duration", "1", "--direction", "down")
        run("measure", "run", *test, "--server", server, "-o", folder, *more, **sudo)
    made = [path.stat() for path in (folder, *folder.rglob("*"))]
    assert len(made) == 3
    assert {(each.st_uid, each.st_gid) for each in made} == {(4321, 8765)}
    assert {stat.S_IMODE(each.st_mode) for each in made} == {0o700, 0o600}


@needs_iperf3
def test_load_inside_a_recording_names_the_host_whose_clock_it_has(tmp_path: Path) -> None:
    folder = tmp_path / "drive"
    with iperf3_server() as (server, _):
        inside = [*COMMAND, *_run(server, folder / "load", "--duration", "1", "--direction", "down")]
        run("capture", "-o", folder, "--plain", "--with", "host_clock", "--", *inside)
    assert known(read_manifest(folder / "load")).more[RECORDED_AT] == "mobile"


@needs_iperf3
def test_busy_server_is_one_sentence_and_leaves_no_log(tmp_path: Path) -> None:
    with iperf3_server() as (server, _):
        host, port = server.split(":")
        with subprocess.Popen(["iperf3", "-c", host, "-p", port, "-t", "30"], stdout=subprocess.DEVNULL) as other:
            try:
                _wait_for_connections(int(port), 2)
                told = call(*_run(server, tmp_path / "load", "--duration", "1"), status=1).stderr
            finally:
                other.kill()
        assert "busy" in told
        assert told.splitlines()[-1].endswith("wait until the other test has ended, then start the same command again")
        assert [path.name for path in (tmp_path / "load").iterdir()] == ["manifest.json"]


def _wait_for_connections(port: int, count: int) -> None:
    deadline = time.monotonic() + 20
    argv = ["ss", "-Htn", "state", "established", f"sport = :{port}"]
    while subprocess.run(argv, capture_output=True, check=True).stdout.count(b"\n") < count:
        assert time.monotonic() < deadline
        time.sleep(0.02)


@needs_iperf3
def test_missing_server_is_one_sentence(tmp_path: Path) -> None:
    port = _free_port()
    told = call(*_run(f"127.0.0.1:{port}", tmp_path / "load"), status=1).stderr
    assert f"check that `iperf3 --server --port {port}` is running there" in told
    assert "Connection refused" in told


def test_missing_program_is_one_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    told = call(*_run("127.0.0.1:5201", tmp_path / "load"), status=1).stderr
    assert "iperf3 is not installed; install it (`apt-get install iperf3`)" in told


@needs_iperf3
def test_server_that_vanishes_leaves_what_was_measured(tmp_path: Path) -> None:
    folder = tmp_path / "load"
    with iperf3_server() as (server, child):
        argv = [*COMMAND, *_run(server, folder, "--duration", "20")]
        with subprocess.Popen(argv, stderr=subprocess.PIPE, text=True, env=ENVIRONMENT) as client:
            _wait_for_connections(int(server.split(":")[1]), 2)
            time.sleep(2.5)  # two of iperf3's intervals
            child.kill()
            _, errors = client.communicate(timeout=60)
    assert client.returncode == 1
    assert errors.splitlines()[-1].endswith("check the server, then start the same command again")
    assert sorted(path.name for path in folder.iterdir()) == ["iperf3-up-failed.json", "manifest.json"]
    rates = mt.open(folder).table("application", "application_rate")
    assert len(rates) >= 2


_OLD = """#!/bin/sh
cat <<'JSON'
{"start": {"connected": [{"socket": 4, "local_host": "127.0.0.1", "local_port": 1, "remote_host": "127.0.0.1",
 "remote_port": 5201}], "version": "iperf 3.0.11", "timestamp": {"timesecs": 1700000000}, "cookie": "x",
 "test_start": {"protocol": "TCP", "num_streams": 1, "reverse": 0}},
 "intervals": [{"streams": [{"socket": 4, "start": 0, "end": 1, "seconds": 1, "bytes": 125000,
 "bits_per_second": 1e6}]}],
 "end": {"streams": [{"sender": {"socket": 4, "start": 0, "end": 1, "seconds": 1, "bytes": 125000,
 "bits_per_second": 1e6}}]}}
JSON
"""


def test_old_version_without_some_fields_has_unknown_values(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As iperf3 3.0 on a system whose kernel tells no retransmissions: no receiver's sum, no RTT."""
    _install(tmp_path, _OLD, monkeypatch)
    said = call(*_run("127.0.0.1:5201", tmp_path / "load", "--direction", "up"))
    assert said.stdout.splitlines()[1].split() == ["upload", "-", "1.0", "Mbit/s", "-", "-", "-", "-"]


def test_warning_beside_the_result_is_no_part_of_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    warning = "echo 'warning: this system has no high-resolution clock' >&2\n"
    _install(tmp_path, _OLD.replace("cat", f"{warning}cat", 1), monkeypatch)
    call(*_run("127.0.0.1:5201", tmp_path / "load", "--direction", "up"))
    assert json.loads((tmp_path / "load" / "iperf3-up.json").read_text())["start"]["version"] == "iperf 3.0.11"


def test_reason_that_is_no_json_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _install(
        tmp_path, "#!/bin/sh\necho '{\"start\": {'\necho 'libiperf.so.0: no such file' >&2\nexit 127\n", monkeypatch
    )
    told = call(*_run("127.0.0.1:5201", tmp_path / "load"), status=1).stderr
    assert "iperf3 failed: libiperf.so.0: no such file;" in told


_DAY = f"""#!{sys.executable}
import json, sys
option = dict(zip(sys.argv, sys.argv[1:]))
seconds, step = int(option["--time"]), int(option.get("--interval", 1))
counts = {{"socket": 5, "bytes": 125000, "bits_per_second": 1e6, "retransmits": 0, "snd_cwnd": 100000, "rtt": 9000}}
filler = {{f"further_{{n}}": 123456.789 for n in range(20)}}
rows = [{{"start": at, "end": at + step, "seconds": step, **counts, **filler}} for at in range(0, seconds, step)]
whole = {{"start": 0, "end": seconds, "seconds": seconds, **counts}}
ends = {{"socket": 5, "local_host": "127.0.0.1", "local_port": 1, "remote_host": "127.0.0.1", "remote_port": 5201}}
json.dump({{
    "start": {{"connected": [ends], "timestamp": {{"timesecs": 1700000000}}, "cookie": "x",
              "test_start": {{"protocol": "TCP", "reverse": 0}}}},
    "intervals": [{{"streams": [row], "sum": row}} for row in rows],
    "end": {{"streams": [{{"sender": whole, "receiver": whole}}]}},
}}, sys.stdout)
"""
"""A program that prints, as iperf3 does, a record of some 700 bytes twice for each interval; nobody waits a day."""


def test_log_of_a_day_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _install(tmp_path, _DAY, monkeypatch)
    said = call(*_run("127.0.0.1:5201", tmp_path / "load", "--direction", "up", "--duration", "86400"))
    assert said.stdout.splitlines()[1].split()[:3] == ["upload", "1.0", "Mbit/s"]
    assert len(mt.open(tmp_path / "load").table("application", "application_rate")) == 3600


@pytest.mark.parametrize(
    ("printed", "words"),
    [
        ("not JSON at all \\033[31m", "iperf3 failed: not JSON at all"),
        ("[" * 100_000, "iperf3 failed: [["),
        ("[1]", "iperf3 printed no test"),
        ('{"start": {}, "intervals": []}', "iperf3 printed no result"),
        ('{"error": "\\u001b[31m<script>\\u202e"}', "iperf3 failed: "),
        ("", "it printed nothing"),
    ],
)
def test_output_that_is_no_test_is_one_sentence(
    printed: str, words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "printed").write_text(printed)
    _install(tmp_path, f"#!/bin/sh\ncat {tmp_path / 'printed'}\n", monkeypatch)
    told = call(*_run("127.0.0.1:5201", tmp_path / "load"), status=1).stderr
    assert words in told
    assert told.isprintable() or told.replace("\n", "").isprintable()
    assert [path.name for path in (tmp_path / "load").iterdir()] == ["manifest.json"]


def _install(folder: Path, script: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Put a program of this name before all others."""
    (place := folder / "bin").mkdir()
    (place / "iperf3").write_text(script)
    (place / "iperf3").chmod(0o755)
    monkeypatch.setenv("PATH", f"{place}{os.pathsep}{os.environ['PATH']}")


_RESULTS = {
    "cpu_util_total": 1e308, "cpu_util_user": -5, "cpu_util_system": 0, "sender_has_retransmits": 1,
    "congestion_used": "\x1b[31m<script>alert(1)</script>\u202e",
    "streams": [{"id": 1, "bytes": 2**62, "retransmits": -(2**40), "jitter": 1e300, "errors": -1, "packets": -7,
                 "omitted_errors": 0, "omitted_packets": 0, "start_time": 0, "end_time": -1e300}],
}  # fmt: skip


@contextlib.contextmanager
def _hostile_server() -> Iterator[str]:
    """A server that follows iperf3's protocol, but for its results: they are what no test has."""
    listener = socket.create_server(("127.0.0.1", 0))
    listener.settimeout(20)

    def serve() -> None:
        with contextlib.suppress(OSError), contextlib.ExitStack() as stack:
            control = stack.enter_context(listener.accept()[0])
            control.settimeout(20)
            _exactly(control, 37)
            control.sendall(b"\x09")  # PARAM_EXCHANGE
            _exactly(control, struct.unpack("!I", _exactly(control, 4))[0])
            control.sendall(b"\x0a")  # CREATE_STREAMS
            data = stack.enter_context(listener.accept()[0])
            data.settimeout(20)
            _exactly(data, 37)
            control.sendall(b"\x01\x02")  # TEST_START, TEST_RUNNING
            threading.Thread(target=_swallow, args=(data,)).start()
            assert _exactly(control, 1) == b"\x04"  # TEST_END
            control.sendall(b"\x0d")  # EXCHANGE_RESULTS
            _exactly(control, struct.unpack("!I", _exactly(control, 4))[0])
            results = json.dumps(_RESULTS).encode()
            control.sendall(struct.pack("!I", len(results)) + results + b"\x0e")  # DISPLAY_RESULTS
            _exactly(control, 1)

    worker = threading.Thread(target=serve)
    worker.start()
    try:
        yield "{}:{}".format(*listener.getsockname())
    finally:
        listener.close()
        worker.join()


def _exactly(source: socket.socket, count: int) -> bytes:
    octets = b""
    while len(octets) < count:
        if not (more := source.recv(count - len(octets))):
            raise ConnectionError
        octets += more
    return octets


def _swallow(source: socket.socket) -> None:
    with contextlib.suppress(OSError):
        while source.recv(1 << 16):
            pass


@needs_iperf3
def test_hostile_results_of_a_server_are_unknown_or_text_and_no_more(tmp_path: Path) -> None:
    folder = tmp_path / "load"
    with _hostile_server() as server:
        said = call(*_run(server, folder, "--duration", "1", "--direction", "up"))
    assert "\x1b" not in said.stdout + said.stderr
    assert said.stdout.splitlines()[1].split()[0] == "upload"
    assert len(mt.open(folder).table("application", "application_sums")) >= 1


@pytest.mark.parametrize(
    ("more", "words"),
    [
        (("--protocol", "iperf3", "--sizes", "64"), "--sizes has no effect on iperf3; omit it"),
        (("--protocol", "tcp", "--duration", "5"), "--duration needs --protocol iperf3 or --latency"),
        (("--protocol", "iperf3", "--udp", "fast"), "is not a rate; write bits per second such as 500K or 5M"),
        (("--protocol", "iperf3", "--latency"), "omit --protocol iperf3"),
        (("--latency", "--udp", "5M"), "--udp needs --protocol iperf3"),
        (("--latency", "--over", "cdpd"), "--over has no effect on a test of latency"),
        (("--latency", "--virtual"), "--virtual has no effect on a test of latency"),
        (("--protocol", "iperf3", "--seed", "3"), "--seed has no effect on iperf3; omit it"),
        (("--protocol", "iperf3", "--errors", "trace.bin"), "--errors has no effect on iperf3; omit it"),
        (("--protocol", "iperf3", "--tcp-profile", "1999"), "--tcp-profile has no effect on iperf3; omit it"),
        (("--latency", "--protocol", "tcp"), "omit --protocol tcp"),
        (("--latency", "--duration", "111"), "--duration must be at most 110 with --latency"),
    ],
)
def test_options_that_do_not_belong_together_are_told(more: tuple[str, ...], words: str, tmp_path: Path) -> None:
    told = call("measure", "run", "--server", "127.0.0.1:5201", "-o", tmp_path / "load", *more, status=2).stderr
    assert words in " ".join(told.split())
    assert not (tmp_path / "load").exists()
