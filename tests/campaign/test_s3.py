"""Campaigns in buckets of a real S3 server: the same rows, whatever the server does (`make buckets`)."""

from __future__ import annotations

import contextlib
import shutil
import signal
import subprocess
import time
from typing import TYPE_CHECKING

import fsspec
import pytest

from multitracer.api.campaign import open_campaign
from multitracer.campaign.analysed import AnalysisTask, spool_session
from multitracer.campaign.bucket import store_at
from multitracer.campaign.catalogue import Catalogue
from multitracer.campaign.cluster import OnCluster
from multitracer.campaign.committer import Committer
from multitracer.campaign.discovery import sessions_in
from multitracer.campaign.query import query
from multitracer.campaign.remote import StoreError
from multitracer.campaign.run import run
from multitracer.campaign.upkeep import compact, faults, forget, status
from multitracer.errors import InputError
from tests.campaign.s3_server import BUCKET, KEY, PROGRAM, SECRET, S3Server, client
from tests.campaign.sessions import make_session, make_sessions, rows_of
from tests.cli.program import COMMAND, ENVIRONMENT, one_error

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

pytestmark = [
    pytest.mark.skipif(not PROGRAM, reason="no S3 server: make buckets builds one, with Go 1.25"),
    pytest.mark.timeout(600),
    pytest.mark.usefixtures("lost_connections"),
]

SESSIONS = 6
DRIVES, PLACE = f"s3://{BUCKET}/drives", f"s3://{BUCKET}/campaign"
ALLOWED_S = 30.0
"""So long a hung server may go unsaid: whoever started a run still sits there. Not measured."""


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[S3Server]:
    """Return a server whose bucket holds sessions below `drives`."""
    made = S3Server(tmp_path / "server")
    drives = make_sessions(tmp_path / "drives", SESSIONS)
    made.start()
    for name, value in client(made.port).items():
        monkeypatch.setenv(name, value)
    files = fsspec.filesystem("s3", skip_instance_cache=True)
    files.put(str(drives), f"{BUCKET}/drives", recursive=True)
    try:
        yield made
    finally:
        made.stop()
        type(files).clear_instance_cache()


@pytest.fixture
def expected(server: S3Server, tmp_path: Path) -> dict[str, list[str]]:
    """Return the rows of the same sessions on this machine."""
    del server
    run([str(tmp_path / "drives")], tmp_path / "local")
    return _told_alike(rows_of(tmp_path / "local"), str(tmp_path / "drives"))


def _told_alike(rows: dict[str, list[str]], where: str) -> dict[str, list[str]]:
    """Return rows without what differs by where a session lies: its path, and the table of paths."""
    return {name: [row.replace(where, "") for row in each] for name, each in rows.items() if name != "inputs"}


def _rows() -> dict[str, list[str]]:
    return _told_alike(rows_of(PLACE), DRIVES)


def _run(*args: str, environment: Mapping[str, str], code: int = 1) -> str:
    """Run the program; return its one line of an error, or what it printed."""
    done = subprocess.run(
        [*COMMAND, "campaign", *args], env=dict(environment), capture_output=True, text=True, check=False
    )
    assert done.returncode == code, done.stderr
    assert KEY not in done.stderr + done.stdout
    assert SECRET not in done.stderr + done.stdout
    if code == 1:
        assert one_error(done.stderr), done.stderr
        return done.stderr
    return done.stdout


def test_a_run_from_bucket_to_bucket_makes_the_rows_of_a_local_one(
    server: S3Server, expected: dict[str, list[str]]
) -> None:
    out = _run("run", DRIVES, "-o", PLACE, environment=server.environment, code=0)
    assert f"{SESSIONS} sessions analysed" in out
    assert _rows() == expected
    assert faults(PLACE) == []
    assert (status(PLACE).waiting, status(PLACE).attempts) == (0, 0)
    assert "no damage found" in _run("verify", PLACE, environment=server.environment, code=0)
    assert run([DRIVES], PLACE).unchanged == SESSIONS


