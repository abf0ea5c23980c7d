"""What is released installs and reads where no compiler is: `make wheel` builds it, and runs this."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest
import zstandard

from multitracer.native import VARIABLE
from parsers._stream import open_stream
from tests.conftest import SAMPLES

TARGET = os.environ.get("MULTITRACER_TARGET", "")
DIST = Path(os.environ.get("MULTITRACER_DIST", "nowhere"))
ROOT = Path(__file__).parents[2]
pytestmark = [pytest.mark.skipif(not DIST.is_dir(), reason="nothing was built: make wheel"), pytest.mark.timeout(1800)]


class Bare:
    """A virtual environment whose programs find no other program."""

    def __init__(self, folder: Path) -> None:
        subprocess.run([sys.executable, "-m", "venv", folder / "venv"], check=True)
        (folder / "nothing").mkdir()
        ours = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", VARIABLE)}
        self.environment = {**ours, "PATH": str(folder / "nothing")}
        self.programs = folder / "venv" / "bin"

    def run(self, program: str, *words: str | Path, **variables: str) -> str:
        """Run a program of the environment, and return what it wrote."""
        command = [self.programs / program, *words]
        environment = self.environment | variables
        done = subprocess.run(command, env=environment, cwd=self.programs, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def install(self, path: Path) -> None:
        self.run("python", "-m", "pip", "install", "--quiet", "--only-binary", "numpy,zstandard", path)

    def reader(self) -> str:
        return self.run("multitracer", "--version", "-v").splitlines()[1]


def built(pattern: str) -> Path:
    (path,) = DIST.glob(pattern)
    return path


@pytest.fixture(scope="module")
def bare(tmp_path_factory: pytest.TempPathFactory) -> Bare:
    if "musl" in TARGET:
        pytest.skip(f"the wheel is for {TARGET}, this machine has another C library")
    made = Bare(tmp_path_factory.mktemp("bare"))
    made.install(built("*-abi3-*.whl"))
    return made


def build(sources: Path, kind: str, folder: Path, **variables: str) -> Path:
    """Build a distribution of sources, as make does."""
    command = [sys.executable, "-m", "hatchling", "build", "-t", kind, "-d", str(folder)]
    environment = os.environ | variables | {"PYTHONDONTWRITEBYTECODE": "1"}  # of the hook, which Python imports
    done = subprocess.run(command, cwd=sources, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    (made,) = folder.glob("multitracer-*")
    return made


@pytest.fixture
def unpacked(tmp_path: Path) -> Path:
    """Return the folder of the released sources, unpacked."""
    with tarfile.open(built("*.tar.gz")) as archive:
        archive.extractall(tmp_path / "sources", filter="data")
    (folder,) = (tmp_path / "sources").iterdir()
    return folder


def test_no_compiler_is_there(bare: Bare) -> None:
    looks = "import shutil; print([shutil.which(each) for each in ('cargo', 'gcc', 'cc', 'make')])"
    assert bare.run("python", "-c", looks) == "[None, None, None, None]\n"


def test_it_reads_what_python_reads(bare: Bare, tmp_path: Path) -> None:
    assert bare.reader() == "captures are read by the native kernel"
    captures = sorted(SAMPLES.glob("*/*.pcap*"))[:3]
    assert captures
    packed = tmp_path / "packed.pcap.zst"
    with open_stream(captures[0]) as stream:
        packed.write_bytes(zstandard.compress(stream.read()))
    for path in [*captures, packed]:
        native = bare.run("multitracer", "analyze", "--json", path)
        assert native == bare.run("multitracer", "analyze", "--json", path, **{VARIABLE: "0"})


@pytest.mark.parametrize("command", ["uvx --from", "uvx pipx run --spec"])
def test_a_tool_runs_the_wheel_in_an_environment_of_its_own(command: str, bare: Bare, tmp_path: Path) -> None:
    """`bare` is asked for where the wheel is for another machine."""
    ours = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", VARIABLE)}
    places = {"UV_PYTHON": sys.executable, "UV_CACHE_DIR": str(tmp_path / "uv"), "PIPX_HOME": str(tmp_path / "pipx")}
    words = [*command.split(), str(built("*-abi3-*.whl")), "multitracer", "--version", "-v"]
    done = subprocess.run(words, cwd=tmp_path, env=ours | places, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[:2] == bare.run("multitracer", "--version", "-v").splitlines()[:2]


@pytest.mark.skipif(sys.platform != "linux", reason="auditwheel looks at wheels for Linux")
def test_it_asks_for_no_newer_c_library_than_its_name_says() -> None:
    """`auditwheel` looks at the symbols that the kernel needs of the C library."""
    wheel = built("*-abi3-*.whl")
    tag = wheel.stem.rpartition("-")[2]
    shown = subprocess.run(
        [sys.executable, "-m", "auditwheel", "show", wheel], capture_output=True, text=True, check=True
    ).stdout
    assert f'"{tag}"' in shown


def test_it_names_no_folder_of_the_machine_that_built_it() -> None:
    with zipfile.ZipFile(built("*-abi3-*.whl")) as wheel:
        kernel = wheel.read("multitracer/_native.abi3.so")
    for folder in (ROOT, Path.home()):
        assert str(folder).encode() not in kernel


@pytest.mark.parametrize("pattern", ["*.tar.gz", "*-none-any.whl"])
def test_without_cargo_it_installs_and_says_that_python_reads(pattern: str, tmp_path: Path) -> None:
    bare = Bare(tmp_path)
    bare.install(built(pattern))
    why = "cargo was not found" if pattern == "*.tar.gz" else "MULTITRACER_NATIVE was 0"
    assert bare.reader() == f"captures are read by Python (the native kernel was not compiled: {why})"
    capture = min(SAMPLES.glob("*/*.pcap*"))
    assert bare.run("multitracer", "analyze", "--json", capture)


def test_where_the_kernel_cannot_be_compiled_the_wheel_is_for_any_machine(unpacked: Path, tmp_path: Path) -> None:
    (unpacked / "native" / "Cargo.toml").write_text("this is no manifest")
    wheel = build(unpacked, "wheel", tmp_path / "made", MULTITRACER_TARGET="", MULTITRACER_NATIVE="")
    assert wheel.name.endswith("-py3-none-any.whl")
    with zipfile.ZipFile(wheel) as archive:
        why = archive.read("multitracer/_native.txt").decode()
    assert why == "`cargo build` failed with status 101\n"


def test_who_asks_for_the_kernel_gets_an_error_instead(unpacked: Path, tmp_path: Path) -> None:
    (unpacked / "native" / "Cargo.toml").write_text("this is no manifest")
    with pytest.raises(AssertionError, match="`cargo build` failed with status 101"):
        build(unpacked, "wheel", tmp_path / "made", MULTITRACER_TARGET="", MULTITRACER_NATIVE="1")


TINY = """
[package]
name = "multitracer-native"
edition = "2024"
[lib]
name = "multitracer_native"
crate-type = ["cdylib"]
"""
LOCK = """
version = 4
[[package]]
name = "multitracer-native"
version = "0.0.0"
"""


def tiny_crate(sources: Path, mark: str) -> None:
    """Put a crate that is compiled in a second in place of the kernel's; its library contains the mark."""
    shutil.rmtree(sources / "native" / "src")
    (sources / "native" / "src").mkdir()
    (sources / "native" / "Cargo.toml").write_text(TINY)
    (sources / "native" / "Cargo.lock").write_text(LOCK)
    code = f'#[unsafe(no_mangle)] pub static MARK: [u8; {len(mark)}] = *b"{mark}";'
    (sources / "native" / "src" / "lib.rs").write_text(code)


