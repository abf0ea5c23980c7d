"""The recordings of two ends become one session, and nothing of them changes."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

import pytest

from multitracer.manifest import Variables, changed_files, read_manifest, write_manifest
from multitracer.recording.read import read
from tests.cli.program import call

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def ends(tmp_path: Path, sample_session: Path) -> tuple[Path, Path]:
    """Take the bundled session apart, as if each end had been recorded alone."""
    made = []
    for host in ("mobile", "fixed"):
        manifest = read_manifest(sample_session)
        assert manifest is not None
        folder = tmp_path / f"{host}-drive"
        folder.mkdir()
        shutil.copytree(sample_session / host, folder / host)
        manifest.hosts = {host: manifest.host(host)}
        manifest.collectors = [each for each in manifest.collectors if each.host == host]
        manifest.files = [each for each in manifest.files if each.host == host]
        manifest.variables = Variables.of({f"{host}_place": "here"})
        write_manifest(folder, manifest)
        made.append(folder)
    return made[0], made[1]


def test_merged_session_is_the_session(tmp_path: Path, ends: tuple[Path, Path], sample_session: Path) -> None:
    merged = tmp_path / "drive"
    call("merge", *ends, "-o", merged)
    manifest = read_manifest(merged)
    assert manifest is not None
    assert list(manifest.hosts) == ["mobile", "fixed"]
    assert manifest.variables.more == {"mobile_place": "here", "fixed_place": "here"}
    assert list(changed_files(merged, manifest)) == []
    assert len(manifest.files) >= 2
    together, complete = read(merged), read(sample_session)
    assert [capture.point.name for capture in together.captures] == [
        capture.point.name for capture in complete.captures
    ]
    assert [log.format for log, _ in together.logs("tcp")] == [log.format for log, _ in complete.logs("tcp")]


def test_two_recordings_of_one_host_are_refused_and_nothing_is_left(tmp_path: Path, ends: tuple[Path, Path]) -> None:
    merged = tmp_path / "drive"
    done = call("merge", ends[0], ends[0], "-o", merged, status=1)
    assert "host 'mobile' is also in" in done.stderr
    assert not merged.exists()


def test_folder_that_is_no_recording_is_refused(tmp_path: Path, ends: tuple[Path, Path]) -> None:
    other = tmp_path / "other"
    other.mkdir()
    assert "manifest.json is missing" in call("merge", ends[0], other, "-o", tmp_path / "drive", status=1).stderr


def test_links_out_of_a_recording_stay_behind(tmp_path: Path, ends: tuple[Path, Path]) -> None:
    (ends[0] / "mobile" / "passwd").symlink_to("/etc/passwd")
    call("merge", *ends, "-o", tmp_path / "drive")
    assert not (tmp_path / "drive" / "mobile" / "passwd").exists()


def test_folder_with_something_in_it_is_refused(tmp_path: Path, ends: tuple[Path, Path]) -> None:
    assert "is not empty" in call("merge", *ends, "-o", ends[0], status=1).stderr
