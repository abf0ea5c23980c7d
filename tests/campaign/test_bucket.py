"""Campaigns and sessions behind a URL, in fsspec's store in memory (test_s3.py has a real server)."""

from __future__ import annotations

import http.server
import os
import socket
import subprocess
import sys
import threading
from typing import TYPE_CHECKING

import fsspec
import pytest
from fsspec.implementations.memory import MemoryFileSystem

from multitracer.campaign import remote
from multitracer.campaign.bucket import store_at
from multitracer.campaign.catalogue import Catalogue
from multitracer.campaign.discovery import sessions_in
from multitracer.campaign.query import query
from multitracer.campaign.remote import Remote, StoreError
from multitracer.campaign.run import run
from multitracer.campaign.store import PARTS, Store, newest_snapshot, write_snapshot
from multitracer.campaign.upkeep import faults
from multitracer.errors import InputError
from tests.campaign.sessions import count, make_sessions, rows_of
from tests.cli.program import call

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

SESSIONS = 3
DRIVES, PLACE = "memory://bucket/drives", "memory://bucket/campaign"


@pytest.fixture
def files() -> Iterator[fsspec.AbstractFileSystem]:
    made = fsspec.filesystem("memory")
    yield made
    made.store.clear()
    made.pseudo_dirs[:] = [""]


@pytest.fixture
def drives(files: fsspec.AbstractFileSystem, tmp_path: Path) -> Path:
    """Return the folder whose sessions are behind `DRIVES`, too."""
    folder = make_sessions(tmp_path / "drives", SESSIONS)
    files.put(str(folder), "/bucket/drives", recursive=True)
    return folder


def test_sessions_behind_a_url_have_the_rows_of_those_of_a_folder(drives: Path, tmp_path: Path) -> None:
    run([str(drives)], tmp_path / "campaign")
    assert run([DRIVES, f"{DRIVES}/car0/"], PLACE).done == SESSIONS
    rows = {name: [row.replace("memory:///bucket/drives", str(drives)) for row in each]
            for name, each in rows_of(PLACE).items()}  # fmt: skip
    expected = rows_of(tmp_path / "campaign")
    assert {name for name in rows if rows[name] != expected[name]} == {"inputs"}, "their state is another sum"
    assert run([DRIVES], PLACE).unchanged == SESSIONS
    assert faults(PLACE) == []


def test_loose_objects_are_sessions_and_those_of_a_ring_are_one(drives: Path, files: fsspec.AbstractFileSystem) -> None:
    capture = (drives / "car0" / "day000" / "phone" / "capture.pcap").read_bytes()
    names = ["a.pcap", "a.pcap1", "b.pcap"]
    for name in names:
        files.pipe(f"/bucket/loose/{name}", capture)
    found = list(sessions_in([f"memory://bucket/loose/{name}" for name in names]))
    assert [len(each.paths) for each in found] == [2, 1]
    assert run([f"memory://bucket/loose/{name}" for name in names[2:]], PLACE).failed == 0
    (row,) = query(Catalogue(PLACE), "SELECT name, path FROM sessions").to_pylist()
    assert row == {"name": "b.pcap", "path": "memory:///bucket/loose/b.pcap"}


def test_objects_beside_folders_that_are_sessions_are_sessions_and_a_warning(
    drives: Path, files: fsspec.AbstractFileSystem
) -> None:
    capture = (drives / "car0" / "day000" / "phone" / "capture.pcap").read_bytes()
    for name in ("a.pcap", "a.pcap1", "notes.txt", "2026-11-01/b.pcap", "day/phone/c.pcap", "day/manifest.json"):
        files.pipe(f"/bucket/beside/{name}", capture if ".pcap" in name else b"{}")
    sentences: list[str] = []
    found = list(sessions_in(["memory://bucket/beside"], passed_over=sentences))
    assert [[path.partition("beside/")[2] for path in each.paths] for each in found] == [
        ["a.pcap", "a.pcap1"], ["2026-11-01"], ["day"],
    ]  # fmt: skip
    assert sentences == [
        (
            "memory:///bucket/beside: 2 files lie beside folders that are sessions of their own; each recording of "
            "them is a session of its own, too"
        )
    ]
    run(["memory://bucket/beside"], PLACE)
    assert query(Catalogue(PLACE), "SELECT sentence FROM failures").to_pylist() == []


