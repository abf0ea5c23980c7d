"""What a capture says before it starts: options, privileges, ports, and a folder of its own."""

from __future__ import annotations

import os
import pty
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from multitracer.manifest import Role
from tests.recorder.capturing import command, manifest


@pytest.mark.skipif(os.geteuid() != 0 or shutil.which("setpriv") is None, reason="drops privileges with setpriv")
def test_port_that_may_not_be_opened_is_told_with_the_group_that_may(tmp_path: Path) -> None:
    device, port = pty.openpty()
    name = os.ttyname(port)
    os.chown(name, 1, 1)
    group = Path(name).group()
    Path(name).chmod(0o060)
    argv = ["setpriv", "--bounding-set=-dac_override,-dac_read_search"]
    try:
        done = subprocess.run(
            [*argv, *command(tmp_path / "drive", "--with", "modem", "--modem", name, "--duration", "2.5")],
            capture_output=True, text=True, check=False, timeout=60,
        )  # fmt: skip
    finally:
        os.close(device)
        os.close(port)
    assert done.returncode == 0, done.stderr
    advice = f"run `sudo usermod -aG {group} $USER`"
    assert f"Warning: {name}: no permission to open this port; {advice}" in done.stderr
    assert "modem no values (port not permitted)" in done.stderr


def test_command_that_is_not_there_costs_no_folder(tmp_path: Path) -> None:
    folder = tmp_path / "drive"
    argv = command(folder, "--with", "tcp_info", "--", "/nonexistent")
    done = subprocess.run(argv, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 1
    assert done.stderr == "Error: /nonexistent: command not found; check the command after --\n"
    assert not folder.exists()


@pytest.mark.parametrize("words", [("capture",), ("testbed", "run", "clean-bulk", "--virtual")])
def test_folder_whose_own_folder_is_missing_is_refused_as_by_every_command(
    words: tuple[str, ...], tmp_path: Path
) -> None:
    folder = tmp_path / "no" / "such"
    argv = [sys.executable, "-m", "multitracer", *words, "-o", str(folder)]
    done = subprocess.run(argv, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 1
    assert done.stderr == f"Error: {folder}: the folder does not exist; create the folder first\n"
    assert not list(tmp_path.iterdir())


@pytest.mark.skipif(shutil.which("tcpdump") is None, reason="tcpdump reads the filter")
def test_filter_that_makes_no_sense_is_refused_before_the_drive(tmp_path: Path) -> None:
    folder = tmp_path / "drive"
    argv = command(folder, "--with", "tcp_info", "--duration", "1", "--filter")
    done = subprocess.run([*argv, "tcp prot 9"], capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 1
    assert done.stderr == (
        "Error: --filter tcp prot 9: can't parse filter expression: syntax error; see pcap-filter(7)\n"
    )
    assert not folder.exists()
    done = subprocess.run([*argv, "ifindex 1"], capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 0, "it makes sense on all interfaces"


@pytest.mark.root
def test_interface_that_comes_later_is_told_and_recorded_from_then_on(tmp_path: Path) -> None:
    folder = tmp_path / "drive"
    plug = (
        'until grep -q "No such device" manifest.json; do sleep 0.1; done; '
        "ip link add wwan7 type veth peer name p7 && ip link set p7 up && ip link set wwan7 up; "
        "ip address add 192.0.2.1/24 dev wwan7; "
        "ip neighbour add 192.0.2.2 lladdr 02:00:00:00:00:02 dev wwan7 nud permanent; "
        "until ls mobile/tcp-*.pcap; do sleep 0.1; done; timeout 1 bash -c '</dev/tcp/192.0.2.2/80' || true"
    )
    options = ("--with", "tcpdump", "-i", "wwan7", "--duration", "40", "--", "sh", "-c", f"cd {folder}; {plug}")
    argv = ["unshare", "-n", *command(folder, *options)]
    done = subprocess.run(argv, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 0, done.stderr
    assert "Warning: the interface wwan7 does not exist yet (existing interfaces: lo); the" in done.stderr
    outcomes = [run["outcome"] for run in manifest(folder)["collectors"]]
    assert "No such device exists" in outcomes[0]
    assert outcomes[-1] == "ended"


def test_folder_with_something_in_it_is_refused(tmp_path: Path) -> None:
    (tmp_path / "evidence").write_text("kept")
    done = subprocess.run(command(tmp_path), capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "is not empty, and logs are never overwritten" in done.stderr


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("rolle = 'mobile'", 'unknown key "rolle"'),
        ("role = 'both'", '"role" must be one of mobile, fixed, sender'),
        ("duration = 'long'", "must be of the type float"),
        ("with = ['tcp_nfo']", "tcp_nfo: unknown collector"),
        ("= 3", "docs/capture.md lists"),
        ("clap = 'nowhere'", "nowhere: the address must have the form HOST:PORT"),
    ],
)
def test_declared_session_that_makes_no_sense(tmp_path: Path, text: str, sentence: str) -> None:
    declared = tmp_path / "session.toml"
    declared.write_text(text)
    argv = command(tmp_path / "drive", "--session", declared)
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert sentence in done.stderr
    assert not (tmp_path / "drive").exists()


def test_declared_session_is_recorded_as_declared(tmp_path: Path) -> None:
    declared = tmp_path / "session.toml"
    declared.write_text('role = "fixed"\nwith = ["tcp_info"]\nduration = 1\n[labels]\nlocation = "tower 7"\n')
    argv = command(tmp_path / "drive", "--session", declared)
    done = subprocess.run(argv, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 0, done.stderr
    assert list(manifest(tmp_path / "drive")["hosts"]) == ["fixed"]
    assert manifest(tmp_path / "drive")["variables"] == {"location": "tower 7"}


@pytest.mark.skipif(
    os.geteuid() != 0 or not (shutil.which("setpriv") and shutil.which("tcpdump")),
    reason="drops privileges with setpriv, and needs tcpdump",
)
def test_ordinary_user_records_the_rest_and_is_told_each_repair(tmp_path: Path) -> None:
    """Of root's rights this user has one, for where tests are installed: to read files."""
    folder = tmp_path / "drive"
    os.chown(tmp_path, 65534, 65534)
    caps = [f"--{which}=-all,+dac_read_search" for which in ("inh-caps", "ambient-caps", "bounding-set")]
    argv = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", *caps]
    done = subprocess.run(
        [*argv, *command(folder, "--rehearse", "--duration", "3")],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    for name, repair in (
        ("tcpdump", f"`sudo setcap cap_net_raw+ep {shutil.which('tcpdump')}`"),
        ("tcp_probe", "`sudo " if Path("/sys/kernel/tracing/events/tcp/tcp_probe").exists() else ""),
        ("sniffer", "`sudo "),
    ):
        (said,) = (line for line in done.stderr.splitlines() if f"{name} is not used" in line)
        assert repair in said
    outcomes = {run["name"]: run["outcome"] for run in manifest(folder)["collectors"]}
    assert outcomes | {"rlp": "its port may be another test's"} == {
        **dict.fromkeys(("gps", "host_clock", "modem", "tcp_info"), "ended"),
        "rlp": "its port may be another test's",
    }


@pytest.mark.root
@pytest.mark.skipif(shutil.which("setcap") is None, reason="setcap is not installed")
def test_user_whose_tcpdump_has_file_capabilities_records_packets() -> None:
    """As the advice of `doctor` makes it; the user's other programs may no more than before."""
    argv = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "--inh-caps=-all,+dac_read_search",
            "--ambient-caps=-all,+dac_read_search", "--bounding-set=-all,+dac_read_search,+net_raw"]  # fmt: skip
    knock = "for i in $(seq 20); do (: < /dev/tcp/127.0.0.1/9) 2>/dev/null; sleep 0.1; done"
    with tempfile.TemporaryDirectory() as name:  # pytest's own are closed to others, also on the way to them
        home = Path(name)
        home.chmod(0o755)
        shutil.copy(str(shutil.which("tcpdump")), home / "tcpdump")
        subprocess.run(["setcap", "cap_net_raw+ep", home / "tcpdump"], check=True)
        os.chown(home, 65534, 65534)
        packets = home / "drive" / "mobile" / "tcp-0.pcap"
        done = subprocess.run(
            [*argv, *command(home / "drive", "-i", "lo", "--with", "tcpdump", "--", "bash", "-c", knock)],
            capture_output=True, text=True, check=False, timeout=90,
            env={**os.environ, "PATH": f"{home}:{os.environ['PATH']}"},
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        assert packets.stat().st_uid == 65534
        assert packets.stat().st_size > 20 * 66


@pytest.mark.parametrize("role", [*Role])
def test_each_role_of_a_manifest_is_one_of_capture(role: Role, tmp_path: Path) -> None:
    folder = tmp_path / "drive"
    argv = command(folder, "--role", role, "--with", "host_clock", "--ready", "60", "--", "true")
    done = subprocess.run(argv, capture_output=True, text=True, check=False, timeout=90)
    assert done.returncode == 0, done.stderr
    assert [*manifest(folder)["hosts"]] == [role]
    assert (folder / role / "clocks-0.jsonl").exists()


NO_RIGHT = ["setpriv", "--bounding-set=-net_raw,-net_admin,-sys_admin"]


@pytest.mark.root
@pytest.mark.parametrize(
    ("before", "options", "why"),
    [
        ([], ["-i", "nosuch0"], "nosuch0: No such device exists"),
        (["env", "PATH=/nowhere"], ["-i", "nosuch0"], "nosuch0: cannot capture on this interface: No such device"),
        (NO_RIGHT, [], "no packet collector works on this machine"),
        (["unshare", "-n", "sh", "-c", 'ip link set lo up && exec "$@"', "sh"], [], "nothing but sync probes passed"),
    ],
)
def test_recording_without_the_packets_that_it_was_for_has_failed(
    before: list[str], options: list[str], why: str, tmp_path: Path
) -> None:
    folder = tmp_path / "drive"
    argv = [*before, *command(folder, *options, "--duration", "6")]
    done = subprocess.run(argv, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 1
    assert done.stdout == ""
    (said,) = (line for line in done.stderr.splitlines() if line.startswith("Error"))
    assert said.startswith(f"Error: {folder}: no packets were recorded, because ")
    assert why in said
    assert list((folder / "mobile").glob("tcp_state-*")), "the rest is kept"
    assert {run["outcome"] for run in manifest(folder)["collectors"]} >= {"ended"}


@pytest.mark.root
def test_recording_that_was_not_for_packets_needs_none(tmp_path: Path) -> None:
    options = "--without", "tcpdump", "--without", "sniffer", "-i", "nosuch0", "--duration", "1"
    argv = command(tmp_path / "drive", *options)
    done = subprocess.run(argv, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 0, done.stderr


@pytest.mark.root
def test_packets_are_recorded_in_a_namespace_whose_loopback_is_down(tmp_path: Path) -> None:
    """So are the hosts of the testbed."""
    folder = tmp_path / "drive"
    first = 'ip link add d0 type veth peer d1 && ip address add 192.0.2.1/24 dev d0 && exec "$@"'
    argv = ["unshare", "-n", "sh", "-c", first, "sh", *command(folder, "--duration", "4")]
    done = subprocess.run(argv, capture_output=True, text=True, check=False, timeout=60)
    assert "nothing but sync probes passed" in done.stderr, "the interfaces were opened"
    assert "tcpdump" in {run["name"] for run in manifest(folder)["collectors"]}
    assert "`ip link set lo up`" in done.stderr
