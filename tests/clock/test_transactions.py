"""What a measurement over CentaurusComm says of its two ends' clocks becomes a relation of them."""

from __future__ import annotations

import csv
import json
import shutil
from typing import TYPE_CHECKING

import pytest

from multitracer.clock.session_clock import clocks_of
from multitracer.recording.read import read
from tests.cli.program import call
from tests.measure.test_measure_command import serving

if TYPE_CHECKING:
    from pathlib import Path

    from multitracer.clock.model.estimate import Estimate

S, MS = 1_000_000_000, 1_000_000


@pytest.fixture(scope="module")
def measured(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a session that was measured on this machine: both ends have one clock."""
    folder = tmp_path_factory.mktemp("measure") / "run"
    with serving("centauruscomm") as server:
        call("measure", "run", "--protocol", "centauruscomm", "--server", server, "--vary", "reply",
             "--sizes", "64,1024", "--sessions", "6", "-o", folder)  # fmt: skip
    return folder


def changed(source: Path, target: Path, offset_s: float) -> Path:
    """Return the session as a server would have made it whose clock is ahead, by more each transaction."""
    shutil.copytree(source, target)
    path = target / "transactions.csv"
    with path.open(newline="") as stream:
        rows = list(csv.DictReader(stream))
    for row in rows:
        row["clock_offset_s"] = str(float(row["clock_offset_s"]) + offset_s)
    with path.open("w", newline="") as stream:
        out = csv.DictWriter(stream, rows[0], lineterminator="\n")
        out.writeheader()
        out.writerows(rows)
    return target


def relation(folder: Path) -> tuple[str, str, Estimate]:
    (found,) = clocks_of(read(folder), []).graph.relations
    assert found.method == "centauruscomm"
    return str(found.source), str(found.target), found.estimates[0]


def test_one_clock_at_both_ends_is_recovered_within_its_bound(measured: Path) -> None:
    source, target, found = relation(measured)
    assert (source, target) == ("client:realtime", "127.0.0.1:realtime")
    assert abs(found.offset_ns) <= found.uncertainty_ns < 100 * MS
    assert found.lower_ns is not None
    assert found.upper_ns is not None
    assert found.lower_ns - MS <= 0 <= found.upper_ns + MS
    assert found.evidence == 12


def test_a_server_that_is_ahead_has_a_positive_offset(measured: Path, tmp_path: Path) -> None:
    _, _, plain = relation(measured)
    _, _, ahead = relation(changed(measured, tmp_path / "ahead", 2.5))
    assert ahead.offset_ns - plain.offset_ns == pytest.approx(2.5 * S, abs=1000)


def test_align_keeps_the_edge_with_its_bounds(measured: Path, tmp_path: Path) -> None:
    folder = changed(measured, tmp_path / "kept", 0.0)
    (edge,) = json.loads(call("align", "--json", folder).stdout)["edges"]
    assert edge["method"] == "centauruscomm"
    assert edge["lower_ns"] <= edge["offset_ns"] <= edge["upper_ns"]
    assert list((folder / "tables").glob("clock_edges.*"))


def test_over_a_modelled_link_the_clocks_are_those_of_its_two_hosts(tmp_path: Path) -> None:
    folder = tmp_path / "over"
    call("measure", "run", "--protocol", "centauruscomm", "--over", "bluetooth", "--virtual",
         "--vary", "reply", "--sizes", "64", "--sessions", "3", "-o", folder)  # fmt: skip
    source, target, found = relation(folder)
    assert (source, target) == ("mobile:realtime", "fixed:realtime")
    assert abs(found.offset_ns) <= found.uncertainty_ns < 100 * MS
    (placed,) = json.loads(call("align", "--json", folder).stdout)["mapping"]
    assert (placed["host"], placed["reference"]) == ("fixed", "mobile:realtime")