def test_a_session_behind_a_url_is_divided_when_a_manifest_arrives(
    drives: Path, files: fsspec.AbstractFileSystem
) -> None:
    capture = (drives / "car0" / "day000" / "phone" / "capture.pcap").read_bytes()
    files.pipe("/bucket/divided/a.pcap", capture)
    files.pipe("/bucket/divided/day/b.pcap", capture)
    run(["memory://bucket/divided"], PLACE)
    assert [row["path"] for row in query(Catalogue(PLACE), "FROM sessions").to_pylist()] == ["memory:///bucket/divided"]
    files.pipe("/bucket/divided/day/manifest.json", b"{}")
    run(["memory://bucket/divided"], PLACE)
    paths = query(Catalogue(PLACE), "SELECT path FROM inputs ORDER BY path").to_pylist()
    assert [row["path"].partition("divided/")[2] for row in paths] == ["a.pcap", "day"]
    assert count(PLACE, "transfers") == 2, "each once"


def test_file_urls_are_paths(drives: Path, tmp_path: Path) -> None:
    run([f"file://{drives}"], f"file://{tmp_path}/campaign")
    assert run([str(drives)], tmp_path / "campaign").unchanged == SESSIONS


def test_a_campaign_among_the_objects_is_passed_over(drives: Path) -> None:
    run([DRIVES], f"{DRIVES}/campaign")
    assert len(list(sessions_in([DRIVES]))) == SESSIONS


def test_an_object_that_is_a_capture_by_its_name_alone_is_said(files: fsspec.AbstractFileSystem) -> None:
    files.pipe("/bucket/broken/day/wlan0.pcap", bytes(range(256)))
    sentences: list[str] = []
    assert list(sessions_in(["memory://bucket/broken"], passed_over=sentences)) == []
    assert sentences == [
        ("memory:///bucket/broken/day/wlan0.pcap: the file name is that of a capture, but the content is not a capture")
    ]


def test_names_in_a_bucket_lead_nowhere(
    files: fsspec.AbstractFileSystem, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    for name in ("manifest.json", "../../../../escaped", ".hidden", "phone/../../escaped", "a/b/c/escaped"):
        files.pipe(f"/bucket/drive/{name}", b"{}")
    (candidate,) = sessions_in(["memory://bucket/drive"])
    with candidate.here() as here:
        held = sorted(path.name for path in tmp_path.rglob("*") if path.is_file())
        assert here.paths[0].startswith(str(tmp_path))
    assert set(held) == {"manifest.json"}
    assert list(tmp_path.iterdir()) == [], "the copy goes"


def test_a_session_that_changes_while_it_is_fetched_is_a_failure(
    drives: Path, files: fsspec.AbstractFileSystem
) -> None:
    (candidate,) = sessions_in([f"{DRIVES}/car1/day001"])
    files.rm("/bucket/drives/car1/day001/phone/capture.pcap")
    with pytest.raises(InputError, match="the files changed during the analysis"), candidate.here():
        pass


@pytest.mark.parametrize("wrong", ["s3://key:word@bucket/x", "http://host/x?key=word", "zip://a::s3://word/x"])
def test_an_address_with_a_key_is_refused_and_not_repeated(wrong: str) -> None:
    with pytest.raises(InputError, match="the URL must not contain keys") as error:
        store_at(wrong)
    assert "word" not in str(error.value)


@pytest.mark.parametrize("url", ["memory://bucket/drives", "nothing://bucket"])
def test_what_can_be_no_campaign_is_refused(drives: Path, url: str) -> None:
    with pytest.raises(InputError, match=r"contains files, but no campaign|kind of address is not supported"):
        run([str(drives)], url)


def test_a_number_that_is_taken_is_refused(drives: Path) -> None:
    run([DRIVES], PLACE)
    store = store_at(PLACE)
    ours, theirs = newest_snapshot(store), newest_snapshot(store)
    write_snapshot(store, ours.followed([]))
    with pytest.raises(InputError, match="another program wrote"):
        write_snapshot(store, theirs.followed(theirs.groups))


def test_who_is_overtaken_by_many_is_refused_though_its_number_is_free_again(drives: Path) -> None:
    run([DRIVES], PLACE)
    store = store_at(PLACE)
    late = newest_snapshot(store).followed([])
    for _ in range(8):
        write_snapshot(store, (current := newest_snapshot(store)).followed(current.groups))
    with pytest.raises(InputError, match="another program wrote"):
        write_snapshot(store, late)
    assert count(PLACE) == SESSIONS


def test_parts_that_another_run_may_be_writing_stay(drives: Path) -> None:
    run([DRIVES], PLACE)
    store = store_at(PLACE)
    store.put(f"{PARTS}/seconds-theirs.parquet", b"young")
    run([DRIVES], PLACE)
    assert store.has(f"{PARTS}/seconds-theirs.parquet")


def test_a_store_that_is_there_and_never_answers_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(remote.Remote._request, "__kwdefaults__", {"limit_s": 1.0})
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}/drives"
        with pytest.raises(StoreError, match="the store has not answered for 1 s; check that the server"):
            Remote(url).item()


