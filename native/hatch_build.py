"""Compile the native kernel into a wheel of MultiTracer, where Rust's cargo is.

Hatchling runs this for each wheel and each editable installation. Without cargo, or if the compilation fails, the
installation goes on without the kernel: Python then does the same work. One line says why, here and later in
`multitracer doctor`.

Environment variables of a build:

MULTITRACER_NATIVE
    0: without the kernel, a wheel for any machine. 1: a kernel that cannot be built is an error.
MULTITRACER_TARGET
    A target of `cargo zigbuild`, which links for another machine or an older C library than those of this machine:
    `x86_64-unknown-linux-gnu.2.17`, `aarch64-unknown-linux-musl`.
"""

from __future__ import annotations

import json
import os
import platform
import re
import runpy
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

KERNEL = "multitracer/_native" + (".pyd" if os.name == "nt" else ".abi3.so")
"""The module; no target is for another system, so that this machine decides its ending."""
REASON = "multitracer/_native.txt"
"""Why there is no kernel, for `multitracer.native`."""
PYTHON_TAG = "cp311-abi3"
"""The oldest Python whose stable ABI the kernel uses (`abi3-py311` in Cargo.toml): it runs on all later ones."""
MUSL_TAG = "musllinux_1_2"
"""Zig links for musl 1.2.x, which does not number its symbols."""


class NotBuiltError(Exception):
    """Why there is no kernel."""


class KernelHook(BuildHookInterface[Any]):
    """Put the kernel into a wheel, or, for an editable installation, into the folder of the sources."""

    PLUGIN_NAME = "custom"

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Add the kernel, and the tag of the machines that it runs on."""
        root, target = Path(self.root), os.environ.get("MULTITRACER_TARGET", "")
        try:
            made, name = compile_kernel(root, target), KERNEL
            build_data["pure_python"] = False
            build_data["tag"] = f"{PYTHON_TAG}-{platform_tag(target)}"
        except NotBuiltError as error:
            if os.environ.get("MULTITRACER_NATIVE") == "1":
                raise
            print(f"MultiTracer is built without its native kernel: {error}", file=sys.stderr)  # noqa: T201
            made, name = self.note(f"{error}\n"), REASON
        if version == "editable":
            put(made, root / name, [root / KERNEL, root / REASON])
        else:
            build_data["force_include"][str(made)] = name

    def note(self, text: str) -> Path:
        """Write a file that lasts as long as this build; the folder of the sources may be read-only."""
        self.scratch = tempfile.TemporaryDirectory(prefix="multitracer-build-")
        made = Path(self.scratch.name, "why_no_kernel.txt")
        made.write_text(text, "utf-8")
        return made


def put(made: Path, place: Path, all_places: list[Path]) -> None:
    """Put the kernel, or why there is none, beside the sources, and remove the other: it was true before."""
    new = place.with_suffix(".new")
    shutil.copy(made, new)
    new.replace(place)  # a program may be using the old kernel
    for other in all_places:
        if other != place:
            other.unlink(missing_ok=True)


def compile_kernel(root: Path, target: str) -> Path:
    """Compile the kernel, for this machine without a target; return the library."""
    if os.environ.get("MULTITRACER_NATIVE") == "0":
        raise NotBuiltError("MULTITRACER_NATIVE was 0")
    if sys.implementation.name != "cpython" or sysconfig.get_config_var("Py_GIL_DISABLED"):
        raise NotBuiltError("it needs CPython with the global interpreter lock")
    if not shutil.which("cargo"):
        raise NotBuiltError("cargo was not found")
    command = ["cargo", *(["zigbuild", "--target", target] if target else ["build"]), "--release", "--locked"]
    command += ["--manifest-path", str(root / "native" / "Cargo.toml"), "--message-format=json-render-diagnostics"]
    environment = os.environ | settings(target) | {"MULTITRACER_SOURCES": sources_checksum(root)}
    environment.pop("CARGO_BUILD_TARGET", None)  # the wheel's tag says for which machine it is
    # Cargo's words for people go to standard error, and it says on standard output what it made
    done = subprocess.run(command, cwd=root, env=environment, stdout=subprocess.PIPE, encoding="utf-8", check=False)
    if done.returncode:
        raise NotBuiltError(f"`{' '.join(command[:2])}` failed with status {done.returncode}")
    found = [path for line in done.stdout.splitlines() if line.startswith("{") for path in libraries(json.loads(line))]
    if not found:
        raise NotBuiltError(f"`{' '.join(command[:2])}` made no library")
    return found[-1]


def sources_checksum(root: Path) -> str:
    """Return what MultiTracer compares with a kernel, by its own function: `native.py` needs no other package."""
    checksum: str = runpy.run_path(str(root / "multitracer" / "native.py"))["sources_checksum"](root / "native")
    return checksum


def libraries(message: dict[str, Any]) -> list[Path]:
    """Return the kernel's library if a message of cargo names it: which folder it is in is up to cargo's settings."""
    if message["reason"] != "compiler-artifact" or message["target"]["name"] != "multitracer_native":
        return []
    return [Path(name) for name in message["filenames"] if name.endswith((".so", ".dylib", ".dll"))]


def settings(target: str) -> dict[str, str]:
    """Return environment variables for cargo: no path of this machine becomes a part of the kernel."""
    cargo_home = os.environ.get("CARGO_HOME", str(Path.home() / ".cargo"))
    flags = [*os.environ.get("RUSTFLAGS", "").split(), f"--remap-path-prefix={cargo_home}=cargo"]
    if "musl" in target:
        flags += ["-C", "target-feature=-crt-static"]  # a library for Python cannot hold a C library of its own
    if not target and sys.platform == "darwin":
        flags += ["-C", "link-arg=-undefined", "-C", "link-arg=dynamic_lookup"]  # Python's symbols come at run time
    made = {"CARGO_ENCODED_RUSTFLAGS": "\x1f".join(flags), "PYO3_BUILD_EXTENSION_MODULE": "1"}
    # The stable ABI needs no interpreter, but on Windows its import library
    return made | ({"PYO3_PYTHON": sys.executable} if os.name == "nt" else {"PYO3_NO_PYTHON": "1"})


def platform_tag(target: str) -> str:
    """Return the tag of the machines that have what the kernel was linked with."""
    if found := re.fullmatch(r"(\w+)-unknown-linux-gnu\.(\d+)\.(\d+)", target):
        return "manylinux_{1}_{2}_{0}".format(*found.groups())
    if found := re.fullmatch(r"(\w+)-unknown-linux-musl", target):
        return f"{MUSL_TAG}_{found[1]}"
    if target:
        raise NotBuiltError(f"MULTITRACER_TARGET={target} has no tag of a platform")
    if sys.platform == "darwin":  # the oldest system that Rust links for by default
        machine = platform.machine()
        return f"macosx_{'11_0' if machine == 'arm64' else '10_12'}_{machine}"
    return re.sub(r"[-.]", "_", sysconfig.get_platform())