def test_only_an_object_with_another_etag_is_read_again(server: S3Server, tmp_path: Path) -> None:
    run([DRIVES], PLACE)
    files = fsspec.filesystem("s3")
    same = tmp_path / "drives" / "car0" / "day000" / "phone" / "capture.pcap"
    files.put(str(same), f"{BUCKET}/drives/car0/day000/phone/capture.pcap")
    assert run([DRIVES], PLACE).unchanged == SESSIONS, "its ETag is that of its content"
    make_session(tmp_path / "other", 1, segments=9)
    other = tmp_path / "other" / "phone" / "capture.pcap"
    files.put(str(other), f"{BUCKET}/drives/car1/day001/phone/capture.pcap")
    assert run([DRIVES], PLACE).done == 1
    assert query(Catalogue(PLACE), "SELECT max(unique_bytes) AS n FROM transfers")["n"][0].as_py() == 9000


def test_upkeep_and_python_read_and_write_a_bucket(server: S3Server) -> None:
    for number in range(2):
        run([f"{DRIVES}/car{number}"], PLACE)
    before = _rows()
    assert compact(PLACE)[0] > compact(PLACE)[1]
    assert _rows() == before
    campaign = open_campaign(PLACE)
    assert campaign.relation("seconds").aggregate("count(*)").fetchall() == [(campaign.tables["seconds"],)]
    assert len(campaign.frame("sessions")) == SESSIONS
    assert len(forget(PLACE, (f"{DRIVES}/car0/day000",))) == 1
    assert run([DRIVES], PLACE).done == 1
    assert _rows() == before


def test_two_processes_read_a_bucket(server: S3Server, expected: dict[str, list[str]]) -> None:
    assert run([DRIVES], PLACE, workers=OnCluster(2)).done == SESSIONS
    assert _rows() == expected


def test_a_session_of_a_bucket_that_fails_is_named_by_its_url(server: S3Server) -> None:
    fsspec.filesystem("s3").pipe(f"{BUCKET}/drives/car0/day000/phone/capture.pcap", b"not a capture")
    assert run([DRIVES], PLACE).failed == 1
    (row,) = query(Catalogue(PLACE), "FROM failures").to_pylist()
    assert row["path"] == f"{DRIVES}/car0/day000"
    assert f"{DRIVES}/car0/day000/phone/capture.pcap" in row["sentence"]
    assert "/tmp" not in row["sentence"]


def test_duckdb_gets_no_access_to_the_store(server: S3Server) -> None:
    run([f"{DRIVES}/car0/day000"], PLACE)
    part = next(Catalogue(PLACE).snapshot.parts("seconds")).name
    for sql in (f"FROM '{PLACE}/{part}'", f"FROM read_parquet('{PLACE}/{part}')", f"COPY seconds TO '{PLACE}/x'"):
        with pytest.raises(InputError, match="query: "):
            query(Catalogue(PLACE), sql)


# --- who may ---


@pytest.mark.parametrize("wrong", [{"key": "AKIDOFNOONE"}, {"secret": "not-the-secret"}])
def test_a_wrong_key_is_one_sentence_that_does_not_hold_it(server: S3Server, wrong: dict[str, str]) -> None:
    environment = ENVIRONMENT | client(server.port, **wrong)
    for args in (("run", DRIVES, "-o", PLACE), ("query", PLACE, "FROM sessions")):
        sentence = _run(*args, environment=environment)
        assert f"Error: {PLACE}: the store refused access" in sentence
        assert not any(each in sentence for each in wrong.values())


def test_no_key_and_a_missing_bucket_are_one_sentence(server: S3Server) -> None:
    nobody = {name: value for name, value in server.environment.items() if "KEY" not in name}
    assert "no access key for this store" in _run("status", PLACE, environment=nobody)
    place = "s3://no-such-bucket/campaign"
    assert "this bucket does not exist" in _run("run", DRIVES, "-o", place, environment=server.environment)
    assert "this folder contains no campaign" in _run("status", place, environment=server.environment)
    assert "no file found at this address" in _run("run", place, "-o", PLACE, environment=server.environment)


def test_no_key_reaches_the_catalogue(server: S3Server) -> None:
    run([DRIVES], PLACE)
    for path in (server.folder / BUCKET / "campaign").rglob("*"):
        if path.is_file():
            assert not any(each.encode() in path.read_bytes() for each in (KEY, SECRET)), path


