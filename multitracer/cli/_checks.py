"""The checks of `multitracer doctor`."""

from __future__ import annotations

import importlib
import importlib.metadata
import os
import platform
import shutil
import socket
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import parsers
from collectors import collectors, installed
from multitracer import native
from multitracer.errors import PreflightError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from collectors import Collector

_PACKAGES = (  # import name, distribution, extra that brings it ("" is always installed), purpose
    ("numpy", "numpy", "", "read and analyse captures"),
    ("click", "click", "", "command line"),
    ("rich", "rich", "", "format text on a terminal"),
    ("zstandard", "zstandard", "", "read .zst files"),
    ("pandas", "pandas", "tables", "return pandas DataFrames"),
    ("pyarrow", "pyarrow", "tables", "write Parquet files"),
    ("plotly", "plotly", "figures", "draw figures"),
    ("scapy", "scapy", "field", "capture packets without tcpdump"),
    ("serial", "pyserial", "field", "communicate with modems"),
    ("pyshark", "pyshark", "wireshark", "run Wireshark's dissectors"),
    ("scipy", "scipy", "statistics", "correlate layers"),
    ("sklearn", "scikit-learn", "statistics", "correlate layers by mutual information"),
    ("duckdb", "duckdb", "campaign", "query campaigns"),
    ("dask", "dask", "campaign", "analyse campaigns on several processors"),
    ("distributed", "distributed", "campaign", "analyse campaigns on several processors"),
    ("fsspec", "fsspec", "campaign", "compare recordings, and store campaigns"),
    ("s3fs", "s3fs", "campaign", "store campaigns in buckets"),
    ("ipykernel", "ipykernel", "notebook", "run notebooks"),
    ("nbformat", "nbformat", "notebook", "show figures in notebooks"),
    ("starlink_grpc", "starlink-grpc-core", "starlink", "record a Starlink dish"),
    ("grpc", "grpcio", "starlink", "record a Starlink dish"),
    ("cryptography", "cryptography", "quic", "open packets of QUIC with their keys"),
    ("scat", "signalcat", "signalling", "read diagnostic logs of modems (GPL-2.0-or-later, no part of all)"),
)
_NOT_IMPORTED = (
    "sklearn",
    "distributed",
    "s3fs",
    "scapy",
    "ipykernel",
    "nbformat",
    "starlink_grpc",
    "grpc",
    "cryptography",
    "scat",
)
"""Packages of which `doctor` reads the version only: to import one takes seconds, or only another process may
(docs/licences.md)."""
_NEEDED_EXTRAS = ("", "tables", "figures")
_TOOLS = (  # program, what makes it say its version, purpose
    ("tcpdump", "--version", "capture packets"),
    ("tshark", "--version", "run Wireshark's dissectors, and compare results with Wireshark"),
    ("tcptrace", "-v", "compare results with tcptrace"),
    ("adb", "version", "record an Android phone (`capture --phone`)"),
    ("iperf3", "--version", "load the path (`measure run --protocol iperf3`)"),
)
_INSTALLERS = (
    ("apt-get", "sudo apt-get install {}"),
    ("dnf", "sudo dnf install {}"),
    ("pacman", "sudo pacman -S {}"),
    ("zypper", "sudo zypper install {}"),
    ("apk", "sudo apk add {}"),
    ("brew", "brew install {}"),
)
_OLDEST_PYTHON = (3, 11)
_TOOL_TIMEOUT_S = 10


@dataclass(frozen=True, slots=True)
class Check:
    """Name and result of one check of this machine."""

    name: str
    works: bool
    message: str
    purpose: str
    fix: str
    """The command that corrects the fault."""
    needed: bool
    """Whether reading, analysing, drawing or writing tables depends on the checked part."""
    extra: str = ""
    """The pip extra that installs it; empty for what is always installed, and for what is no Python package."""
    bytes: int | None = None
    """Size of the installed files of a Python package, without what it depends on; None if it is not known."""


def checks() -> Iterator[Check]:
    """Check Python, the packages, the programs, the privileges and the collectors, in this order."""
    yield Check(
        "Python",
        sys.version_info >= _OLDEST_PYTHON,
        platform.python_version(),
        "run MultiTracer",
        "install Python 3.11 or newer",
        needed=True,
    )
    yield from (_package(*row) for row in _PACKAGES)
    yield _native_kernel()
    yield from (_tool(*row) for row in _TOOLS)
    yield _packet_capture()
    yield from (_collector(collector) for collector in collectors().values())
    for unusable in parsers.installed().broken:
        yield Check("format plug-in", False, "broken", "read log formats of other packages", str(unusable), False)
    for broken in installed().broken:
        yield Check(
            "collector plug-in", False, "broken", "record with collectors of other packages", str(broken), False
        )


