"""The kernel's wheel installs and reads where no compiler is: `make wheel` builds it, and runs this."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
import zstandard

import multitracer
from multitracer.native import VARIABLE
from parsers._stream import open_stream
from tests.conftest import SAMPLES

WHEEL = os.environ.get("MULTITRACER_WHEEL")
ROOT = Path(__file__).parents[2]
pytestmark = [pytest.mark.skipif(not WHEEL, reason="no wheel: make wheel"), pytest.mark.timeout(900)]


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


@pytest.fixture(scope="module")
def bare(tmp_path_factory: pytest.TempPathFactory) -> Bare:
    made = Bare(tmp_path_factory.mktemp("bare"))
    made.run("python", "-m", "pip", "install", "--quiet", "--only-binary", ":all:", ROOT, str(WHEEL))
    return made


def test_it_is_for_any_linux_of_ten_years_and_any_python_from_3_11_on() -> None:
    name = Path(str(WHEEL)).name
    assert name.startswith(f"multitracer_native-{multitracer.__version__}-cp311-abi3-manylinux")
    assert "manylinux_2_17_" in name


def test_no_compiler_is_there(bare: Bare) -> None:
    looks = "import shutil; print([shutil.which(each) for each in ('cargo', 'gcc', 'cc', 'make')])"
    assert bare.run("python", "-c", looks) == "[None, None, None, None]\n"


def test_it_reads_what_python_reads(bare: Bare, tmp_path: Path) -> None:
    assert f"captures are read by the native kernel {multitracer.__version__}" in bare.run(
        "multitracer", "--version", "-v"
    )
    captures = sorted(SAMPLES.glob("*/*.pcap*"))[:3]
    assert captures
    packed = tmp_path / "packed.pcap.zst"
    with open_stream(captures[0]) as stream:
        packed.write_bytes(zstandard.compress(stream.read()))
    for path in [*captures, packed]:
        native = bare.run("multitracer", "analyze", "--json", path)
        assert native == bare.run("multitracer", "analyze", "--json", path, **{VARIABLE: "0"})
