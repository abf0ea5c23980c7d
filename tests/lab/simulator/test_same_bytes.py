"""What a seed gives stays: the logs of old scenarios do not change with the program.

A change of these digests is a change of every recording that users have made by seed: say so in CHANGELOG.md.
The manifest, which holds the parameters, is left out, and so is the program's version.
"""

from __future__ import annotations

import csv
import hashlib
import io
import json
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from multitracer import __version__
from multitracer.lab.scenario.library import load_scenario
from multitracer.lab.simulator import network
from multitracer.lab.simulator.run import record_virtual
from tests.lab.rig.virtual import plan, run

if TYPE_CHECKING:
    from tests.lab.shared_runs import SharedRuns

RECORDED = {
    "cdma2000-download": "f194a7354589a56d",
    "cdpd-contended": "ea16e8fc48b24101",
    "clock-shift": "b1eb389ae033765b",
    "fig8-resets-vj": "acfee0205c54b5f0",
}
MEASURED = {"bluetooth": "14a9f600e40699e2", "cdpd": "f817b27eacb8ae05"}


NEWER_FILES = {"truth/radio.txt"}
"""Files that runs write since then beside the old ones."""
NEWER = {"flows", "jain_index", "fairness_gap", "fairness_gap_reason"}
NEWER |= {"jain_index_last_third", "fairness_gap_last_third"}
"""Keys that summary.json has since there are several flows in it."""


def _old_summary(path: Path) -> bytes:
    document = json.loads(path.read_text("utf-8"))
    assert document.keys() >= NEWER
    old = {key: value for key, value in document.items() if key not in NEWER}
    return (json.dumps(old, indent=1) + "\n").encode()


_RADIO = ("rssi", "bler", "cell_busy", "rsrp", "rsrq", "sinr", "cell", "place")
NEWER_COLUMNS = {f"{name}_{each}" for name in _RADIO for each in ("age_s", "readings", "absent")}
NEWER_COLUMNS |= {"rsrp_dbm", "rsrq_db", "sinr_db", "cell", "lat_deg", "lon_deg"}
"""Columns that transactions.csv has since each transaction has its radio and place."""


def _old_transactions(path: Path) -> bytes:
    with path.open(newline="", encoding="utf-8") as stream:
        rows = list(csv.reader(stream))
    assert set(rows[0]) >= NEWER_COLUMNS
    kept = [at for at, name in enumerate(rows[0]) if name not in NEWER_COLUMNS]
    old = io.StringIO()
    csv.writer(old, lineterminator="\n").writerows([row[at] for at in kept] for row in rows)
    return old.getvalue().encode()


_OLD = {"summary.json": _old_summary, "transactions.csv": _old_transactions}


def digest(folder: Path, *newer: str) -> str:
    """Return one digest of all logs in a folder, names included; those of `newer` are written since then."""
    complete = hashlib.sha256()
    for path in sorted(path for path in folder.rglob("*") if path.is_file()):
        if path.name != "manifest.json" and path.relative_to(folder).as_posix() not in {*NEWER_FILES, *newer}:
            complete.update(f"{path.relative_to(folder).as_posix()}\n".encode())
            octets = _OLD.get(path.name, Path.read_bytes)(path)
            complete.update(octets.replace(f'"{__version__}"'.encode(), b""))
    return complete.hexdigest()[:16]


@pytest.mark.parametrize("name", RECORDED)
def test_a_run_in_virtual_time_writes_the_bytes_it_always_wrote(name: str, shared_runs: SharedRuns) -> None:
    assert digest(shared_runs.session(load_scenario(name)).folder) == RECORDED[name]


@pytest.mark.parametrize("name", MEASURED)
def test_a_measurement_in_virtual_time_writes_the_bytes_it_always_wrote(name: str, tmp_path: Path) -> None:
    run(plan("tcp", (128, 2048), 10), tmp_path, load_scenario(name), capture=True)
    assert digest(tmp_path, "scenario.toml") == MEASURED[name]


def test_packets_that_are_known_and_packets_that_are_parsed_make_the_same_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A world gives its hosts what was built, if the link did not change it: here, the second time, never."""
    scenario = load_scenario("sack-modern")
    record_virtual(scenario, tmp_path / "known")
    monkeypatch.setattr(network, "_MOST_UNDER_WAY", 0)
    record_virtual(scenario, tmp_path / "parsed")
    assert digest(tmp_path / "known") == digest(tmp_path / "parsed")
