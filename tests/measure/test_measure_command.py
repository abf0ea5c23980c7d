"""`multitracer measure` as a user runs it: two programs, one network or line between them."""

from __future__ import annotations

import contextlib
import csv
import json
import os
import re
import select
import signal
import socket
import stat
import subprocess
import time
from collections import Counter
from typing import IO, TYPE_CHECKING, Any

import pytest

from multitracer.manifest import changed_files, read_manifest
from multitracer.measure.exchange import Words, filled
from tests.cli.program import COMMAND, ENVIRONMENT, call, run
from tests.measure.ptys import live_cable
from tests.measure.relay import Relay
from tests.narrowed import known

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

PROTOCOLS = ["tcp", "centauruscomm", "wtcp"]


@contextlib.contextmanager
def serving(protocol: str, *options: str, listen: str = "127.0.0.1:0") -> Iterator[str]:
    """Start a server; yield where it listens."""
    argv = [*COMMAND, "measure", "serve", "--protocol", protocol, "--listen", listen, *options]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, text=True, env=ENVIRONMENT) as server:
        try:
            assert server.stdout is not None
            yield server.stdout.readline().split(" at ")[1].strip()
        finally:
            server.send_signal(signal.SIGINT)
            words, _ = server.communicate(timeout=60)
    assert server.returncode == 0
    assert words.startswith("the server answered ")


def _arguments(protocol: str, server: str, folder: Path, *more: str) -> list[str]:
    return ["measure", "run", "--protocol", protocol, "--server", server, "-o", str(folder), *more]


def _rows(folder: Path) -> list[dict[str, str]]:
    with (folder / "transactions.csv").open(newline="") as stream:
        return list(csv.DictReader(stream))


@pytest.mark.root
@pytest.mark.parametrize("over", [False, True])
def test_session_measured_as_root_is_private_and_belongs_to_who_called_sudo(over: bool, tmp_path: Path) -> None:
    folder, options = tmp_path / "run", ("--vary", "reply", "--sizes", "64", "--sessions", "2")
    sudo: dict[str, Any] = {"env": ENVIRONMENT | {"SUDO_UID": "4321", "SUDO_GID": "8765"}, "umask": 0o022}
    if over:
        run("measure", "run", "--protocol", "tcp", "--over", "bluetooth", "-o", folder, *options, **sudo)
    else:
        with serving("tcp") as server:
            run(*_arguments("tcp", server, folder, *options), **sudo)
    made = [path.stat() for path in (folder, *folder.rglob("*"))]
    assert {(each.st_uid, each.st_gid) for each in made} == {(4321, 8765)}
    assert {stat.S_IMODE(each.st_mode) for each in made} == {0o700, 0o600}
    assert {path.name for path in folder.iterdir()} >= {"manifest.json", "transactions.csv"}


@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.parametrize("vary", ["request", "reply"])
def test_every_transaction_is_a_line(protocol: str, vary: str, tmp_path: Path) -> None:
    folder = tmp_path / "run"
    with serving(protocol, "-o", str(tmp_path / "served")) as server:
        more = ("--vary", vary, "--sizes", "64,2048", "--sessions", "4", f"--{vary}-size", "99")
        other = ("--reply-size", "70") if vary == "request" else ("--request-size", "70")
        said = call(*_arguments(protocol, server, folder, *more, *other, "--label", "location=downtown"))
    rows = _rows(folder)
    assert [int(row["transaction"]) for row in rows] == list(range(1, 9))
    assert [int(row["size_bytes"]) for row in rows] == [64] * 4 + [2048] * 4
    assert [int(row["repetition"]) for row in rows] == [1, 2, 3, 4] * 2
    other_name = "reply_bytes" if vary == "request" else "request_bytes"
    for row in rows:
        assert (row["outcome"], row["why"], row["label_location"]) == ("ok", "", "downtown")
        assert int(row[f"{vary}_bytes"]) == int(row["size_bytes"])
        assert int(row[other_name]) == 70
        assert float(row["rtt_s"]) > 0
        assert float(row["server_rtt_s"]) >= 0
        assert int(row["retransmitted_client"]) == int(row["retransmitted_server"]) == 0
        assert int(row["bytes_up"]) >= int(row["request_bytes"])
        assert int(row["bytes_down"]) >= int(row["reply_bytes"])
        assert row["efficiency"] == ("1.0" if protocol == "centauruscomm" else "")
    assert "2048 B" in said.stdout
    served = [json.loads(line) for line in (tmp_path / "served" / "transactions.jsonl").read_text().splitlines()]
    assert [record["transaction"] for record in served] == list(range(1, 9))
    for row, record in zip(rows, served, strict=True):
        assert record["recorded"]["rtt_ns"] == round(float(row["rtt_s"]) * 1e9)
        assert record["recorded"]["start_ns"] == int(row["start_ns"])