@pytest.mark.parametrize("variable", ["", "CARGO_TARGET_DIR", "CARGO_BUILD_TARGET_DIR", "CARGO_BUILD_TARGET"])
def test_the_wheel_has_the_library_that_cargo_made_and_no_older_one(
    unpacked: Path, tmp_path: Path, variable: str
) -> None:
    tiny_crate(unpacked, "made-by-this-build")
    stale = unpacked / "native" / "target" / "release" / "libmultitracer_native.so"
    stale.parent.mkdir(parents=True)
    stale.write_text("of an older build")
    host = subprocess.run(["rustc", "-vV"], capture_output=True, text=True, check=True).stdout.partition("host: ")[2]
    value = host.splitlines()[0] if variable == "CARGO_BUILD_TARGET" else str(tmp_path / "target")
    asked = {"MULTITRACER_TARGET": "", "MULTITRACER_NATIVE": "1"}
    wheel = build(unpacked, "wheel", tmp_path / "made", **asked, **({variable: value} if variable else {}))
    with zipfile.ZipFile(wheel) as archive:
        assert b"made-by-this-build" in archive.read("multitracer/_native.abi3.so")


def test_a_wheel_without_the_kernel_writes_nothing_into_the_sources(unpacked: Path, tmp_path: Path) -> None:
    before = sorted(unpacked.rglob("*"))
    build(unpacked, "wheel", tmp_path / "made", MULTITRACER_NATIVE="0")
    assert sorted(unpacked.rglob("*")) == before


def digest(path: Path) -> tuple[str, str]:
    return path.name, hashlib.sha256(path.read_bytes()).hexdigest()


def test_the_released_sources_make_the_same_bytes_again(unpacked: Path, tmp_path: Path) -> None:
    """Of themselves, of the wheel for any machine, and, with a target folder of its own, of the kernel."""
    (unpacked / "PKG-INFO").unlink()  # the clone has none: it is made of the others
    again = build(unpacked, "sdist", tmp_path / "sdist")
    assert digest(again) == digest(built("*.tar.gz"))
    again = build(unpacked, "wheel", tmp_path / "any", MULTITRACER_NATIVE="0")
    assert digest(again) == digest(built("*-none-any.whl"))
    again = build(
        unpacked, "wheel", tmp_path / "kernel",
        MULTITRACER_NATIVE="1", CARGO_TARGET_DIR=str(tmp_path / "target"),
    )  # fmt: skip
    assert digest(again) == digest(built("*-abi3-*.whl"))
