"""The collector remote: OpenSSH's client and server, and a router whose tools are scripts with recorded output."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import multitracer as mt
import parsers
from collectors import _shell, remote
from collectors._log import Log
from collectors._profiles import profiles
from collectors._shell import LineFollower, bound_to_input
from collectors._stop import Stop
from collectors.modem import ModemLog
from tests.cli.program import ENVIRONMENT
from tests.cli.program import run as program
from tests.collectors.running import command, end, records, run, running, until

if TYPE_CHECKING:
    from collections.abc import Iterator

SSHD = shutil.which("sshd") or "/usr/sbin/sshd"

AHEAD_NS = -4_500_000_000
UQMI = '{\n\t"type": "lte",\n\t"rssi": -63,\n\t"rsrq": -11,\n\t"rsrp": -93,\n\t"snr": 15.2\n}\n'
SCRIPTS = {
    "uqmi": "exec cat {folder}/uqmi.txt",
    "ubus": "echo no such object; exit 4",
    "logread": '[ "$1" = -f ] || exit 1; exec tail -n 1 -f {folder}/log.txt',
    "date": f"/bin/date +%s%N | {{ read ns; echo $((ns + {AHEAD_NS})); }}",
}


class Router:
    """An sshd on a port of loopback, whose shell finds the scripts of a folder first."""

    port: int

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        with socket.create_server(("127.0.0.1", 0)) as free:
            self.port = free.getsockname()[1]
        for name, script in SCRIPTS.items():
            (folder / name).write_text(f"#!/bin/sh\n{script}\n".replace("{folder}", str(folder)))
            (folder / name).chmod(0o755)
        (folder / "uqmi.txt").write_text(UQMI)
        (folder / "log.txt").write_text("Tue Dec  1 07:10:11 2026 daemon.info dnsmasq[1]: of before\n")
        for name in ("host", "user"):
            subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", folder / name], check=True)
        (folder / "allowed").write_text((folder / "user.pub").read_text())
        self.ssh = folder / "ssh"
        options = (f"-p {self.port} -i {folder}/user -o UserKnownHostsFile={folder}/known "
                   "-o StrictHostKeyChecking=accept-new -o IdentitiesOnly=yes -F none")  # fmt: skip
        self.ssh.write_text(f'#!/bin/sh\nexec {shutil.which("ssh")} {options} "$@"\n')
        self.ssh.chmod(0o755)
        self._sshd: subprocess.Popen[bytes] | None = None

    def plug(self) -> None:
        """Start the server."""
        Path("/run/sshd").mkdir(exist_ok=True)
        options = {
            "Port": self.port, "ListenAddress": "127.0.0.1", "HostKey": self.folder / "host", "UsePAM": "no",
            "AuthorizedKeysFile": self.folder / "allowed", "StrictModes": "no", "PidFile": "none",
            "PermitRootLogin": "yes", "SetEnv": f"PATH={self.folder}:{os.environ['PATH']}", "PrintMotd": "no",
        }  # fmt: skip
        words = [word for name, value in options.items() for word in ("-o", f"{name}={value}")]
        argv = [SSHD, "-D", "-e", "-f", "/dev/null", *words]
        self._sshd = subprocess.Popen(argv, stderr=subprocess.DEVNULL, process_group=0)
        until(self._answers)

    def unplug(self) -> None:
        """End the server, and the sessions that it has."""
        if self._sshd is not None:
            children = Path(f"/proc/{self._sshd.pid}/task/{self._sshd.pid}/children").read_text().split()
            for pid in (*children, self._sshd.pid):
                subprocess.run(["kill", "-9", str(pid)], check=False, stderr=subprocess.DEVNULL)
            self._sshd.wait()
            self._sshd = None

    def _answers(self) -> bool:
        with socket.socket() as probe:
            return probe.connect_ex(("127.0.0.1", self.port)) == 0


@pytest.fixture
def router(tmp_path: Path) -> Iterator[Router]:
    folder = tmp_path / "router"
    folder.mkdir(mode=0o700)
    made = Router(folder)
    made.plug()
    yield made
    made.unplug()


def options_of(router: Router) -> tuple[object, ...]:
    return ("--to", "root@127.0.0.1", "--ssh", router.ssh, "--profile", "openwrt", "--hz", 10)


def test_modem_and_clock_of_a_router_are_in_the_tables(router: Router, tmp_path: Path) -> None:
    log = tmp_path / "remote.jsonl"
    with running("remote", log, *options_of(router)) as child:
        until(lambda: len(records(log, "answer")) > 8)
        assert end(child) == 0
    form, tables = parsers.read(log)
    assert form.name == "modem"
    assert isinstance(tables, dict)
    radio = tables["radio"]
    assert set(radio["rsrp_dbm"].tolist()) == {-93.0}
    assert (radio["asked_ns"] < radio["answered_ns"]).all()
    clock = tables["remote_clock"]
    true_ns = clock["remote_ns"] - AHEAD_NS
    assert len(clock)
    assert ((clock["time_ns"] <= true_ns) & (true_ns <= clock["until_ns"])).all()
    refused = [r for r in records(log, "answer") if r["command"].startswith("ubus")]
    assert {r["result"] for r in refused} == {""}
    assert tables["gaps"]["reason"].tolist() == []


def test_lines_of_the_routers_log_are_kept_as_they_come(router: Router, tmp_path: Path) -> None:
    log = tmp_path / "remote.jsonl"
    lines = (
        "Tue Dec  1 07:10:12 2026 daemon.notice netifd[812]: Interface 'wan' has lost the connection",
        "Tue Dec  1 07:10:13 2026 kern.err kernel: [  812.31] usb 1-1: reset \x1b[2J",
        "nothing like it",
    )
    with running("remote", log, *options_of(router)) as child:
        until(lambda: len(records(log, "answer")) > 3)
        until(lambda: records(log, "event"))
        time.sleep(1.1)
        before_ns = time.time_ns()
        with (router.folder / "log.txt").open("a") as file:
            file.writelines(f"{line}\n" for line in lines)
        until(lambda: len(records(log, "event")) == 4)
        assert end(child) == 0
    _, tables = parsers.read(log)
    assert isinstance(tables, dict)
    earlier, *rows = tables["remote_log"].rows()
    assert (earlier["text"], earlier["time_ns"]) == ("of before", None)
    programs = [(row["level"], row["program"]) for row in rows]
    assert programs == [("daemon.notice", "netifd"), ("kern.err", "kernel"), ("", "")]
    assert rows[0]["text"] == "Interface 'wan' has lost the connection"
    assert rows[1]["text"] == "[  812.31] usb 1-1: reset [2J"
    assert all(before_ns <= row["time_ns"] <= time.time_ns() for row in rows)


def test_router_that_goes_and_comes_is_a_gap_with_its_reason(router: Router, tmp_path: Path) -> None:
    log = tmp_path / "remote.jsonl"
    with running("remote", log, *options_of(router)) as child:
        until(lambda: len(records(log, "answer")) > 3)
        router.unplug()
        until(lambda: records(log, "missed"))
        router.plug()
        until(lambda: len([r for r in records(log, "port") if r["state"] == "opened"]) == 2)
        assert end(child) == 0
    _, tables = parsers.read(log)
    assert isinstance(tables, dict)
    assert set(tables["gaps"]["reason"].tolist()) <= {"connection lost", "refused", "ended"}


def test_router_that_knows_not_the_key_is_a_gap_with_that_reason(router: Router, tmp_path: Path) -> None:
    (router.folder / "allowed").write_text("")
    log = tmp_path / "remote.jsonl"
    with running("remote", log, *options_of(router)) as child:
        until(lambda: records(log, "missed"))
        assert end(child) == 0
    assert {r["why"] for r in records(log, "missed")} == {"not permitted"}


def test_router_whose_tools_all_fail_is_one_gap(router: Router, tmp_path: Path) -> None:
    (router.folder / "uqmi").write_text("#!/bin/sh\nexit 1\n")
    log = tmp_path / "remote.jsonl"
    with running("remote", log, *options_of(router)) as child:
        until(lambda: len(records(log, "missed")) > 20)
        assert end(child) == 0
    _, tables = parsers.read(log)
    assert isinstance(tables, dict)
    (gap,) = tables["gaps"].rows()
    assert gap["reason"] == "tool failed"
    assert gap["until_ns"] - gap["time_ns"] > 1e9


def test_capture_on_a_router_ends_with_a_killed_collector(router: Router, tmp_path: Path) -> None:
    pcap = tmp_path / "tcp-0.pcap"
    with running_packets(router, pcap) as child:
        until(lambda: pcap.exists() and pcap.stat().st_size)
        child.kill()
        child.wait()
        until(lambda: not _processes(str(router.ssh.parent / "user")))


def test_capture_that_ends_on_the_router_is_an_error_with_its_reason(router: Router, tmp_path: Path) -> None:
    """The router without tcpdump, or without the right to it: nothing is recorded, and nobody waits for it."""
    (router.folder / "tcpdump").write_text("#!/bin/sh\necho 'tcpdump: eth7: No such device exists' >&2; exit 1\n")
    (router.folder / "tcpdump").chmod(0o755)
    pcap = tmp_path / "tcp-0.pcap"
    done = run("remote", "--to", "root@127.0.0.1", "--ssh", router.ssh, "--packets", "-o", pcap)
    assert done.returncode == 1
    assert done.stderr == "Error: root@127.0.0.1: the capture ended: tcpdump: eth7: No such device exists\n"
    assert not pcap.exists()


@contextmanager
def running_packets(router: Router, pcap: Path) -> Iterator[subprocess.Popen[bytes]]:
    argv = command("remote", "--to", "root@127.0.0.1", "--ssh", router.ssh, "--packets", "-o", pcap)
    child = subprocess.Popen(argv)
    try:
        yield child
    finally:
        child.kill()
        child.wait()


def _processes(word: str, before: str = "ssh -p .* -i ") -> list[str]:
    """Return the processes, by default the clients of ssh that were started with a key."""
    done = subprocess.run(["pgrep", "-f", f"{before}{word}"], capture_output=True, text=True, check=False)
    return done.stdout.split()


@pytest.mark.parametrize("host", ["-oProxyCommand=touch x", "a b", "", "$(id)", "x;id"])
def test_host_that_could_be_an_option_or_a_command_is_refused(host: str, tmp_path: Path) -> None:
    done = run("remote", f"--to={host}", "-o", tmp_path / "log.jsonl")
    assert done.returncode == 1
    assert "this is no host for ssh" in done.stderr
    assert not (tmp_path / "log.jsonl").exists()


def test_capture_has_the_packets_of_the_router_in_a_host_of_its_own(router: Router, tmp_path: Path) -> None:
    folder = tmp_path / "drive"
    script = ("import socket; s = socket.create_server(('127.0.0.1', 0)); "
              "c = socket.create_connection(s.getsockname()); a, _ = s.accept(); a.sendall(b'x' * 90_000); a.close(); "
              "print(len(c.makefile('rb').read()))")  # fmt: skip
    environment = {**ENVIRONMENT, **os.environ, "PATH": f"{router.folder}/bin:{os.environ['PATH']}"}
    (router.folder / "bin").mkdir()
    (router.folder / "bin" / "ssh").symlink_to(router.ssh)
    options = ("--remote", "root@127.0.0.1:openwrt", "--with", "remote", "--with", "tcpdump", "--with", "host_clock")
    program("capture", "-o", folder, "-i", "lo", *options, "--ready", "15", "--plain", "--",
            sys.executable, "-c", script, env=environment)  # fmt: skip
    captured = sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*.pcap"))
    assert captured == ["127.0.0.1/tcp-0.pcap", "mobile/tcp-0.pcap", "mobile/udp-0.pcap"]
    session = mt.open(folder)
    started = session.connections.query("syn_seen")
    hosts: dict[tuple[int, int], set[str]] = {}
    for host, *ports in zip(started["host"], started["sport"], started["dport"], strict=True):
        hosts.setdefault((ports[0], ports[1]), set()).add(host)
    assert {"127.0.0.1", "mobile"} in hosts.values(), "both captured the transfer"
    assert not any("127.0.0.1" in at for (_, port), at in hosts.items() if port == router.port)
    rows = session.align().edges
    ours = rows[rows["method"] == "remote clock between two readings"]
    assert (abs(ours["offset_ns"] - -AHEAD_NS) <= ours["uncertainty_ns"]).all()


FOLLOWED = '[ "$1" = -f ] || exit 1; echo $$ > {folder}/followed.pid; exec sleep 1000'


def followed(router: Router) -> Path:
    """Return the process that follows the log on the router, when it runs; a later connection starts another one."""
    pid = router.folder / "followed.pid"
    until(lambda: pid.exists() and pid.read_text().endswith("\n"))
    return Path("/proc", pid.read_text().strip())


@pytest.mark.parametrize("way", ["stopped", "killed", "ssh killed"])
def test_program_that_waits_on_the_router_ends_with_the_connection(router: Router, tmp_path: Path, way: str) -> None:
    """It writes nothing, so that it would never notice that nobody reads."""
    (router.folder / "logread").write_text(f"#!/bin/sh\n{FOLLOWED}\n".replace("{folder}", str(router.folder)))
    log = tmp_path / "remote.jsonl"
    with running("remote", log, *options_of(router)) as child:
        waiting = followed(router)
        assert waiting.exists()
        if way == "stopped":
            assert end(child) == 0
        elif way == "killed":
            child.kill()
        else:
            for pid in _processes(str(router.folder / "user")):
                os.kill(int(pid), signal.SIGKILL)
        until(lambda: not waiting.exists())


@pytest.mark.parametrize("shell", ["dash", "bash", "busybox"])
def test_program_that_waits_ends_with_the_input_and_the_wait_with_the_program(shell: str, tmp_path: Path) -> None:
    if shutil.which(shell) is None:
        pytest.skip(f"{shell} is not installed")
    (tmp_path / "sh").symlink_to(str(shutil.which(shell)))
    environment = {"PATH": f"{tmp_path}:{os.environ['PATH']}"}

    def started(line: str) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            ["sh", "-c", bound_to_input(line)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment,
            start_new_session=True,
        )  # fmt: skip

    with started("echo it began; sleep 1000 & sleep 1000") as waiting:
        assert waiting.stdout is not None
        assert waiting.stdin is not None
        assert waiting.stdout.readline() == b"it began\n"
        waiting.stdin.close()
        assert waiting.stdout.read() == b"", "the pipe closes when the last of its processes has ended"
    for before in ("", "exec "):
        with started(f"{before}echo 'one; \"two\"'") as short:
            assert short.stdout is not None
            assert short.stdout.read() == b'one; "two"\n'


def test_silent_network_ends_what_waits_where_the_shell_can_tell(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_shell, "_IDLE_S", 1)
    argv = ["bash", "-c", bound_to_input("echo it began; sleep 1000").replace("exec sh", "exec bash")]
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True) as child:
        assert child.stdout is not None
        assert child.stdout.read() == b"it began\n", "read returns as all have ended"


def test_between_two_rounds_the_machine_is_shown_that_we_listen(
    router: Router, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else its log would end between rounds that are more than a minute apart."""
    monkeypatch.setattr(_shell, "BEAT_NS", 10**8)
    monkeypatch.setattr(remote, "BEAT_NS", 10**8)
    taken = router.folder / "taken"
    with Log(tmp_path / "log.jsonl") as log, Stop() as stop:
        modem = remote.RemoteModem([str(router.ssh)], host="r", profile=None, log=ModemLog(log), stop=stop)
        modem._events = LineFollower(["sh", "-c", f"exec cat > {taken}"])
        assert modem.listen(time.monotonic_ns() + 10**9)
        until(lambda: taken.read_bytes().count(b"\n") > 2)
        modem.close()