def test_a_path_is_a_folder_of_this_machine(tmp_path: Path) -> None:
    assert type(store_at(tmp_path)) is Store


# --- a store that repeats what it was sent, and more ---

SECRETS = {
    "AWS_ACCESS_KEY_ID": "AKIDOFTHISTEST",
    "AWS_SECRET_ACCESS_KEY": "secret-9f2c",
    "AWS_SESSION_TOKEN": "token-77ab",
}
OPTION = "password-of-an-option"


class _Repeating(http.server.BaseHTTPRequestHandler):
    """Answers each request with an error that holds its headers and the keys."""

    def _answer(self) -> None:
        self.rfile.read(int(self.headers.get("Content-Length") or 0))
        words = " ".join((*SECRETS.values(), *map("=".join, self.headers.items()), "\x1b[2J"))
        body = f"<?xml version='1.0'?><Error><Code>AccessDenied</Code><Message>{words}</Message></Error>".encode()
        self.send_response(403)
        self.send_header("Content-Length", str(0 if self.command == "HEAD" else len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    do_GET = do_PUT = do_HEAD = do_POST = _answer  # noqa: N815

    def log_message(self, *_: object) -> None:
        """Write no log."""


@pytest.fixture
def repeating(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), _Repeating) as serving:
        thread = threading.Thread(target=serving.serve_forever)
        thread.start()
        environment = SECRETS | {
            "AWS_ENDPOINT_URL": f"http://127.0.0.1:{serving.server_port}",
            "AWS_CONFIG_FILE": os.devnull,
            "AWS_SHARED_CREDENTIALS_FILE": os.devnull,
            "AWS_EC2_METADATA_DISABLED": "true",
        }
        for name, value in environment.items():
            monkeypatch.setenv(name, value)
        yield
        serving.shutdown()
        thread.join()


@pytest.mark.usefixtures("repeating")
def test_what_a_store_repeats_shows_no_key(drives: Path, tmp_path: Path) -> None:
    fsspec.get_filesystem_class("s3").clear_instance_cache()
    texts = [
        call(*command, status=1).stderr
        for command in (
            ["campaign", "status", "s3://keys/campaign"],
            ["campaign", "run", "s3://keys/drives", "-o", str(tmp_path / "campaign")],
            ["campaign", "run", str(drives), "-o", "s3://keys/campaign"],
        )
    ]
    debugged = [sys.executable, "-m", "multitracer", "campaign", "status", "--debug", "s3://keys/campaign"]
    texts.append(subprocess.run(debugged, capture_output=True, text=True, check=False).stderr)
    assert "Traceback" in texts[-1]
    for text in texts:
        assert "Error: s3://keys/" in text
        assert "\x1b" not in text
        assert not [each for each in SECRETS.values() if each in text], text


def test_an_error_text_shows_no_key_of_options_or_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name, value in SECRETS.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))

    def fail(*_: object, **__: object) -> None:
        raise RuntimeError(
            f"{SECRETS} {OPTION}; Authorization: AWS4-HMAC-SHA256 Credential=AKIDOFFILE/1, Signature=fe01"
        )

    monkeypatch.setattr(MemoryFileSystem, "ls", fail)
    with pytest.raises(StoreError) as refused:
        Remote("memory://bucket", {"secret": OPTION}).inside("")
    assert "[secret]" in str(refused.value)
    monkeypatch.setattr("multitracer.campaign.upkeep.status", fail)
    bug = call("campaign", "status", PLACE, status=1).stderr
    (log,) = (tmp_path / "multitracer").iterdir()
    for text in (str(refused.value), bug, log.read_text()):
        assert not [each for each in (*SECRETS.values(), "AKIDOFFILE", "fe01") if each in text]
    assert OPTION not in str(refused.value)
