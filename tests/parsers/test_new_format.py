"""A package that `formats --new` writes is installed, recognised and tested as it is; misspelt plug-ins are said."""

from __future__ import annotations

import shutil
import subprocess
import sys
import tomllib
from typing import TYPE_CHECKING

import pytest

from tests.cli.program import call
from tests.collectors.test_installed import install
from tests.conftest import ROOT

if TYPE_CHECKING:
    from pathlib import Path

PAGE = ROOT / "docs" / "formats.md"


@pytest.fixture
def inside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return an empty folder that is the working folder."""
    folder = tmp_path / "work"
    folder.mkdir()
    monkeypatch.chdir(folder)
    return folder


def _files(folder: Path) -> set[str]:
    return {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.slow
@pytest.mark.parametrize("name", ["acme-rlp2", "mt", "table"])  # the last two are names in its test, too
def test_what_is_written_passes_its_own_test_once_installed(inside: Path, tmp_path: Path, name: str) -> None:
    printed = call("formats", "--new", name).stdout.split()
    assert set(printed) == _files(inside)
    package = inside / name
    project = tomllib.loads((package / "pyproject.toml").read_text("utf-8"))
    (group, points), *more = project["project"]["entry-points"].items()
    assert not more
    lines = [f"[{group}]", *(f"{point} = {module}" for point, module in points.items())]
    (module,) = project["tool"]["setuptools"]["py-modules"]
    modules = {module: (package / f"{module}.py").read_text("utf-8")}
    environment = install(tmp_path / "site", module, "\n".join(lines) + "\n", modules)
    shutil.move(package / "tests", tmp_path / "tests")  # the module is that which pip installed
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-p",
        "no:cacheprovider",
        "-o",
        "addopts=",
        str(tmp_path / "tests"),
    ]
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    assert "2 passed" in done.stdout, done.stdout + done.stderr
    listed = [sys.executable, "-m", "multitracer", "formats"]
    done = subprocess.run(listed, cwd=tmp_path, env=environment, capture_output=True, text=True, check=True)
    assert name in done.stdout


@pytest.mark.parametrize(
    "name",
    [
        "../x", "/tmp/x", "a/b", "", "-x", "Acme", "acme_x", "a--b", "a" * 41, "json", "class", "pcap", "numpy",
        "setup",
    ],
)  # fmt: skip
def test_a_name_that_is_none_or_is_taken_is_refused(inside: Path, name: str) -> None:
    done = call("formats", f"--new={name}", status=1)
    assert "choose another name" in done.stderr or "the name of a format must be" in done.stderr
    assert not list(inside.parent.rglob("*.py"))
    assert not list(inside.iterdir())


def test_nothing_is_overwritten(inside: Path) -> None:
    (inside / "acme-file").write_text("mine")
    (inside / "acme-link").symlink_to("nowhere")
    for name in ("acme-file", "acme-link"):
        assert "this exists already" in call("formats", "--new", name, status=1).stderr
    assert (inside / "acme-file").read_text() == "mine"
    assert not (inside / "nowhere").exists()


def test_the_page_shows_the_module_that_is_written(inside: Path) -> None:
    call("formats", "--new", "acme-signal")
    assert (inside / "acme-signal" / "acme_signal.py").read_text("utf-8") in PAGE.read_text("utf-8")


_FORMAT = (
    "from multitracer.plugins import Format\n"
    "{name} = Format(name='acme', layer='radio', description='d', source='s', sniff=print, {argument}=print)\n"
)


_GROUP = "multitracer.formats"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("group", "value", "name", "argument", "why"),
    [
        ("multitracer.format", "acme", "FORMAT", "parse", "is no group of entry points; write " + _GROUP),
        ("Multi-Tracer.Formats", "acme", "FORMAT", "parse", "is no group of entry points; write " + _GROUP),
        ("multitrace.formats", "acme", "FORMAT", "parse", "is no group of entry points; write " + _GROUP),
        ("multitracer.colector", "acme", "FORMAT", "parse", "of entry points; write multitracer.collectors; the"),
        (_GROUP, "acme", "FORMATS", "parse", "no FORMAT of type parsers.Format; rename FORMATS to FORMAT"),
        (_GROUP, "acme", "FORMAT", "prase", "unexpected keyword argument 'prase'; write parse"),
        (_GROUP, "acme:FORMAT", "FORMAT", "parse", "let the entry point name the module, without :FORMAT"),
    ],
)  # fmt: skip
def test_a_misspelt_name_of_a_plug_in_is_said_once_with_the_right_one(
    tmp_path: Path, group: str, value: str, name: str, argument: str, why: str
) -> None:
    modules = {"acme": _FORMAT.format(name=name, argument=argument)}
    environment = install(tmp_path / "site", "acme", f"[{group}]\nacme = {value}\n", modules)
    command = [sys.executable, "-m", "multitracer", "inspect", str(ROOT / "sample_traces" / "load")]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    assert done.stderr.count("the plug-in is not used") == 1
    assert why in " ".join(done.stderr.split())


@pytest.mark.slow
def test_a_group_of_another_package_is_not_ours(tmp_path: Path) -> None:
    environment = install(tmp_path / "site", "acme", "[multitrack.effects]\nacme = acme\n", {"acme": ""})
    command = [sys.executable, "-m", "multitracer", "inspect", str(ROOT / "sample_traces" / "load")]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    assert "plug-in" not in done.stderr


@pytest.mark.slow
def test_a_log_of_a_broken_plug_in_is_refused_with_what_is_wrong_in_the_plug_in(inside: Path, tmp_path: Path) -> None:
    call("formats", "--new", "acme")
    module = (inside / "acme" / "acme.py").read_text("utf-8").replace("sniff=sniff", "snif=sniff")
    environment = install(tmp_path / "site", "acme", f"[{_GROUP}]\nacme = acme\n", {"acme": module})
    command = [sys.executable, "-m", "multitracer", "inspect", str(inside / "acme" / "tests" / "sample.log")]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "unexpected keyword argument 'snif'; write sniff" in " ".join(done.stderr.split())