def test_of_a_linux_machines_journal_only_what_concerns_the_link_is_followed(router: Router, tmp_path: Path) -> None:
    journal = [("kernel", "usb 1-1: reset"), ("sshd", "Accepted publickey for root"), ("ModemManager", "state changed"),
               ("sudo", "root : COMMAND=/bin/secret"), ("hostapd", "AP-ENABLED")]  # fmt: skip
    lines = "\n".join(f"Dec 11 07:10:1{n} car {name}: {text}" for n, (name, text) in enumerate(journal))
    (router.folder / "journal.txt").write_text(f"{lines}\n")
    fake = (
        'for word; do case "$before" in -t) names="$names $word";; esac; before=$word; done\n'
        f'while read -r month day at host name rest; do case " $names " in *" ${{name%:}} "*) '
        f'echo "$month $day $at $host $name $rest";; esac; done < {router.folder}/journal.txt; exec sleep 1000'
    )
    (router.folder / "journalctl").write_text(f"#!/bin/sh\n{fake}\n")
    (router.folder / "journalctl").chmod(0o755)
    log = tmp_path / "remote.jsonl"
    options = [each if each != "openwrt" else "linux" for each in options_of(router)]
    with running("remote", log, *options) as child:
        until(lambda: len(records(log, "event")) == 3)
        assert end(child) == 0
    _, tables = parsers.read(log)
    assert isinstance(tables, dict)
    assert tables["remote_log"]["program"].tolist() == ["kernel", "ModemManager", "hostapd"]
    assert "secret" not in log.read_text()


@pytest.mark.skipif(shutil.which("journalctl") is None, reason="journalctl is not installed")
def test_real_journalctl_knows_what_the_profile_asks() -> None:
    follow = profiles("remote")["linux"].follow.replace(" -f ", " --no-pager ")
    done = subprocess.run(["sh", "-c", follow], capture_output=True, text=True, check=False)
    assert "nvalid" not in done.stderr
    assert "unrecognized" not in done.stderr
    assert follow.count(" -t ") > 5