def test_connection_time_is_apart_and_of_new_connections_only(tmp_path: Path) -> None:
    with serving("tcp") as server:
        for connection, expected in (("one", 1), ("per-session", 3)):
            folder = tmp_path / connection
            more = ("--vary", "reply", "--sizes", "64", "--sessions", "3", "--connection", connection)
            call(*_arguments("tcp", server, folder, *more))
            assert sum(bool(row["connect_s"]) for row in _rows(folder)) == expected


def test_folder_is_a_session_whose_files_are_as_recorded(tmp_path: Path) -> None:
    with serving("centauruscomm") as server:
        call(*_arguments("centauruscomm", server, tmp_path, "--vary", "reply", "--sizes", "64", "--sessions", "2"))
    manifest = read_manifest(tmp_path)
    assert manifest is not None
    assert [log.path for log in manifest.files] == ["transactions.csv"]
    assert list(changed_files(tmp_path, manifest)) == []
    assert known(manifest.variables.measurement).more["experiments"][0]["sizes"] == [64]
    assert "measurement" in call("inspect", tmp_path).stdout


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_killed_run_loses_and_repeats_nothing(protocol: str, tmp_path: Path) -> None:
    folder, kills, total = tmp_path / "run", 2, 120
    written = folder / "transactions.csv"
    with serving(protocol, "-o", str(tmp_path / "served")) as server, Relay(protocol, server) as relay:
        arguments = _arguments(
            protocol, relay.address, folder, "--vary", "request", "--sizes", "64,128", "--sessions", "60"
        )
        kept = b""
        for _ in range(kills):
            enough = kept.count(b"\n") + 15
            relay.is_open = lambda enough=enough: _lines(written) < enough  # type: ignore[misc]
            with subprocess.Popen([*COMMAND, *arguments], env=ENVIRONMENT, stdout=subprocess.PIPE) as client:
                _wait_for_lines(written, enough, client)
                client.kill()
            before = written.read_bytes()
            assert before.startswith(kept)
            kept = before[: before.rfind(b"\n") + 1]
            with written.open("ab") as stream:
                stream.write(b"99,half a li")  # what a crash in the middle of a write leaves
        relay.is_open = lambda: True
        call(*arguments)
    assert written.read_bytes().startswith(kept)
    rows = _rows(folder)
    assert [int(row["transaction"]) for row in rows] == list(range(1, total + 1))
    served = Counter(
        json.loads(line)["transaction"]
        for line in (tmp_path / "served" / "transactions.jsonl").read_text().splitlines()
    )
    assert set(served) == set(range(1, total + 1))
    assert served.total() <= total + kills, "more than what was in the middle was done again"


def _lines(path: Path) -> int:
    return path.read_bytes().count(b"\n") if path.exists() else 0


def _wait_for_lines(path: Path, count: int, client: subprocess.Popen[Any]) -> None:
    deadline = time.monotonic() + 60
    while _lines(path) < count:
        assert client.poll() is None, "it ended by itself"
        assert time.monotonic() < deadline
        time.sleep(0.002)


