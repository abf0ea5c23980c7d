"""What all tests share: where samples and fixtures lie, how hard Hypothesis tries, what a machine can run."""

from __future__ import annotations

import gc
import os
import shutil
import signal
import stat
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, settings

if TYPE_CHECKING:
    from tests.lab.shared_runs import SharedRuns

ROOT = Path(__file__).parents[1]
FIXTURES = Path(os.environ.get("MULTITRACER_FIXTURES") or ROOT.parent / "shared" / "fixtures")
SAMPLES = ROOT / "sample_traces"
_NAMESPACE_TOOLS = ("ip", "tc", "nft", "ethtool", "tcpdump", "sysctl")

signal.signal(signal.SIGHUP, signal.SIG_DFL)  # under nohup it is ignored, by the programs under test too
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # so is this one in the background of a script
    signal.signal(signal.SIGINT, signal.default_int_handler)

gc.disable()  # while tests are collected, all that is made stays

_SLOW_MACHINE = [HealthCheck.too_slow, HealthCheck.data_too_large]
settings.register_profile("dev", max_examples=40, deadline=None, suppress_health_check=_SLOW_MACHINE)
settings.register_profile("ci", settings.get_profile("dev"), derandomize=True)
settings.register_profile("fuzz", settings.get_profile("dev"), max_examples=1_000, print_blob=True)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE") or ("ci" if "CI" in os.environ else "dev"))


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Skip what this machine cannot run, and say why."""
    reasons = {"root": _why_no_root(), "browser": _why_no_browser(), "fixtures": _why_no_fixtures()}
    for item in items:
        for mark, reason in reasons.items():
            if reason and item.get_closest_marker(mark):
                item.add_marker(pytest.mark.skip(reason=reason))


def pytest_collection_finish() -> None:
    """Let the garbage collector pass over what was imported, and begin after 20,000 objects instead of 700.

    Recordings of many packets are many objects that stay: it took a tenth of the time of their tests.
    """
    gc.freeze()
    gc.set_threshold(20_000)
    gc.enable()


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Import only what has such tests where nothing else is asked for: collecting all takes 11 s."""
    if config.option.markexpr != "realtime" or not collection_path.name.startswith("test_"):
        return None
    return "mark.realtime" not in collection_path.read_text("utf-8") or None


def _why_no_root() -> str | None:
    if os.geteuid() != 0:
        return "needs root (network namespaces)"
    absent = [tool for tool in _NAMESPACE_TOOLS if shutil.which(tool) is None]
    if absent:
        return f"needs {', '.join(absent)}"
    probe = subprocess.run(["unshare", "--net", "--mount", "true"], check=False, capture_output=True, text=True)
    return f"network namespaces are not allowed here: {probe.stderr.strip()}" if probe.returncode else None


def _why_no_browser() -> str | None:
    return None if shutil.which("chromium") else "needs chromium"


def _why_no_fixtures() -> str | None:
    return None if FIXTURES.is_dir() else f"no captures of other projects in {FIXTURES}"


@pytest.fixture(scope="session")
def fixture_folder() -> Path:
    """Return the folder with captures of other projects; skip where there is none."""
    if reason := _why_no_fixtures():
        pytest.skip(reason)
    return FIXTURES


@pytest.fixture(scope="session")
def shared_runs(tmp_path_factory: pytest.TempPathFactory) -> SharedRuns:
    """Return runs in virtual time, which all workers share."""
    from tests.lab.shared_runs import SharedRuns

    own = tmp_path_factory.getbasetemp()
    folder = (own.parent if "PYTEST_XDIST_WORKER" in os.environ else own) / "runs"
    folder.mkdir(exist_ok=True)
    return SharedRuns(folder)


@pytest.fixture
def full_device(tmp_path: Path) -> Path:
    """Return a device that is always full: root gets its own, lest a mistake replaces the machine's."""
    if os.geteuid() != 0:
        return Path("/dev/full")
    own = tmp_path / "full"
    try:
        os.mknod(own, stat.S_IFCHR | 0o666, os.makedev(1, 7))
        own.open("wb").close()
    except OSError as error:
        pytest.skip(f"no device nodes here: {error.strerror}")
    return own


@pytest.fixture(scope="session")
def sample_session() -> Path:
    """Return the bundled session folder: a real upload, captured at both ends."""
    return SAMPLES / "cellular_upload"


@pytest.fixture(scope="session")
def sample_sender(sample_session: Path) -> Path:
    """Return the bundled session's capture at the sender (raw IP, nanoseconds, gzip)."""
    return sample_session / "mobile" / "tcp-0.pcap.gz"


@pytest.fixture(scope="session")
def sample_receiver(sample_session: Path) -> Path:
    """Return the bundled session's capture at the receiver (Ethernet, nanoseconds, gzip)."""
    return sample_session / "fixed" / "tcp-0.pcap.gz"
