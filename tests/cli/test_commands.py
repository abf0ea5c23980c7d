"""`inspect`, `formats`, `doctor`, `completion`, `--version`, and the program as a whole."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

import multitracer
import parsers
from multitracer.manifest import Host, Manifest, Variables, read_manifest, write_manifest
from tests.cli.live import loopback_transfer
from tests.cli.program import COMMAND, ENVIRONMENT, call, run
from tests.recording.captures import SS_LOG, START_NS, Conversation, write_conversations, write_pcap

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


def test_version() -> None:
    assert run("--version").stdout == f"multitracer {multitracer.__version__}\n"


def test_no_command_shows_the_help() -> None:
    assert "Usage: multitracer" in call(status=2).stderr


def test_inspect_a_capture(tmp_path: Path) -> None:
    second = Conversation("fd00::1", "fd00::2", start_ns=START_NS + 1)
    shown = call("inspect", write_conversations(tmp_path / "a.pcap", Conversation(), second)).stdout
    facts = dict(line.strip().split("  ", 1) for line in shown.splitlines() if line.startswith("  "))
    assert facts["format"].strip() == "pcap, little-endian, ns"
    assert facts["packets"].strip().startswith("32 packets")
    assert facts["protocols"].strip() == "tcp: 32"
    assert facts["clock"].strip() == "never steps backwards"
    assert "2 TCP connections" in shown
    assert "[fd00::1]:40000" in shown


def test_inspect_a_clock_that_steps_back(tmp_path: Path) -> None:
    conversation = Conversation()
    time_ns, frame = conversation.packets[7]
    conversation.packets[7] = (time_ns - 2_000_000_000, frame)
    shown = call("inspect", write_pcap(tmp_path / "a.pcap", conversation.packets)).stdout
    assert "1 step backwards, the largest " in shown
    assert "Trust: good" not in shown


def test_inspect_a_session(sample_session: Path) -> None:
    shown = run("inspect", sample_session).stdout
    for words in (
        "Session cellular_upload",
        "host mobile",
        "role sender",
        "scenario",
        "logs are unchanged since the recording",
    ):
        assert words in shown


def test_inspect_names_logs_that_changed(tmp_path: Path, sample_session: Path) -> None:
    folder = tmp_path / "session"
    shutil.copytree(sample_session, folder)
    log = next((folder / "core").iterdir())
    log.write_bytes(log.read_bytes()[::-1])
    shown = call("inspect", folder).stdout
    assert f"{log}: the content" in shown
    assert "as they were recorded (" not in shown


def test_inspect_of_a_huge_manifest_stays_short(tmp_path: Path) -> None:
    long = "x" * 1_000
    facts = {f"{long}{m}": long for m in range(50)}
    hosts = {f"{long}{n}": Host(more=facts) for n in range(50)}
    variables = Variables.of(dict.fromkeys(hosts, long))
    write_manifest(tmp_path, Manifest(long, hosts=hosts, variables=variables))
    shown = call("inspect", tmp_path).stdout
    assert "30 more in manifest.json" in shown
    assert len(shown) < 300_000


def test_inspect_shows_the_members_of_a_list(tmp_path: Path) -> None:
    hosts = {"mobile": Host(addresses=["10.0.0.1", "fd00::1"], more={"nested": [[1], [2]]})}
    variables = Variables.of({"missing": ["tcp_probe"]})
    write_manifest(tmp_path, Manifest("call", hosts=hosts, variables=variables))
    lines = [line.split(maxsplit=1) for line in call("inspect", tmp_path).stdout.splitlines() if line]
    assert ["host", "mobile  addresses 10.0.0.1, fd00::1, nested (2 entries)"] in lines
    assert ["missing", "tcp_probe"] in lines


def test_inspect_shows_a_hostile_manifest_as_text(tmp_path: Path, sample_session: Path) -> None:
    folder = tmp_path / "session"
    shutil.copytree(sample_session, folder)
    manifest = read_manifest(folder)
    assert manifest is not None
    manifest.name = "\x1b[2J../../etc"
    manifest.variables = Variables.of({"note\n": "\x1b]0;x\x07", "nested": {"a": [1]}})
    write_manifest(folder, manifest)
    done = call("inspect", folder)
    assert "\x1b" not in done.stdout
    assert r"\x1b[2J../../etc" in done.stdout
    call("report", folder, cwd=tmp_path)
    assert {path.name for path in tmp_path.iterdir()} == {"session", "report.html"}


def test_formats_lists_every_format() -> None:
    names = {line.split()[0] for line in call("formats").stdout.splitlines()[1:]}
    assert names == {fmt.name for fmt in parsers.formats()}


def test_doctor_where_all_is_there() -> None:
    shown = run("doctor").stdout
    assert {"numpy", "plotly", "tcpdump", "packet"} <= {line.split()[1] for line in shown.splitlines()[1:] if line}
    assert "MISSING" not in shown


def test_doctor_says_what_is_missing_and_how_to_get_it(tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text("import sys\nsys.modules['plotly'] = None\n")
    path = os.pathsep.join([str(tmp_path), ENVIRONMENT["PYTHONPATH"]])
    done = subprocess.run(
        [*COMMAND, "doctor"],
        env={**ENVIRONMENT, "PYTHONPATH": path, "PATH": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    assert f"plotly: {sys.executable} -m pip install 'multitracer[figures]'" in done.stdout
    assert re.search("MISSING +plotly", done.stdout)
    assert re.search("absent +tshark", done.stdout)
    assert "tshark: install tshark with this system's package manager" in done.stdout


def test_doctor_asks_pip_only_for_what_an_index_has(tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text("import sys\nsys.modules['rich'] = None\n")
    path = os.pathsep.join([str(tmp_path), ENVIRONMENT["PYTHONPATH"]])
    done = subprocess.run(
        [*COMMAND, "doctor"], env={**ENVIRONMENT, "PYTHONPATH": path}, capture_output=True, text=True, check=False
    )
    assert done.returncode == 1
    assert f"rich: {sys.executable} -m pip install --force-reinstall rich" in done.stdout


@pytest.mark.skipif(os.geteuid() != 0 or shutil.which("setpriv") is None, reason="drops privileges with setpriv")
def test_doctor_without_privileges_names_the_command() -> None:
    powerless = ["setpriv", "--bounding-set=-net_raw,-net_admin"]
    shown = run("doctor", before=powerless).stdout
    assert re.search("absent +packet capture +Operation not permitted", shown)
    assert "packet capture: sudo setcap cap_net_raw+ep" in shown


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_scripts(shell: str) -> None:
    assert "_MULTITRACER_COMPLETE" in call("completion", shell).stdout


def test_bash_completes_commands_and_options(tmp_path: Path) -> None:
    """The script as bash runs it, with `multitracer` on the path."""
    program = tmp_path / "multitracer"
    program.write_text(f'#!/bin/sh\nexec {sys.executable} -m multitracer "$@"\n')
    program.chmod(0o755)
    environment = {**ENVIRONMENT, "PATH": f"{tmp_path}:{os.environ['PATH']}"}
    ask = _asker(call("completion", "bash").stdout, environment)
    assert ask("multitracer", "ins") == {"inspect"}
    assert ask("multitracer", "analyze", "--j") == {"--json"}
    assert ask("multitracer", "plot", "--theme", "") == {"light", "dark"}


def _asker(script: str, environment: dict[str, str]) -> Callable[..., set[str]]:
    def ask(*words: str) -> set[str]:
        question = f"COMP_WORDS=({' '.join(map(repr, words))}); COMP_CWORD={len(words) - 1}"
        lines = f'{script}\n{question}\n_multitracer_completion multitracer\nprintf "%s\\n" "${{COMPREPLY[@]}}"'
        done = subprocess.run(["bash", "-c", lines], env=environment, capture_output=True, text=True, check=True)
        return set(done.stdout.split())

    return ask


_SIX = ("tcpdump/*.pcap*", "zeek/**/*.pcap*", "pcapplusplus/**/*.pcap*", "gpsd/**/*", "ucc-5g/*.csv", "python-pcapng/*")


@pytest.mark.fixtures
@pytest.mark.parametrize("pattern", _SIX)
def test_captures_of_others_give_text_or_one_error(pattern: str, fixture_folder: Path) -> None:
    """Some files of each folder, by the command that shows most."""
    found = sorted(path for path in fixture_folder.glob(pattern) if path.is_file())
    for path in found[:: max(1, len(found) // 3)][:3]:
        done = subprocess.run(
            [*COMMAND, "inspect", path], env=ENVIRONMENT, capture_output=True, text=True, check=False, timeout=60
        )
        assert done.returncode in (0, 1), done.stderr
        assert "bug in MultiTracer" not in done.stderr
        assert "Traceback" not in done.stderr


@pytest.mark.root
def test_live_traffic_through_a_pipe() -> None:
    """Real kernel TCP on the loopback device, captured by a real tcpdump into the program."""
    document = loopback_transfer(["analyze", "--json", "-"], payload_bytes=300_000)
    (connection,) = document["connections"]
    assert connection["syn_seen"]
    assert connection["forward"]["unique_bytes"] == 300_000
    assert connection["forward"]["rtt_ms"]["count"] > 0


def test_inspect_a_session_that_has_just_begun(tmp_path: Path) -> None:
    """A manifest and nothing else yet: that is what there is to say, and no error but for the numbers."""
    write_manifest(tmp_path, Manifest("drive", variables=Variables.of({"location": "tunnel"})))
    shown = call("inspect", tmp_path).stdout
    assert "Session drive" in shown
    assert "tunnel" in shown
    assert "contains no capture and no log" in call("analyze", tmp_path, status=1).stderr


def test_inspect_lists_the_other_logs_of_a_session(tmp_path: Path) -> None:
    (tmp_path / "mobile").mkdir()
    write_conversations(tmp_path / "mobile" / "tcp-0.pcap", Conversation())
    (tmp_path / "mobile" / "ss.log").write_text(SS_LOG)
    assert "tcp: ss, ss.log" in call("inspect", tmp_path).stdout