def test_client_without_one_finished_transaction_is_an_error(tmp_path: Path) -> None:
    with serving("tcp") as server, Relay("tcp", server) as relay:
        relay.is_open = lambda: False
        arguments = ["--vary", "reply", "--sizes", "64", "--sessions", "3", "--timeout", "0.2"]
        told = call(*_arguments("tcp", relay.address, tmp_path, *arguments), status=1)
    assert [row["outcome"] for row in _rows(tmp_path)] == ["dropped"] * 3
    assert "all transactions were dropped (3 of 3)" in told.stderr


def test_finished_run_is_not_run_again(tmp_path: Path) -> None:
    with serving("tcp") as server:
        arguments = _arguments("tcp", server, tmp_path, "--vary", "reply", "--sizes", "64", "--sessions", "2")
        call(*arguments)
    before = (tmp_path / "transactions.csv").read_bytes()
    call(*arguments)  # the server is gone, and not needed
    assert (tmp_path / "transactions.csv").read_bytes() == before


def test_folder_of_another_plan_is_refused(tmp_path: Path) -> None:
    with serving("tcp") as server:
        call(*_arguments("tcp", server, tmp_path, "--vary", "reply", "--sizes", "64", "--sessions", "1"))
        said = call(
            *_arguments("tcp", server, tmp_path, "--vary", "reply", "--sizes", "65", "--sessions", "1"), status=1
        )
    assert "does not belong to this plan" in said.stderr


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_server_that_is_not_there_is_an_error(protocol: str, tmp_path: Path) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
        arguments = _arguments(protocol, f"127.0.0.1:{port}", tmp_path, "--vary", "reply", "--sizes", "64")
        said = call(*arguments, status=1)
    assert "cannot be reached" in said.stderr
    assert f"measure serve --protocol {protocol}" in said.stderr


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_dropped_transactions_are_lines_and_no_error(protocol: str, tmp_path: Path) -> None:
    """The way to the server is closed after the first ones; those after it have no reply."""
    arguments = ["--vary", "request", "--sizes", "64", "--sessions", "8", "--timeout", "1"]
    argv = [*COMMAND, "measure", "serve", "--protocol", protocol, "--listen", "127.0.0.1:0"]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, text=True, env=ENVIRONMENT) as server:
        try:
            assert server.stdout is not None
            address = server.stdout.readline().split(" at ")[1].strip()
            with Relay(protocol, address) as relay:
                relay.is_open = lambda: _lines(tmp_path / "transactions.csv") < 3
                command = [*COMMAND, *_arguments(protocol, relay.address, tmp_path, *arguments)]
                with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=ENVIRONMENT) as client:
                    words, _ = client.communicate(timeout=100)
                assert client.returncode == 0
        finally:
            server.kill()
            server.communicate()
    rows = _rows(tmp_path)
    assert len(rows) == 8
    dropped = [row for row in rows if row["outcome"] == "dropped"]
    assert dropped
    assert dropped == rows[-len(dropped) :]
    assert all(row["why"] for row in dropped)
    assert all(not row["rtt_s"] for row in dropped if row["why"] in ("request", "reply", "connect"))
    assert words.splitlines()[1].split()[3:5] == [str(8 - len(dropped)), str(len(dropped))]


def _end(server: subprocess.Popen[str]) -> tuple[str, list[str]]:
    """Send SIGTERM to a server; return its summary, and the lines of standard error."""
    server.terminate()
    words, errors = server.communicate(timeout=60)
    return words, errors.splitlines()