def test_a_key_that_becomes_invalid_amid_a_run_is_the_fault_of_no_session(server: S3Server) -> None:
    (candidate,) = sessions_in([f"{DRIVES}/car0/day000"])
    server.stop()
    server.start(secret="another-one")
    with pytest.raises(StoreError, match="the store refused access"), candidate.here():
        pass


# --- two writers ---


def test_of_two_committers_one_wins_and_the_other_one_says_so(server: S3Server, expected: dict[str, list[str]]) -> None:
    store = store_at(PLACE)
    store.make()
    committers = [Committer(store), Committer(store_at(PLACE))]
    tasks = [AnalysisTask(each, *each.state_and_bytes()[:1]) for each in sessions_in([DRIVES])]
    for committer, task in zip(committers, tasks, strict=False):
        spool_session(store, task)
        with (
            contextlib.nullcontext()
            if committer is committers[0]
            else pytest.raises(InputError, match="another program wrote")
        ):
            committer.fold([task.spool])
    assert status(PLACE).rows["sessions"] == 1
    assert run([DRIVES], PLACE).done == SESSIONS - 2, "what the loser analysed is a spool that waits"
    assert _rows() == expected


# --- a server that fails ---


def _running(*args: str, server: S3Server) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [*COMMAND, "campaign", *args], env=server.environment, text=True,
        stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
    )  # fmt: skip


def _wait_for_spools(server: S3Server, process: subprocess.Popen[str]) -> None:
    while process.poll() is None and not list((server.folder / BUCKET / "campaign").glob("spool/*")):
        time.sleep(0.01)


@pytest.mark.parametrize("harm", ["stop", "hang"])
def test_a_server_that_fails_amid_a_run_is_one_sentence_and_the_next_run_goes_on(
    server: S3Server, expected: dict[str, list[str]], harm: str
) -> None:
    process = _running("run", DRIVES, "-o", PLACE, server=server)
    _wait_for_spools(server, process)
    getattr(server, harm)()
    began_s = time.monotonic()
    _, sentence = process.communicate(timeout=300)
    assert time.monotonic() - began_s < ALLOWED_S
    assert process.returncode == 1
    assert one_error(sentence), sentence
    assert "start the same command again" in sentence
    server.stop()
    server.start()
    assert run([DRIVES], PLACE).done < SESSIONS, "what has its spool is not analysed again"
    assert _rows() == expected
    assert faults(PLACE) == []


def test_whoever_asks_a_server_that_hangs_knows_it_within_half_a_minute(server: S3Server) -> None:
    run([DRIVES], PLACE)
    server.hang()
    began_s = time.monotonic()
    asked = [
        _running(*args, server=server)
        for args in (("query", PLACE, "FROM sessions"), ("status", PLACE), ("run", DRIVES, "-o", PLACE))
    ]
    for process in asked:
        _, sentence = process.communicate(timeout=300)
        assert process.returncode == 1
        assert f"Error: {PLACE}: the store has not answered for 20 s" in sentence
    assert time.monotonic() - began_s < ALLOWED_S + len(asked) * 10, "they start side by side on two cores"


def test_a_query_whose_server_hangs_amid_it_fails_with_one_sentence(server: S3Server) -> None:
    run([DRIVES], PLACE)
    catalogue = Catalogue(PLACE)
    server.hang()
    began_s = time.monotonic()
    with pytest.raises(InputError, match="the store has not answered for 20 s"):
        query(catalogue, "FROM seconds")
    assert time.monotonic() - began_s < ALLOWED_S


def test_a_run_that_is_killed_leaves_a_bucket_that_the_next_run_completes(
    server: S3Server, expected: dict[str, list[str]], tmp_path: Path
) -> None:
    process = _running("run", DRIVES, "-o", PLACE, server=server)
    _wait_for_spools(server, process)
    process.send_signal(signal.SIGKILL)
    process.communicate()
    assert faults(PLACE) == []
    run([DRIVES], PLACE)
    assert _rows() == expected
    shutil.rmtree(tmp_path / "local")
