"""A watch takes sessions as they come home: slow copies, renames, rsync, logs that come later, kills."""

from __future__ import annotations

import contextlib
import copy
import itertools
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from typing import TYPE_CHECKING

import pytest

from multitracer.campaign.analysed import spool_session
from multitracer.campaign.arrivals import note
from multitracer.campaign.catalogue import Catalogue
from multitracer.campaign.discovery import candidates
from multitracer.campaign.run import CampaignProgress, run, watch
from multitracer.campaign.store import ATTEMPTS, Store
from multitracer.campaign.upkeep import faults
from multitracer.errors import InputError
from multitracer.manifest import LogFile, read_manifest, write_manifest
from multitracer.words import size
from tests.campaign.sessions import count, make_session, make_sessions, rows_of
from tests.cli.program import COMMAND, ENVIRONMENT, call

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from multitracer.campaign.analysed import AnalysisTask

PATIENCE_S = 120
CAPTURE = "phone/capture.pcap"


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Look twenty times a second, and take a second without change for a minute."""
    monkeypatch.setattr("multitracer.campaign.run._PAUSE_S", 0.05)
    monkeypatch.setattr("multitracer.campaign.run._IDLE", 0)
    monkeypatch.setattr("multitracer.campaign.arrivals.IDLE_S", 1.0)


def _listed(folder: Path) -> Path:
    """Let the manifest of a session list its capture."""
    manifest = read_manifest(folder)
    assert manifest is not None
    manifest.files = [LogFile(CAPTURE, "phone", (folder / CAPTURE).stat().st_size)]
    write_manifest(folder, manifest)
    return folder


class Watching:
    """A watch in this process; the test does its part between two looks."""

    def __init__(self) -> None:
        self._end = threading.Event()
        self.progress = CampaignProgress()

    def stop(self, wait_s: float) -> bool:
        return self._end.wait(wait_s)

    def until(self, holds: Callable[[], bool]) -> None:
        ends_s = time.monotonic() + PATIENCE_S
        while not holds():
            assert time.monotonic() < ends_s, self.progress
            time.sleep(0.02)

    def show(self, progress: CampaignProgress) -> None:
        self.progress = copy.deepcopy(progress)  # the watch empties its lists at each look

    def end(self) -> None:
        self._end.set()


@contextlib.contextmanager
def watching(home: Path, place: Path) -> Iterator[Watching]:
    home.mkdir(exist_ok=True)
    state = Watching()
    errors: list[BaseException] = []

    def work() -> None:
        try:
            watch([str(home)], place, stop=state.stop, shown=state.show)
        except BaseException as error:  # noqa: BLE001  # raised in the test
            errors.append(error)

    thread = threading.Thread(target=work)
    thread.start()
    try:
        yield state
    finally:
        state.end()
        thread.join(PATIENCE_S)
    assert errors == []
    assert faults(place) == []


def _same_as_run(home: Path, place: Path) -> None:
    run([str(home)], place.with_name("undisturbed"))
    assert rows_of(place) == rows_of(place.with_name("undisturbed"))


def test_a_slow_copy_is_taken_once_it_is_whole(tmp_path: Path) -> None:
    car = _listed(make_session(tmp_path / "car" / "day", segments=40))
    home, place = tmp_path / "home", tmp_path / "campaign"
    octets = (car / CAPTURE).read_bytes()
    chunk = -(-len(octets) // 8)
    with watching(home, place) as state:
        (home / "day" / "phone").mkdir(parents=True)
        shutil.copy2(car / "manifest.json", home / "day")
        with (home / "day" / CAPTURE).open("wb", buffering=0) as stream:
            for begin in range(0, len(octets), chunk):
                assert state.progress.sessions == 0
                stream.write(octets[begin : begin + chunk])
                time.sleep(0.3)  # all pieces together longer than what counts as quiet
        state.until(lambda: state.progress.done == 1)
    assert (state.progress.done, count(place, "failures")) == (1, 0)
    _same_as_run(home, place)


def test_half_a_session_waits_and_its_sentence_says_for_what(tmp_path: Path) -> None:
    home, place = tmp_path / "home", tmp_path / "campaign"
    day = _listed(make_session(home / "day"))
    octets = (day / CAPTURE).read_bytes()
    (day / CAPTURE).write_bytes(octets[:100])
    with watching(home, place) as state:
        state.until(lambda: bool(state.progress.waiting))
        time.sleep(2)
        assert state.progress.waiting == [f"{day}: {CAPTURE} has 100 B instead of {size(len(octets))}"]
        assert state.progress.sessions == 0
    assert count(place) == 0


def test_status_says_what_the_watch_waits_for(tmp_path: Path) -> None:
    home, place = tmp_path / "home", tmp_path / "campaign"
    day = _listed(make_session(home / "day"))
    octets = (day / CAPTURE).read_bytes()
    (day / CAPTURE).unlink()
    with watching(home, place) as state:
        state.until((place / "waiting.json").exists)
        shown = call("campaign", "status", place).stdout
        assert f"incomplete at the last check of --watch: {day}: {CAPTURE} is missing" in shown
        assert ["incomplete", "inputs", "1", "session"] in [line.split() for line in shown.splitlines()]
        (day / CAPTURE).write_bytes(octets)
        state.until(lambda: count(place) == 1)
        state.until(lambda: not (place / "waiting.json").exists())
    assert "waits" not in call("campaign", "status", place).stdout


def test_a_run_without_watch_waits_for_nothing(tmp_path: Path) -> None:
    place = tmp_path / "campaign"
    run([str(make_session(tmp_path / "day"))], place)
    note(Store(place), ["/x/y: a is missing", "/x/z: \x1b[31m is missing"])
    shown = call("campaign", "status", place).stdout
    assert "/x/y: a is missing" in shown
    assert "\x1b" not in shown
    run([str(tmp_path / "day")], place)
    assert "waits" not in call("campaign", "status", place).stdout
    (place / "waiting.json").write_text('{"count": []}', "utf-8")
    assert "waits" not in call("campaign", "status", place).stdout


@pytest.mark.realtime
def test_without_a_list_a_session_is_taken_when_it_is_quiet(tmp_path: Path) -> None:
    home, place = tmp_path / "home", tmp_path / "campaign"
    with watching(home, place) as state:
        day = make_session(home / "day")
        (day / "manifest.json").unlink()
        octets = (day / CAPTURE).read_bytes()
        for end in (200, 300, 400):
            (day / CAPTURE).write_bytes(octets[:end])
            time.sleep(0.4)
        (day / CAPTURE).write_bytes(octets)
        state.until(lambda: state.progress.done == 1)
    assert (count(place), count(place, "failures")) == (1, 0)


def test_a_session_that_is_renamed_into_place_is_taken_once(tmp_path: Path) -> None:
    home, place = tmp_path / "home", tmp_path / "campaign"
    (home / ".incoming").mkdir(parents=True)
    with watching(home, place) as state:
        _listed(make_session(home / ".incoming" / "day"))
        time.sleep(0.5)
        assert state.progress.sessions == 0
        (home / ".incoming" / "day").rename(home / "day")
        state.until(lambda: state.progress.done == 1)
    assert (count(place, "inputs"), count(place)) == (1, 1)


@pytest.mark.realtime
@pytest.mark.skipif(shutil.which("rsync") is None, reason="rsync is not installed")
def test_a_session_that_rsync_brings_slowly_is_taken_whole(tmp_path: Path) -> None:
    make_session(tmp_path / "car" / "day", segments=400)
    home, place = tmp_path / "home", tmp_path / "campaign"
    with watching(home, place) as state:
        subprocess.run(["rsync", "-rt", "--bwlimit=100", f"{tmp_path / 'car'}/", f"{home}/"], check=True)
        state.until(lambda: state.progress.done == 1)
    assert (state.progress.done, count(place, "failures")) == (1, 0)
    _same_as_run(home, place)


def test_a_temporary_name_of_rsync_keeps_a_session_waiting(tmp_path: Path) -> None:
    home, place = tmp_path / "home", tmp_path / "campaign"
    day = make_session(home / "day")
    hidden = day / "phone" / ".second.pcap.x81bQz"
    shutil.copy2(day / CAPTURE, hidden)
    with watching(home, place) as state:
        state.until(lambda: bool(state.progress.waiting))
        time.sleep(2)
        assert state.progress.sessions == 0
        assert "phone/.second.pcap.x81bQz" in state.progress.waiting[0]
        hidden.rename(day / "phone" / "second.pcap")
        state.until(lambda: state.progress.done == 1)
    assert (count(place), count(place, "failures")) == (1, 0)


def test_a_session_that_gains_a_log_is_one_session_with_new_rows(tmp_path: Path) -> None:
    home, place = tmp_path / "home", tmp_path / "campaign"
    day = _listed(make_session(home / "day"))
    with watching(home, place) as state:
        state.until(lambda: state.progress.done == 1)
        other = make_session(tmp_path / "other", 1, segments=9)
        (day / "server").mkdir()
        shutil.copy2(other / CAPTURE, day / "server" / "capture.pcap")
        state.until(lambda: state.progress.done >= 2 and not state.progress.waiting)
    assert (count(place), count(place, "inputs"), count(place, "connections")) == (1, 1, 2)
    _same_as_run(home, place)


def test_a_manifest_that_comes_last_makes_one_session_of_what_was_taken(tmp_path: Path) -> None:
    home, place = tmp_path / "home", tmp_path / "campaign"
    day = make_session(home / "day")
    (day / "manifest.json").rename(tmp_path / "manifest.json")
    with watching(home, place) as state:
        state.until(lambda: state.progress.done == 1)
        (tmp_path / "manifest.json").rename(day / "manifest.json")
        state.until(lambda: state.progress.done == 2)
    assert (count(place), count(place, "inputs")) == (1, 1)
    _same_as_run(home, place)


def test_a_folder_that_goes_for_a_while_ends_nothing(tmp_path: Path) -> None:
    home, place = tmp_path / "home", tmp_path / "campaign"
    _listed(make_session(home / "day"))
    with watching(home, place) as state:
        state.until(lambda: state.progress.done == 1)
        home.rename(tmp_path / "away")
        state.until(lambda: bool(state.progress.passed_over))
        assert "the run continues, and checks this input again" in state.progress.passed_over[0]
        (tmp_path / "away").rename(home)
        _listed(make_session(home / "day2", 2))
        state.until(lambda: state.progress.done == 2)
    assert count(place) == 2
    with pytest.raises(InputError, match="check the name"):
        watch([str(tmp_path / "nowhere")], place, stop=lambda _: False)


def test_a_suspect_is_one_though_it_has_to_wait(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home, place = tmp_path / "home", tmp_path / "campaign"
    day = make_session(home / "day")
    store = Store(place)
    store.make()
    attempt = f"{ATTEMPTS}/{next(candidates([str(day)])).key}"
    store.put(attempt, b"")  # as a watch leaves it that was killed there
    alone: list[str] = []

    def spool(store: Store, task: AnalysisTask) -> str:
        alone.append(task.attempt)
        return spool_session(store, task)

    monkeypatch.setattr("multitracer.campaign.run.spool_alone", spool)
    with watching(home, place) as state:
        state.until(lambda: bool(state.progress.waiting))
        assert store.list(ATTEMPTS) == [attempt], "a kill now must not clear it"
        state.until(lambda: state.progress.done == 1)
    assert alone == [attempt]
    assert store.list(ATTEMPTS) == []


@pytest.mark.slow
def test_ctrl_c_is_no_fault_of_the_session_that_is_read_alone(tmp_path: Path) -> None:
    day, place, python = make_session(tmp_path / "day"), tmp_path / "campaign", tmp_path / "python"
    python.write_text(f'#!/bin/sh\necho > {tmp_path}/begun\nsleep 2\nexec {sys.executable} "$@"\n', "utf-8")
    python.chmod(0o755)
    Store(place).make()
    Store(place).put(f"{ATTEMPTS}/{next(candidates([str(day)])).key}", b"")
    command = [sys.executable, "-c", _ALONE, str(python), str(day), str(place)]
    with subprocess.Popen(command, env=ENVIRONMENT, start_new_session=True) as process:
        ends_s = time.monotonic() + PATIENCE_S
        while not (tmp_path / "begun").exists():
            assert time.monotonic() < ends_s
            time.sleep(0.05)
        os.killpg(process.pid, signal.SIGINT)  # as a terminal does
    assert process.returncode == 0
    assert (count(place), count(place, "failures")) == (1, 0)


_ALONE = """
import signal, sys
from multitracer.campaign.run import run
signal.signal(signal.SIGINT, lambda *_: None)  # noted, as a watch does
sys.executable = sys.argv[1]
run([sys.argv[2]], sys.argv[3])
"""


def test_a_watch_that_ends_leaves_the_rest_for_the_next_one(tmp_path: Path) -> None:
    home, place = make_sessions(tmp_path / "home", 4), tmp_path / "campaign"
    for folder in home.glob("car*/day*"):
        _listed(folder)
    questions = itertools.count(1)
    progress = watch([str(home)], place, stop=lambda _: next(questions) > 3)
    assert (progress.done, progress.sessions, count(place)) == (2, 4, 2)
    assert Store(place).list(ATTEMPTS) == []


def test_many_small_folds_are_put_together(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("multitracer.campaign.run._COMPACT_FOLDS", 3)
    home, place = tmp_path / "home", tmp_path / "campaign"
    with watching(home, place) as state:
        for number in range(4):
            _listed(make_session(home / f"day{number}", number))
            state.until(lambda number=number: state.progress.done == number + 1)  # type: ignore[misc]
    assert len(Catalogue(place).snapshot.groups) < 4
    _same_as_run(home, place)


# --- the program ---


def _program(home: Path, place: Path, *more: str) -> subprocess.Popen[str]:
    command = [*COMMAND, "campaign", "run", "--watch", str(home), "-o", str(place), *more]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=ENVIRONMENT)


def _until_held(process: subprocess.Popen[str], place: Path, sessions: int) -> None:
    ends_s = time.monotonic() + PATIENCE_S
    while not (place / "snapshots").is_dir() or count(place) < sessions:
        assert time.monotonic() < ends_s
        assert process.poll() is None
        time.sleep(0.1)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_a_watch_with_a_whole_campaign(number: signal.Signals, tmp_path: Path) -> None:
    home, place = tmp_path / "home", tmp_path / "campaign"
    _listed(make_session(home / "day"))
    half = _listed(make_session(home / "half", 1))
    os.truncate(half / CAPTURE, 100)
    with _program(home, place) as process:
        _until_held(process, place, 1)
        process.send_signal(number)
        words, errors = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 0, errors
    assert words == f"{place}: 1 session analysed\n"
    assert f"Warning: {half}: {CAPTURE} has 100 B instead of " in errors
    assert faults(place) == []


@pytest.mark.slow
def test_a_watch_that_was_killed_goes_on(tmp_path: Path) -> None:
    home, place = make_sessions(tmp_path / "home", 12), tmp_path / "campaign"
    for folder in home.glob("car*/day*"):
        _listed(folder)
    with _program(home, place) as process:
        ends_s = time.monotonic() + PATIENCE_S
        while not (place / "spool").is_dir() or not list((place / "spool").iterdir()):
            assert time.monotonic() < ends_s
            time.sleep(0.01)
        process.kill()
        process.communicate()
    assert faults(place) == []
    with _program(home, place) as process:
        _until_held(process, place, 12)
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 0
    _same_as_run(home, place)