@contextlib.contextmanager
def _watched(protocol: str, folder: Path, *before: str) -> Iterator[tuple[str, subprocess.Popen[str]]]:
    """Start a server that records in a folder; yield where it listens, and the process with both outputs."""
    argv = [*before, *COMMAND, "measure", "serve", "--protocol", protocol, "--listen", "127.0.0.1:0", "-o", str(folder)]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=ENVIRONMENT) as server:
        try:
            assert server.stdout is not None
            yield server.stdout.readline().split(" at ")[1].strip(), server
        finally:
            server.kill()


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_sigterm_ends_the_server_with_its_summary(protocol: str, tmp_path: Path) -> None:
    with _watched(protocol, tmp_path / "served") as (address, server):
        call(*_arguments(protocol, address, tmp_path / "run", "--vary", "reply", "--sizes", "64", "--sessions", "2"))
        assert _end(server) == ("the server answered 2 transactions\n", [])
    assert server.returncode == 0
    assert _lines(tmp_path / "served" / "transactions.jsonl") == 2


def _fill(folder: Path) -> None:
    with contextlib.suppress(OSError), (folder / "rest").open("wb", buffering=0) as rest:
        while rest.write(bytes(4096)):
            pass


def _free(folder: Path) -> None:
    (folder / "rest").unlink()


def _make_read_only(folder: Path) -> None:
    subprocess.run(["mount", "-o", "remount,ro", folder], check=True)


def _make_writable(folder: Path) -> None:
    subprocess.run(["mount", "-o", "remount,rw", folder], check=True)


def _break(folder: Path) -> None:
    """Make each write fail as one to a broken disk: nothing is mapped at address 0 of the server."""
    (folder / "transactions.jsonl").symlink_to("/proc/self/mem")


def _mend(folder: Path) -> None:
    (folder / "transactions.jsonl").unlink()


@pytest.mark.root
@pytest.mark.parametrize(
    ("protocol", "spoil", "repair", "reason"),
    [
        ("tcp", _fill, _free, "No space left on device"),
        ("centauruscomm", _fill, _free, "No space left on device"),
        ("wtcp", _make_read_only, _make_writable, "Read-only file system"),
        ("tcp", _break, _mend, "Input/output error"),
    ],
)
def test_log_that_cannot_be_written_ends_no_service_and_is_counted(
    protocol: str, spoil: Callable[[Path], None], repair: Callable[[Path], None], reason: str, tmp_path: Path
) -> None:
    (disk := tmp_path / "disk").mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k", "none", disk], check=True)
    try:
        spoil(disk)
        more = ("--vary", "reply", "--sizes", "64", "--sessions")
        with _watched(protocol, disk) as (address, server):
            call(*_arguments(protocol, address, tmp_path / "lost", *more, "20"))
            repair(disk)
            call(*_arguments(protocol, address, tmp_path / "written", *more, "2"))
            words, errors = _end(server)
        rows = [json.loads(line) for line in (disk / "transactions.jsonl").read_text().splitlines()]
    finally:
        subprocess.run(["umount", disk], check=True)
    assert words == "the server answered 22 transactions\n"
    assert server.returncode == 1
    assert [line.startswith(("Warning: ", "Error: ")) for line in errors] == [True, True]
    assert f"cannot write the records of transactions ({reason})" in errors[0]
    assert f"20 of 22 records were not written ({reason})" in errors[1]
    assert [row["transaction"] for row in rows] == [1, 2]


@pytest.mark.parametrize("where", ["", "[[experiment]]\nvary = 'reply'\nsizes = [128]\n"])
def test_label_with_several_values_is_refused(where: str, tmp_path: Path) -> None:
    plan = tmp_path / "plan.toml"
    labels = 'labels = { place = ["inside", "outside"] }\n'
    plan.write_text(f'protocol = "tcp"\n{where}{labels}')
    told = call("measure", "run", "--virtual", "--over", "cdpd", "--plan", plan, "-o", tmp_path / "run", status=1)
    assert "label place has several values; write an [[experiment]] with labels for each" in told.stderr
    assert told.stderr.count("\n") == 1


