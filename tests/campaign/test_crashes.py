"""Whatever ends a run: the last snapshot is valid, and the next run ends as an undisturbed one does."""

from __future__ import annotations

import os
import random
import shutil
import signal
import stat
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from multitracer.campaign import committer
from multitracer.campaign.analysed import spool_session
from multitracer.campaign.catalogue import Catalogue
from multitracer.campaign.discovery import candidates
from multitracer.campaign.run import run
from multitracer.campaign.store import ATTEMPTS, PARTS, SPOOLS, Store
from multitracer.campaign.upkeep import compact, faults, forget
from multitracer.errors import InputError
from tests.campaign.sessions import count, make_session, make_sessions, rows_of

if TYPE_CHECKING:
    from collections.abc import Callable

SESSIONS = 6
FOLD = 2
POINTS, UPKEEP_POINTS = 6, 4
"""Of some 130 operations of such a run, and of the 28 of `compact` or `forget`, the last 4 of which write the snapshot;
`python -m tests.campaign.killed` kills a program of 300 sessions."""


@pytest.fixture(scope="module")
def drives(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_sessions(tmp_path_factory.mktemp("drives"), SESSIONS)


@pytest.fixture(autouse=True)
def small_folds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("multitracer.campaign.run.FOLD_SESSIONS", FOLD)


def _killed_at(operation: int, work: Callable[[], object]) -> bool:
    """Do some work in a child that kills itself at an operation on the store; return whether it came so far.

    An operation is to write, to flush, to rename or to remove a file; at a flush half of the file is written.
    """
    child = os.fork()
    if child == 0:
        left = [operation]

        def counted(method: Callable[..., object]) -> Callable[..., object]:
            def do(*args: object, **named: object) -> object:
                left[0] -= 1
                if left[0] == 0:
                    _cut(args[0])
                    os.kill(os.getpid(), signal.SIGKILL)
                return method(*args, **named)

            return do

        Store._write = counted(Store._write)  # type: ignore[method-assign, assignment]
        Store.remove = counted(Store.remove)  # type: ignore[method-assign, assignment]
        Path.replace = counted(Path.replace)  # type: ignore[method-assign, assignment]
        os.fsync = counted(os.fsync)  # type: ignore[assignment]
        try:
            work()
        finally:
            os._exit(0)
    _, status = os.waitpid(child, 0)
    return os.WIFSIGNALED(status)


def _cut(handle: object) -> None:
    """Leave half of a file that is being written, as one finds it after a crash."""
    if isinstance(handle, int) and stat.S_ISREG(os.fstat(handle).st_mode):
        os.ftruncate(handle, os.fstat(handle).st_size // 2)


@pytest.mark.slow
def test_a_run_that_was_killed_goes_on_to_the_same_rows(
    drives: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # a suspect is analysed here: a process of its own takes two seconds (test_deadly_session has that)
    monkeypatch.setattr("multitracer.campaign.run.spool_alone", spool_session)
    run([str(drives)], tmp_path / "undisturbed")
    expected = rows_of(tmp_path / "undisturbed")
    place = tmp_path / "campaign"
    chance = random.Random(22)
    kills = 0
    for operation in chance.sample(range(1, 130), POINTS):
        shutil.rmtree(place, ignore_errors=True)
        kills += _killed_at(operation, lambda: run([str(drives)], place))
        if (place / "snapshots").is_dir():
            assert faults(place) == [], operation
        run([str(drives)], place)
        assert rows_of(place) == expected, operation
        assert _left_behind(place) == [], operation
    assert kills >= POINTS - 2, "the operations are counted where there are some"


def _left_behind(place: Path) -> list[str]:
    """Return the files of a campaign that nothing needs any longer."""
    store = Store(place)
    snapshot = Catalogue(store).snapshot
    named = {part.name for part in snapshot.parts()} | snapshot.retired.keys()
    hidden = [str(path) for path in place.rglob(".*")]
    return [*hidden, *store.list(SPOOLS), *store.list(ATTEMPTS), *(set(store.list(PARTS)) - named)]


def test_a_session_that_kills_its_process_is_a_failure_alone(
    drives: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = tmp_path / "campaign"
    store = Store(place)
    store.make()
    bad = make_session(tmp_path / "bad", 99)
    key = next(candidates([str(bad)])).key
    store.put(f"{ATTEMPTS}/{key}", b"")  # as a run leaves it that was killed there
    started: list[str] = []

    def child(command: list[str], *, input: bytes, **_: object) -> subprocess.CompletedProcess[bytes]:  # noqa: A002
        started.append(input.decode())
        return real(["sh", "-c", "kill -9 $$"], input=b"", capture_output=True, check=False)

    real = subprocess.run
    monkeypatch.setattr(subprocess, "run", child)
    progress = run([str(drives), str(bad)], place)
    assert (progress.done, progress.failed) == (SESSIONS + 1, 1)
    assert len(started) == 1
    (row,) = Catalogue(place).dataset("failures").to_table().to_pylist()
    assert "SIGKILL" in row["sentence"]
    assert str(bad) in row["sentence"]


def test_a_session_that_was_only_near_when_a_run_was_killed_is_analysed(drives: Path, tmp_path: Path) -> None:
    place = tmp_path / "campaign"
    store = Store(place)
    store.make()
    session = drives / "car0" / "day000"
    store.put(f"{ATTEMPTS}/{next(candidates([str(session)])).key}", b"")
    assert run([str(session)], place).failed == 0
    assert count(place) == 1


def test_a_second_writer_is_refused_and_readers_are_not(drives: Path, tmp_path: Path) -> None:
    place = tmp_path / "campaign"
    run([str(drives)], place)
    with Store(place).locked():
        with pytest.raises(InputError, match="another program is writing"):
            run([str(drives)], place)
        assert count(place) == SESSIONS


def test_a_spool_that_was_cut_is_written_again(drives: Path, tmp_path: Path) -> None:
    place = tmp_path / "campaign"
    Store(place).make()
    (place / SPOOLS / "0123-4567").write_bytes(b"MTSPOOL\x01 and no more")
    assert run([str(drives)], place).done == SESSIONS
    assert _left_behind(place) == []


def test_who_opened_a_campaign_reads_it_though_a_run_replaces_parts(tmp_path: Path) -> None:
    drives, place = make_sessions(tmp_path / "drives", 2), tmp_path / "campaign"
    run([str(drives)], place)
    opened, before = Catalogue(place), rows_of(place)
    shutil.rmtree(drives / "car1")
    make_session(drives / "car1" / "day001", 1, segments=9)
    run([str(drives)], place)
    run([str(drives)], place)
    assert rows_of(place) != before
    names = ("transfers", "seconds")
    kept = {name: sorted(map(repr, opened.dataset(name).to_table().to_pylist())) for name in names}
    assert kept == {name: before[name] for name in names}


# --- damaged parts ---


@pytest.fixture(scope="module")
def complete(drives: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a campaign of all drives, in folds as small as in each test."""
    place = tmp_path_factory.mktemp("whole") / "campaign"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("multitracer.campaign.run.FOLD_SESSIONS", FOLD)
        run([str(drives)], place)
    return place


@pytest.mark.parametrize("table", ["seconds", "sessions", "inputs"])
@pytest.mark.parametrize("harm", ["flip", "cut", "remove"])
def test_a_damaged_part_is_named_and_repaired(
    table: str, harm: str, drives: Path, complete: Path, tmp_path: Path
) -> None:
    place = Path(shutil.copytree(complete, tmp_path / "campaign"))
    expected = rows_of(complete)
    name = next(Catalogue(place).snapshot.parts(table)).name
    _harm(place / name, harm)
    (fault,) = faults(place)
    assert name in fault
    progress = run([str(drives)], place)
    assert progress.done == FOLD, "only the sessions of that group"
    assert len(progress.damaged) == 1
    assert faults(place) == []
    assert rows_of(place) == expected


def _harm(path: Path, harm: str) -> None:
    content = bytearray(path.read_bytes())
    if harm == "remove":
        path.unlink()
        return
    content[len(content) // 2] ^= 0xFF
    path.write_bytes(content if harm == "flip" else content[:-7])


def test_sessions_of_a_damaged_group_that_are_gone_keep_their_other_rows(tmp_path: Path) -> None:
    drives, place = make_sessions(tmp_path / "drives", 2), tmp_path / "campaign"
    run([str(drives)], place)
    _harm(place / next(Catalogue(place).snapshot.parts("seconds")).name, "flip")
    shutil.rmtree(drives / "car1")
    run([str(drives)], place)
    assert [count(place, name) for name in ("sessions", "transfers")] == [2, 2]
    assert len(faults(place)) == 1, "the seconds of the session that is gone are lost, and that is said"


# --- upkeep ---


@pytest.mark.slow
@pytest.mark.parametrize("command", ["compact", "forget"])
def test_upkeep_that_was_killed_lost_nothing_and_goes_on(
    command: str, drives: Path, complete: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(committer, "FOLD_SESSIONS", 2 * SESSIONS)
    before = rows_of(complete)
    name = str(Catalogue(complete).dataset("sessions").to_table()["session"][0])
    place = tmp_path / "campaign"

    def work() -> None:
        if command == "compact":
            compact(place)
        elif count(place) == SESSIONS:
            forget(place, (name,))

    shutil.copytree(complete, place)
    work()
    after = rows_of(place)
    assert (after == before) == (command == "compact")
    kills = 0
    for operation in (*random.Random(44).sample(range(1, 25), UPKEEP_POINTS - 2), 26, 27):
        shutil.rmtree(place)
        shutil.copytree(complete, place)
        kills += _killed_at(operation, work)
        assert faults(place) == [], operation
        assert rows_of(place) in (before, after), operation
        work()
        assert rows_of(place) == after, operation
        assert _left_behind(place) == [], operation
    run([str(drives)], place)
    assert rows_of(place) == before
    assert kills >= UPKEEP_POINTS - 1, "the operations are counted where there are some"


def test_a_full_disk_leaves_the_last_snapshot_valid(
    drives: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = tmp_path / "campaign"
    run([str(drives / "car0")], place)
    before = rows_of(place)
    part = committer.write_part

    def full(store: Store, table: str, rows: object) -> object:
        if table == "seconds":
            raise InputError("cannot be written: No space left on device; free disk space there")
        return part(store, table, rows)

    with monkeypatch.context() as patched:
        patched.setattr(committer, "write_part", full)
        with pytest.raises(InputError, match="No space"):
            run([str(drives)], place)
    assert rows_of(place) == before
    assert run([str(drives)], place).failed == 0
    assert count(place) == SESSIONS


@pytest.mark.root
def test_a_disk_that_fills_leaves_the_last_snapshot_valid(drives: Path, tmp_path: Path) -> None:
    small = tmp_path / "small"
    small.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=512k", "none", small], check=False)
    if mounted.returncode:
        pytest.skip("no file systems can be mounted here")
    try:
        place = small / "campaign"
        run([str(drives / "car0" / "day000")], place)
        before = rows_of(place)
        with (small / "ballast").open("wb") as stream:
            free = os.statvfs(small).f_bavail * os.statvfs(small).f_frsize
            stream.write(b"\0" * (free - 40_960))
        with pytest.raises(InputError, match="No space left on device; free disk space"):
            run([str(drives)], place)
        assert rows_of(place) == before
        assert faults(place) == []
        (small / "ballast").unlink()
        run([str(drives)], place)
        assert count(place) == SESSIONS
    finally:
        subprocess.run(["umount", small], check=True)
