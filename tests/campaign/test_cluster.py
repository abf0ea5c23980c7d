"""Sessions analysed by processes of a Dask cluster: the same rows, whoever dies."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import socket
import ssl
import subprocess
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from distributed import Client, LocalCluster, Security

from multitracer.campaign import cluster as clusters
from multitracer.campaign.analysed import AnalysisTask
from multitracer.campaign.cluster import ALONE_BYTES, BATCH, ClusterCertificates, OnCluster, batches
from multitracer.campaign.discovery import Candidate
from multitracer.campaign.run import run
from multitracer.campaign.store import ATTEMPTS, SPOOLS, Store
from multitracer.errors import InputError
from tests.campaign.sessions import make_sessions, rows_of
from tests.cli.program import call, start

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

pytestmark = pytest.mark.usefixtures("lost_connections")

SESSIONS = 8
ONE_WORKER: dict[str, Any] = {"n_workers": 1, "dashboard_address": "127.0.0.1:0", "silence_logs": 50}


@pytest.fixture(scope="module")
def drives(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_sessions(tmp_path_factory.mktemp("drives"), SESSIONS)


@pytest.fixture(scope="module")
def expected(drives: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[str]]:
    place = tmp_path_factory.mktemp("expected") / "campaign"
    run([str(drives)], place)
    return rows_of(place)


def test_large_sessions_are_alone_and_small_ones_together() -> None:
    sizes = [10] * (BATCH + 1) + [ALONE_BYTES + 1, ALONE_BYTES + 2]
    tasks = [AnalysisTask(Candidate((str(number),)), "", bytes=size) for number, size in enumerate(sizes)]
    made = batches(tasks)
    assert [[task.bytes for task in batch] for batch in made] == [
        [ALONE_BYTES + 2], [ALONE_BYTES + 1], [10] * BATCH, [10],
    ]  # fmt: skip


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_two_processes_make_the_same_rows_though_a_worker_dies(
    drives: Path, expected: dict[str, list[str]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(clusters, "BATCH", 2)
    place = tmp_path / "campaign"
    killed: list[int] = []
    with _killing(place, killed):
        progress = run([str(drives)], place, workers=OnCluster(2))
    assert killed, "no worker was killed while it analysed a session"
    assert (progress.done, progress.failed) == (SESSIONS, 0)
    assert rows_of(place) == expected


@contextlib.contextmanager
def _killing(place: Path, killed: list[int]) -> Iterator[None]:
    """Kill the first worker that analyses a session: the file of the attempt holds its number."""
    over = threading.Event()

    def kill() -> None:
        while not over.is_set() and not killed:
            for path in (place / ATTEMPTS).glob("[!.]*"):
                with contextlib.suppress(FileNotFoundError):
                    killed.append(int(path.read_text("ascii")))
                    os.kill(killed[0], signal.SIGKILL)
                    return
            time.sleep(0.005)

    thread = threading.Thread(target=kill)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def test_an_address_where_nobody_answers_is_an_error_of_one_sentence(
    drives: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(clusters, "_RECONNECT_S", 0.1)
    monkeypatch.setitem(clusters._SETTINGS, "distributed.comm.timeouts.connect", "1s")
    with pytest.raises(InputError, match=r"tcp://127\.0\.0\.1:9: the scheduler has not answered for"):
        run([str(drives)], tmp_path / "campaign", workers=OnCluster(address="tcp://127.0.0.1:9"))


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_a_cluster_of_another_version_is_refused(drives: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with LocalCluster(**ONE_WORKER) as cluster:
        workers = OnCluster(address=cluster.scheduler_address)
        monkeypatch.setattr(clusters, "__version__", "0.0.1")  # of this process, which is the scheduler's, too
        with pytest.raises(InputError, match=r"has multitracer .*, but this program has 0\.0\.1; install the same"):
            run([str(drives)], tmp_path / "campaign", workers=workers)
    assert not Store(tmp_path / "campaign").list(SPOOLS)


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("hidden", ["drives", "campaign"])
def test_a_cluster_that_does_not_see_a_path_is_refused(drives: Path, tmp_path: Path, hidden: str) -> None:
    place = tmp_path / "campaign"
    unseen = str(drives) if hidden == "drives" else str(place)
    refused = pytest.raises(InputError, match=rf"cannot find {unseen}.*; make this path available on every worker")
    with LocalCluster(**ONE_WORKER) as cluster:
        with Client(cluster, set_as_default=False) as client:
            client.run(_hide, unseen)
        with refused:
            run([str(drives)], place, workers=OnCluster(address=cluster.scheduler_address))
    assert not Store(place).list(SPOOLS)
    assert run([str(drives)], place).done == SESSIONS, "no session is a failure because of it"


def _hide(unseen: str) -> None:
    """Let a worker not see a path, as where a disk is not mounted."""
    exists = os.path.exists
    os.path.exists = lambda path: not str(path).startswith(unseen) and exists(path)


# --- certificates ---

_CURVE = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-subj")


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with two authorities, and a certificate that each of them signed."""
    if shutil.which("openssl") is None:
        pytest.skip("openssl is not installed")
    folder = tmp_path_factory.mktemp("certificates")

    def openssl(*words: str) -> None:
        subprocess.run(["openssl", *words], cwd=folder, check=True, capture_output=True)

    for authority in ("ours", "theirs"):
        ca = f"{authority}-ca"
        openssl("req", "-x509", *_CURVE, f"/CN={ca}", "-days", "2", "-keyout", f"{ca}.key", "-out", f"{ca}.pem")
        openssl("req", *_CURVE, f"/CN={authority}", "-keyout", f"{authority}.key", "-out", f"{authority}.csr")
        sign = ("-CA", f"{ca}.pem", "-CAkey", f"{ca}.key", "-CAcreateserial", "-days", "2")
        openssl("x509", "-req", "-in", f"{authority}.csr", *sign, "-out", f"{authority}.pem")
    return folder


