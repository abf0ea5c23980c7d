"""What a process may do, and what a run does with less than root."""

from __future__ import annotations

import shutil
import subprocess
from typing import TYPE_CHECKING

import pytest

from multitracer.lab.testbed.privileges import probe
from tests.cli.program import run as program
from tests.lab.testbed.running import document, finished, short_scenario, started

if TYPE_CHECKING:
    from pathlib import Path

UNSHARE = ("unshare", "-Urnm")
WITHOUT_CAPABILITIES = ("setpriv", "--inh-caps=-all", "--bounding-set=-all")


def may_unshare() -> bool:
    if shutil.which("unshare") is None:
        return False
    done = subprocess.run(
        [*UNSHARE, "test", "-r", "/dev/net/tun", "-a", "-w", "/dev/net/tun"], check=False, capture_output=True
    )
    return done.returncode == 0


needs_unshare = pytest.mark.skipif(not may_unshare(), reason="user namespaces with /dev/net/tun are not allowed here")


@pytest.mark.root
def test_root_may_do_all() -> None:
    found = probe()
    assert (found.tier, found.wants_unshare, found.in_user_namespace) == ("root", False, False)
    assert {"tcpdump", "tcp_probe", "namespaces"} <= {ability.name for ability in found.abilities}
    assert all(ability.works for ability in found.abilities if ability.needed)


@pytest.mark.slow
@needs_unshare
def test_a_user_namespace_records_with_what_is_left(tmp_path: Path) -> None:
    folder = tmp_path / "unprivileged"
    with started(short_scenario(tmp_path, size=10_000), folder, speed=50, before=UNSHARE) as child:
        finished(child)
    told = document(folder, "manifest.json")["variables"]
    assert (told["tier"], told["ended"]) == ("userns", "all data were sent and received")
    assert "tcpdump" in told["missing"]
    assert document(folder, "summary.json")["goodput_bytes_per_s"] > 0
    shown = program("inspect", folder).stdout
    assert "1 TCP connection at 2 capture points" in shown  # the link itself captured at both ends
    assert "Trust: good" in shown


@pytest.mark.root
def test_a_process_without_rights_is_told_what_to_do(tmp_path: Path) -> None:
    words = ("testbed", "run", "fig11-fade", "-o", tmp_path / "new")
    said = program(*words, status=1, before=WITHOUT_CAPABILITIES).stderr
    assert "namespace" in said
    assert "--virtual" in said
    assert not (tmp_path / "new").exists()
