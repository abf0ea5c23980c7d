"""`handover` and `radio-limited` on a run of the kernel's TCP beside which modems are asked as in the field.

As the link fades, one modem changes its channel, loses its signal and most blocks, another changes its cell,
and a third stands still. The same run has the findings that the log of its modem tells of, and no others.
"""

from __future__ import annotations

import shutil
import time
from contextlib import ExitStack
from typing import TYPE_CHECKING

import pytest

from multitracer.diagnosis.diagnose import diagnose
from multitracer.recording.read import read
from multitracer.recording.transfer import Transfer
from tests.collectors.rehearsal import modem
from tests.collectors.running import end, running
from tests.lab.testbed.running import started

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Callable
    from pathlib import Path

    from multitracer.diagnosis.diagnosis import Diagnosis
    from multitracer.diagnosis.finding import Finding

SCENARIO = """
[tcp]
mtu_bytes = 512
[link]
n2 = 60
[[traffic]]
bytes = 30_000
[[event]]
kind = "fade"
at_s = 14
duration_s = 8
"""
SPEED = 4
PATIENCE_S = 240
HOME = {"rssi_dbm": -75, "registration": 1, "area_code": 0x2A01, "cell_id": 0x1A2D001, "channel": 512,
        "physical_cell_id": 101, "rsrp_dbm": -97, "rsrq_db": -11, "sinr_db": 14, "bler_pct": 1,
        "cell_busy_pct": 10}  # fmt: skip
MODEMS = {
    "drive": ("rehearsal_cdpd", {"rssi_dbm": -113, "channel": 600, "bler_pct": 60}),
    "move": ("quectel", {"cell_id": 0x1A2D007}),
    "still": ("quectel", {}),
}
"""Name -> what it is, and what it tells from the fade on."""


def _wait(condition: Callable[[], bool], child: subprocess.Popen[str] | None = None) -> None:
    """Wait until something is true, longer than a busy machine takes."""
    deadline = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < deadline, "waited in vain"
        assert child is None or child.poll() is None, child.communicate()
        time.sleep(0.02)


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run's folder, and beside it the log of each modem."""
    place = tmp_path_factory.mktemp("radio")
    (place / "run.toml").write_text(SCENARIO)
    folder = place / "run"
    with ExitStack() as stack:
        fakes, logs = {}, {}
        for name, (profile, _) in MODEMS.items():
            fakes[name] = stack.enter_context(modem(place / f"{name}-port", profile))
            fakes[name].set(**HOME)
            options = ("--device", place / f"{name}-port", "--hz", 5, "--timeout", 1)
            logs[name] = stack.enter_context(running("modem", place / f"{name}.jsonl", *options))
        child = stack.enter_context(started(place / "run.toml", folder, speed=SPEED))
        far = folder / "fixed" / "rlp.pcapng"
        _wait(lambda: far.exists() and b"frame_lost" in far.read_bytes(), child)
        for name, (_, changes) in MODEMS.items():
            fakes[name].set(**changes)
        _wait(lambda: child.poll() is not None)
        assert child.returncode == 0
        for log in logs.values():
            end(log)
    return place


def _with_modem(session: Path, name: str, place: Path) -> Diagnosis:
    folder = place / name
    shutil.copytree(session / "run", folder)
    shutil.copy(session / f"{name}.jsonl", folder / "mobile" / "radio.jsonl")
    return diagnose(Transfer.of(read(folder)))


def _of(found: Diagnosis, kind: str) -> list[Finding]:
    return [each for each in found.findings if each.kind == kind]


@pytest.mark.root
def test_a_modem_without_signal_limits_and_its_new_channel_is_a_handover(session: Path, tmp_path: Path) -> None:
    found = _with_modem(session, "drive", tmp_path)
    (handover,) = _of(found, "handover")
    assert "channel: 512 before, 600 after" in handover.sentence
    assert handover.cost_s > 1, "the link was down at that moment"
    limits = _of(found, "radio-limited")
    assert {words in " ".join(each.sentence for each in limits) for words in ("no signal", "blocks failed")} == {True}
    assert all(place.startswith("radio:") for each in [handover, *limits] for place in each.evidence)


@pytest.mark.root
def test_a_modem_that_changes_its_cell_had_a_handover_alone(session: Path, tmp_path: Path) -> None:
    found = _with_modem(session, "move", tmp_path)
    (handover,) = _of(found, "handover")
    assert f"{HOME['cell_id']} before, {MODEMS['move'][1]['cell_id']} after" in handover.sentence
    assert not _of(found, "radio-limited")


@pytest.mark.root
def test_the_same_run_with_a_modem_at_rest_has_neither(session: Path, tmp_path: Path) -> None:
    found = _with_modem(session, "still", tmp_path)
    assert not _of(found, "handover") + _of(found, "radio-limited")
    ((_, radio),) = found.transfer.radio
    assert len(radio) > 20, "its readings are there"