def _signed_by(folder: Path, authority: str) -> ClusterCertificates:
    name = str(folder / authority)
    return ClusterCertificates(f"{name}.pem", f"{name}-ca.pem", f"{name}.key")


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_a_cluster_with_tls_believes_only_what_its_authority_signed(
    drives: Path, expected: dict[str, list[str]], certificates: Path, tmp_path: Path
) -> None:
    ours, theirs = (_signed_by(certificates, name) for name in ("ours", "theirs"))
    sides = {
        f"tls_{side}_{kind}": path
        for side in ("scheduler", "worker", "client")
        for kind, path in (("cert", ours.certificate), ("key", ours.key))
    }
    security = Security(tls_ca_file=ours.authority, require_encryption=True, **sides)
    with LocalCluster(**ONE_WORKER, protocol="tls", security=security) as cluster:
        address = cluster.scheduler_address
        with pytest.raises(InputError, match=r"no connection by TLS .*; check the certificates of both sides"):
            run([str(drives)], tmp_path / "campaign", workers=OnCluster(address=address, certificates=theirs))
        workers = OnCluster(address=address, certificates=ours)
        with Client(address, security=security, set_as_default=False) as client:
            client.run(_lie, ["done"])
            with pytest.raises(InputError, match="a worker of the cluster returned no outcomes"):
                run([str(drives)], tmp_path / "campaign", workers=workers)
            client.run(_lie, None)
        run([str(drives)], tmp_path / "campaign", workers=workers)
    assert rows_of(tmp_path / "campaign") == expected


def _lie(outcomes: list[str] | None) -> None:
    """Let a worker return these outcomes for each batch, or again those of its work."""
    clusters.work = (lambda *_: outcomes) if outcomes is not None else _WORK


_WORK = clusters.work


def test_a_scheduler_that_another_authority_signed_sends_nothing_that_is_unpickled(
    drives: Path, certificates: Path, tmp_path: Path
) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificates / "theirs.pem", certificates / "theirs.key")
    reasons: list[str] = []
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def serve() -> None:
            client, _ = listening.accept()
            with client, pytest.raises(ssl.SSLError) as refused:
                context.wrap_socket(client, server_side=True).recv(1)
            reasons.append(str(refused.value))

        thread = threading.Thread(target=serve)
        thread.start()
        workers = OnCluster(
            address=f"tls://127.0.0.1:{listening.getsockname()[1]}", certificates=_signed_by(certificates, "ours")
        )
        with pytest.raises(InputError, match="no connection by TLS"):
            run([str(drives)], tmp_path / "campaign", workers=workers)
        thread.join()
    assert "unknown ca" in reasons[0].lower()