def test_plan_runs_its_experiments_in_order(tmp_path: Path) -> None:
    with serving("centauruscomm") as server:
        plan = tmp_path / "plan.toml"
        plan.write_text(
            f"""
            protocol = "centauruscomm"
            server = "{server}"
            timeout_s = 30
            [labels]
            location = "downtown"
            [[experiment]]
            vary = "request"
            sizes = [128]
            sessions = 2
            labels = {{ mobility = "still" }}
            [[experiment]]
            vary = "reply"
            sizes = [256, 64]
            sessions = 1
            other_bytes = 100
            """
        )
        folder = tmp_path / "run"
        call("measure", "run", "--plan", plan, "--label", "time=noon", "-o", folder)
        call("measure", "run", "--plan", plan, "--label", "time=noon", "-o", folder)
    told = [
        (row["request_bytes"], row["reply_bytes"], row["label_location"], row["label_mobility"], row["label_time"])
        for row in _rows(folder)
    ]
    assert told == [
        ("128", "64", "downtown", "still", "noon"),
        ("128", "64", "downtown", "still", "noon"),
        ("100", "256", "downtown", "", "noon"),
        ("100", "64", "downtown", "", "noon"),
    ]


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("protocol = ", "not valid TOML"),
        ('protocol = "tcp"\nserver = "x:1"\nspeed = 3', "unknown key 'speed'"),
        ('protocol = "tcp"', "a required key is missing"),
        (
            'protocol = "sctp"\nserver = "x:1"\n[[experiment]]\nvary = "reply"\nsizes = [64]',
            "'sctp' is not a valid value",
        ),
        ('protocol = "tcp"\nserver = "x:1"\n[[experiment]]\nvary = "reply"\nsizes = [3]', "'3' is not a valid value"),
        ('protocol = "tcp"\nserver = "x:1"\n[[experiment]]\nvary = "reply"\nsizes = ["a"]', "must be whole numbers"),
        ('protocol = "tcp"\nserver = "x:1"', "experiment: 'none'"),
    ],
)
def test_plan_that_cannot_be_is_one_sentence(text: str, reason: str, tmp_path: Path) -> None:
    plan = tmp_path / "plan.toml"
    plan.write_text(text)
    assert reason in call("measure", "run", "--plan", plan, "-o", tmp_path / "run", status=1).stderr


def test_wrong_options_are_told(tmp_path: Path) -> None:
    assert "--sizes" in call("measure", "run", "--protocol", "tcp", "-o", tmp_path, status=2).stderr
    assert "KEY=VALUE" in call("measure", "run", "--label", "x", "-o", tmp_path, status=2).stderr
    said = call(*_arguments("tcp", "serial:/dev/null", tmp_path / "a", "--vary", "reply", "--sizes", "64"), status=1)
    assert "TCP needs HOST:PORT" in said.stderr
    said = call(*_arguments("tcp", "somewhere", tmp_path / "b", "--vary", "reply", "--sizes", "64"), status=1)
    assert "must be HOST:PORT or serial:PATH" in said.stderr


def test_key_and_extensions_hold_at_both_ends(tmp_path: Path) -> None:
    key = tmp_path / "key"
    key.write_text("sixteen or more bytes\n")
    options = ("--key-file", str(key), "--extension", "early-start", "--extension", "path-mtu")
    more = ("--vary", "reply", "--sizes", "4096", "--sessions", "3", "--timeout", "2")
    with serving("centauruscomm", *options) as server:
        call(*_arguments("centauruscomm", server, tmp_path / "with", *more, *options))
        said = call(*_arguments("centauruscomm", server, tmp_path / "without", *more), status=1)
    assert [row["outcome"] for row in _rows(tmp_path / "with")] == ["ok"] * 3
    assert "did not answer within 2 s" in said.stderr


