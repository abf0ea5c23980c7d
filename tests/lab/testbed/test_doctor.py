"""`testbed doctor` in each of the three tiers: as root, as nobody, and as nobody in a user namespace."""

from __future__ import annotations

import functools
import os
import re
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from multitracer.lab.testbed import doctor
from multitracer.lab.testbed.privileges import Ability, Privileges
from tests.cli.program import ROOT, call

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

_NOBODY = ("setpriv", "--reuid=65534", "--regid=65534", "--clear-groups")
_DEVICE = "mount -t tmpfs none /dev/net && mknod /dev/net/tun c 10 200 && chmod {mode} /dev/net/tun && exec {command}"
_ENVIRONMENT = {
    "PATH": os.environ.get("PATH", "/usr/bin:/bin:/usr/sbin:/sbin"),
    "PYTHONPATH": os.pathsep.join([str(ROOT), *(path for path in sys.path if "site-packages" in path)]),
    "PYTHONDONTWRITEBYTECODE": "1",
    "COLUMNS": "250",
}


@functools.cache
def _python() -> str:
    """Return a Python that a user without rights can start; root's own may lie where nobody else can look."""
    for python in (sys.executable, "/usr/bin/python3"):
        program = f"{python} -c 'import multitracer.cli, click, numpy'"
        probe = [*_NOBODY, "sh", "-c", program]  # setpriv itself starts what its child may not
        done = subprocess.run(probe, check=False, capture_output=True, env=_ENVIRONMENT, cwd="/")
        if done.returncode == 0:
            return python
    pytest.skip("no Python that a user without rights can start")


def _as_nobody(*before: str, mode: str = "666") -> str:
    return _doctor(*_NOBODY, *before, mode=mode)


def _doctor(*before: str, mode: str = "666") -> str:
    """Run the doctor where /dev/net/tun has this mode, without a change outside of this test."""
    command = " ".join([*before, _python(), "-m multitracer testbed doctor"])
    done = subprocess.run(
        ["unshare", "--mount", "sh", "-c", _DEVICE.format(mode=mode, command=command)],
        check=False, capture_output=True, text=True, env=_ENVIRONMENT, cwd="/", timeout=60,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout


def _tiers(said: str) -> dict[str, str]:
    """Return whether each tier is offered."""
    rows = (line.split() for line in said.splitlines())
    return {row[0]: row[1] for row in rows if row and row[0] in {"root", "userns", "plain"}}


def _user_namespaces() -> None:
    if subprocess.run([*_NOBODY, "unshare", "-Urnm", "true"], check=False, capture_output=True).returncode:
        pytest.skip("user namespaces are not allowed here")


@pytest.mark.root
def test_root_loses_nothing_but_what_is_not_installed() -> None:
    said = call("testbed", "doctor").stdout
    assert said.startswith("Tier: root\n")
    assert _tiers(said)["root"] == "yes"
    assert "no run in real time" not in said


@pytest.mark.root
def test_a_user_without_rights_is_told_of_the_user_namespace() -> None:
    _user_namespaces()
    said = _as_nobody()
    assert said.startswith("Tier: userns\n")
    assert _tiers(said) == {"root": "no", "userns": "yes", "plain": "yes"}
    assert "What would help: unshare -Urnm" in said
    assert "tcp_probe" in said


@pytest.mark.root
def test_within_a_user_namespace_it_says_what_is_lost() -> None:
    _user_namespaces()
    said = _as_nobody("unshare", "-Urnm")
    assert said.startswith("Tier: userns\n")
    assert _tiers(said) == {"root": "no", "userns": "yes", "plain": "yes"}
    assert re.search("^tcpdump: .*not permitted.*; the link writes captures", said, re.MULTILINE)


@pytest.mark.root
@pytest.mark.parametrize("before", [(), _NOBODY], ids=["root", "nobody"])
def test_what_is_lost_in_a_user_namespace_is_what_fails_when_it_is_tried_there(before: tuple[str, ...]) -> None:
    """Root itself keeps tcp_probe there, as tracefs is root's; another user does not."""
    _user_namespaces()
    outside, inside = _doctor(*before), _doctor(*before, "unshare", "-Urnm")
    (row,) = re.findall(r"^userns +yes .* testbed run \.\.\. +(.*)", outside, re.MULTILINE)
    failed = re.findall(r"^(\S.*?) {2,}absent", inside, re.MULTILINE)
    assert row.split(", ") == failed
    assert ("tcp_probe" in failed) == bool(before)
    assert {"tcpdump", "real-time priority"} <= set(failed)


@pytest.mark.root
def test_a_device_that_only_root_may_open_leaves_virtual_time() -> None:
    _user_namespaces()
    for before in ((), ("unshare", "-Urnm")):
        said = _as_nobody(*before, mode="600")
        assert said.startswith("Tier: plain\n")
        assert _tiers(said) == {"root": "no", "userns": "no", "plain": "yes"}
        assert "What would help: sudo chmod 0666 /dev/net/tun" in said


def test_it_ends_well_whatever_this_machine_offers() -> None:
    said = call("testbed", "doctor").stdout
    assert said.splitlines()[0] in {"Tier: root", "Tier: userns", "Tier: plain"}
    assert _tiers(said)["plain"] == "yes"
    assert "What would help: " in said


def _privileges(tier: str, *missing: tuple[str, str], inside: bool = False) -> Privileges:
    names = ("namespaces", "ip", "nsenter", "setpriv", "nstat", "tcpdump", "tcp_info", "tcp_probe")
    why = dict(missing)
    needed = {"namespaces", "ip", "nsenter", "setpriv", "nstat", "tcp_info"}
    abilities = [Ability(n, n not in why, why.get(n, ""), needed=n in needed) for n in names]
    return Privileges(tier, tuple(abilities), inside)  # type: ignore[arg-type]


@pytest.fixture
def found(monkeypatch: pytest.MonkeyPatch) -> Callable[..., doctor.SystemCheck]:
    def examine(privileges: Privileges, refused: str = "") -> doctor.SystemCheck:
        monkeypatch.setattr(doctor, "probe", lambda: privileges)
        monkeypatch.setattr(doctor, "why_no_user_namespace", lambda: refused)
        monkeypatch.setattr(doctor, "probe_in_user_namespace", tuple)
        return doctor.examine()

    return examine


def test_a_missing_program_is_named_with_its_package(found: Callable[..., doctor.SystemCheck]) -> None:
    missing = (("ip", "not installed"), ("nstat", "not installed"), ("setpriv", "not installed"))
    assert found(_privileges("plain", *missing)).advice == "sudo apt-get install iproute2 util-linux"
    diagnosis = found(_privileges("root", ("tcpdump", "not installed")))
    assert diagnosis.advice == "sudo apt-get install tcpdump"
    assert diagnosis.tiers[0].lost == "tcpdump"


def test_a_setting_that_forbids_user_namespaces_is_named(
    found: Callable[..., doctor.SystemCheck], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "user").mkdir()
    (tmp_path / "user" / "max_user_namespaces").write_text("0\n")
    monkeypatch.setattr(doctor, "_SETTINGS", tmp_path)
    privileges = _privileges("plain", ("namespaces", "network namespace: Operation not permitted"))
    refused = "unshare: unshare failed: No space left on device"
    assert found(privileges, refused).advice == "sudo sysctl user.max_user_namespaces=10000"
    (tmp_path / "user" / "max_user_namespaces").write_text("999\n")
    assert found(privileges, refused).advice == "run as root"