def how_to_install(module: str) -> str | None:
    """Return the command that installs the package of a module; None for a module that is not used here."""
    package = next(((distribution, extra) for name, distribution, extra, _ in _PACKAGES if name == module), None)
    if package is None:
        return None
    distribution, extra = package
    # Of MultiTracer, which may be on no index, pip takes what is installed: an extra adds packages, nothing else
    wanted = f"'multitracer[{extra}]'" if extra else f"--force-reinstall {distribution}"
    return f"{sys.executable} -m pip install {wanted}"


def _package(module: str, distribution: str, extra: str, purpose: str) -> Check:
    try:
        if module not in _NOT_IMPORTED:
            importlib.import_module(module)
        message, works = importlib.metadata.version(distribution), True
    except ImportError as error:  # PackageNotFoundError is one
        message, works = str(error), False
    fix = how_to_install(module) or ""
    held = _installed_bytes(distribution) if works else None
    return Check(distribution, works, message, purpose, fix, needed=extra in _NEEDED_EXTRAS, extra=extra, bytes=held)


def _installed_bytes(distribution: str) -> int | None:
    """Return the size of the files that a distribution installed, as its record states; None without a record."""
    files = importlib.metadata.files(distribution) or []
    return sum(each.size or 0 for each in files) or None


def _native_kernel() -> Check:
    is_off = os.environ.get(native.VARIABLE) == "0"
    is_clone = Path(__file__).parents[2].joinpath("native", "Cargo.toml").is_file()
    install = f"{sys.executable} -m pip install --force-reinstall --no-deps"
    fix = f"install Rust (cargo), then in a clone: {install} . (or without Rust: {install} WHEEL, a release's wheel)"
    fix = "install Rust (cargo), then: make native" if is_clone else fix
    fix = f"unset {native.VARIABLE}" if is_off else fix
    works = native.kernel() is not None
    return Check("native kernel", works, native.state(), "read captures faster", fix, needed=False)


def _tool(program: str, version_option: str, purpose: str) -> Check:
    path = shutil.which(program)
    message = _first_words([path, version_option]) if path else "not installed"
    return Check(program, path is not None, message, purpose, _install_command(program), needed=False)


def _first_words(command: list[str]) -> str:
    """Run a program and return the first line of its output, which states its version."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=_TOOL_TIMEOUT_S, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"cannot be run: {error}"
    lines = [line.strip() for line in f"{done.stdout}\n{done.stderr}".splitlines() if line.strip()]
    return lines[0] if lines else command[0]


def _install_command(program: str) -> str:
    for installer, template in _INSTALLERS:
        if shutil.which(installer):
            return template.format(program)
    return f"install {program} with this system's package manager"


def _packet_capture() -> Check:
    """Check whether a packet socket can be opened, as a capture needs."""
    tcpdump = shutil.which("tcpdump")
    fix = f"sudo setcap cap_net_raw+ep {tcpdump}" if tcpdump else "run multitracer with sudo"
    try:
        socket.socket(socket.AF_PACKET, socket.SOCK_RAW).close()
        message, works = "allowed", True
    except AttributeError:
        message, works = "not available: this system has no packet sockets", False
    except OSError as error:
        message, works = error.strerror or str(error), _may_capture(tcpdump)
        message = "allowed for tcpdump" if works else message
    return Check("packet capture", works, message, "record packets", fix, needed=False)


def _collector(collector: Collector) -> Check:
    """Run the check of a collector; its error message describes the repair."""
    name = f"collector {collector.name}"
    try:
        collector.check()
    except PreflightError as error:
        return Check(name, False, "cannot record here", f"record {collector.description}", str(error), needed=False)
    return Check(name, True, "can record here", f"record {collector.description}", "", needed=False)


def _may_capture(tcpdump: str | None) -> bool:
    """Return whether the program tcpdump has the permission (capability) to capture without root."""
    getcap = shutil.which("getcap") or shutil.which("getcap", path="/usr/sbin:/sbin")
    return bool(tcpdump and getcap and "cap_net_raw" in _first_words([getcap, tcpdump]))