@pytest.mark.parametrize(
    ("options", "why"),
    [
        (["--cluster", "tls://127.0.0.1:9"], "TLS needs certificates; add --cluster-cert FILE and --cluster-ca FILE"),
        (["--cluster", "tcp://127.0.0.1:9", "--cluster-cert", "ours.pem", "--cluster-ca", "ours-ca.pem"], "tls://HOST"),
        (["--cluster", "tls://127.0.0.1:9", "--cluster-cert", "ours.csr", "--cluster-ca", "ours-ca.pem"], "PEM format"),
        (["--cluster", "tls://127.0.0.1:9", "--cluster-cert", "absent", "--cluster-ca", "ours-ca.pem"], "No such file"),
    ],
)
def test_options_that_cannot_be_used_for_tls_are_an_error_of_one_sentence(
    options: list[str], why: str, certificates: Path, drives: Path, tmp_path: Path
) -> None:
    command = ["campaign", "run", str(drives), "-o", str(tmp_path / "campaign"), *options]
    assert why in call(*command, status=1, cwd=certificates).stderr


def test_rows_that_a_worker_wrote_elsewhere_are_missed(drives: Path, tmp_path: Path) -> None:
    place = tmp_path / "campaign"

    def elsewhere(_: Store, tasks: list[AnalysisTask]) -> Iterator[tuple[AnalysisTask, str]]:
        yield tasks[0], "done"

    with pytest.raises(InputError, match=r"the results of .*day000 are missing"):
        run([str(drives)], place, workers=elsewhere)  # type: ignore[arg-type]


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_an_interrupt_ends_all_processes_with_one_line(tmp_path: Path) -> None:
    drives = make_sessions(tmp_path / "drives", 60)
    process = start(
        ["campaign", "run", str(drives), "-o", str(tmp_path / "campaign"), "--jobs", "2"], start_new_session=True
    )
    while process.poll() is None and not _spooled(tmp_path / "campaign"):
        time.sleep(0.02)
    os.killpg(process.pid, signal.SIGINT)
    _, words = process.communicate(timeout=300)
    assert process.returncode == 130
    assert words.splitlines()[-1] == "Error: interrupted"
    assert "Traceback" not in words
    deadline_s = time.monotonic() + 120
    while _is_running(process.pid):
        assert time.monotonic() < deadline_s
        time.sleep(0.1)


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("kill", [os.kill, os.killpg])
def test_an_interrupt_while_the_processes_start_is_not_lost(kill: Callable[[int, int], None], tmp_path: Path) -> None:
    drives = make_sessions(tmp_path / "drives", 60)
    process = start(
        ["campaign", "run", str(drives), "-o", str(tmp_path / "campaign"), "--jobs", "2"], start_new_session=True
    )
    threads = Path(f"/proc/{process.pid}/task")
    while process.poll() is None and _children(threads) < 1 + (kill is os.killpg):  # the first tracks resources
        time.sleep(0.005)
    kill(process.pid, signal.SIGINT)
    _, words = process.communicate(timeout=300)
    assert process.returncode == 130
    assert words.splitlines()[-1] == "Error: interrupted"
    assert "Traceback" not in words
    assert not _spooled(tmp_path / "campaign"), "it came before the first session was analysed"


def _children(threads: Path) -> int:
    """Return the number of child processes that the threads of a process have started, and that run."""
    return sum(len(path.read_text().split()) for path in threads.glob("*/children"))


def _is_running(group: int) -> bool:
    """Return whether a process of a group is there; the system reaps orphans a moment later."""
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return False
    return True


def _spooled(place: Path) -> bool:
    return place.exists() and bool(Store(place).list(SPOOLS))