def test_serial_line_carries_a_measurement(tmp_path: Path) -> None:
    with live_cable() as cable, serving("centauruscomm", listen=f"serial:{cable.near}") as server:
        assert server == f"serial:{cable.near}"
        more = ("--vary", "reply", "--sizes", "64,2048", "--sessions", "3", "--timeout", "30")
        call(*_arguments("centauruscomm", f"serial:{cable.far}", tmp_path, *more))
    rows = _rows(tmp_path)
    assert [row["outcome"] for row in rows] == ["ok"] * 6
    assert all(row["efficiency"] == "1.0" for row in rows)


def test_two_runs_do_not_share_a_folder(tmp_path: Path) -> None:
    with serving("tcp") as server, Relay("tcp", server) as relay:
        arguments = _arguments("tcp", relay.address, tmp_path, "--vary", "reply", "--sizes", "64", "--sessions", "3")
        relay.is_open = lambda: _lines(tmp_path / "transactions.csv") < 2
        with subprocess.Popen([*COMMAND, *arguments], env=ENVIRONMENT, stdout=subprocess.PIPE) as client:
            try:
                _wait_for_lines(tmp_path / "transactions.csv", 2, client)
                client.send_signal(signal.SIGSTOP)
                assert "another run is writing" in call(*arguments, status=1).stderr
            finally:
                client.kill()


def test_terminal_shows_how_far_it_is_and_when_it_ends(tmp_path: Path) -> None:
    """Each transaction takes 40 ms and more, so that the line is drawn again before the last."""
    with serving("tcp") as server, Relay("tcp", server, delay_s=0.02) as relay:
        more = ("--vary", "reply", "--sizes", "64", "--sessions", "40")
        shown = _shown_at_a_terminal(_arguments("tcp", relay.address, tmp_path, *more))
    assert re.search(rb"\d+ of 40 transactions, 0 dropped, expected end: \w+ \d\d:\d\d:\d\d", shown)


def _shown_at_a_terminal(arguments: list[str]) -> bytes:
    """Return what a command writes to a terminal, which is standard error, until it ends."""
    ours, theirs = os.openpty()
    terminal = ENVIRONMENT | {"TERM": "xterm", "COLUMNS": "100"}
    with os.fdopen(ours, "rb", buffering=0) as screen:
        with subprocess.Popen([*COMMAND, *arguments], env=terminal, stdout=subprocess.PIPE, stderr=theirs) as client:
            os.close(theirs)
            shown = b"".join(_chunks(screen, time.monotonic() + 100))
            client.communicate(timeout=60)
        assert client.returncode == 0
    return shown


def _chunks(screen: IO[bytes], deadline_s: float) -> Iterator[bytes]:
    """Yield what comes from a terminal until the last process that has it open ends."""
    while select.select([screen], [], [], max(0.0, deadline_s - time.monotonic()))[0]:
        try:
            chunk = screen.read(4096)
        except OSError:  # EIO: nobody has the other side
            return
        if not chunk:
            return
        yield chunk
    raise AssertionError("it did not end in time")


def test_client_that_takes_no_reply_loses_its_connection_only(tmp_path: Path) -> None:
    request = filled(Words(b"MQ", 1, 1, 200_000, 1000, b""), 64)
    with serving("tcp") as server:
        host, port = server.split(":")
        with socket.create_connection((host, int(port)), 30) as greedy:
            greedy.sendall(request * 50)
            with contextlib.suppress(ConnectionResetError):
                while greedy.recv(65_536):
                    pass  # until the server closes it
        with socket.create_connection((host, int(port)), 30) as rude:
            rude.sendall(b"GET / HTTP/1.1\r\nHost: somewhere\r\n\r\n")
            with contextlib.suppress(ConnectionResetError):
                assert rude.recv(100) == b""
        call(*_arguments("tcp", server, tmp_path, "--vary", "reply", "--sizes", "64", "--sessions", "2"))
    assert [row["outcome"] for row in _rows(tmp_path)] == ["ok", "ok"]
