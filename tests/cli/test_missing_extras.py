"""Each command where the packages of an extra are not installed: it works, or says in one sentence which one to get."""

from __future__ import annotations

import ast
import json
import re
import subprocess
import sys
import tomllib
from typing import TYPE_CHECKING

import pytest

from multitracer.cli._checks import _PACKAGES
from tests.cli.program import ENVIRONMENT
from tests.conftest import ROOT, SAMPLES

if TYPE_CHECKING:
    from pathlib import Path

UPLOAD, SESSION = str(SAMPLES / "cellular_upload" / "mobile" / "tcp-0.pcap.xz"), str(SAMPLES / "cellular_upload")
OPTIONAL = sorted({extra for _, _, extra, _ in _PACKAGES if extra})

# Runs its command lines one after the other in an interpreter that finds none of the packages named first.
_PROGRAM = """
import contextlib, io, json, sys
missing, lines = json.loads(sys.argv[1])
for name in missing:
    sys.modules[name] = None
from multitracer.cli._program import run
for line in lines:
    said = io.StringIO()
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(said):
        status = run(line)
    print(json.dumps([line[0], status, said.getvalue()]))
"""


def _lines(out: Path) -> list[list[str]]:
    """Return a command line of each command that reads, with outputs in a folder."""
    return [
        ["inspect", UPLOAD],
        ["analyze", "--csv", UPLOAD],
        ["diagnose", SESSION],
        ["report", UPLOAD, "-o", str(out / "report.html")],
        ["plot", UPLOAD, "-o", str(out / "plot.html")],
        ["export", "tables", UPLOAD, "-o", str(out / "tables")],
        ["export", "series", UPLOAD, "-o", str(out / "series")],
        ["export", "wireshark", UPLOAD, "-o", str(out / "out.pcapng")],
        ["align", SESSION],
        ["correlate", SESSION],
        ["compare", UPLOAD, UPLOAD],
        ["campaign", "run", UPLOAD, "-o", str(out / "campaign")],
        ["campaign", "query", str(out / "campaign"), "SELECT 1"],
        ["campaign", "report", str(out / "campaign"), "-o", str(out / "campaign.html")],
        ["merge", SESSION, str(SAMPLES / "download"), "-o", str(out / "merged")],
        ["dissect", UPLOAD],
        ["formats"],
        ["doctor"],
    ]


@pytest.mark.slow
@pytest.mark.parametrize("extra", OPTIONAL)
def test_a_command_names_the_extra_that_it_needs(extra: str, tmp_path: Path) -> None:
    missing = [module for module, _, own, _ in _PACKAGES if own == extra]
    command = [sys.executable, "-c", _PROGRAM, json.dumps([missing, _lines(tmp_path)])]
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=ENVIRONMENT)
    for line in done.stdout.splitlines():
        name, status, said = json.loads(line)
        assert "bug" not in said, said
        if "is not installed" in said:
            assert status == 1
            assert re.search(rf"multitracer\[{extra}\]", said), (name, said)


def test_every_package_that_is_imported_is_known_by_its_extra() -> None:
    """A package that `_PACKAGES` lacks would end a command as a bug where it is not installed."""
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    for module, distribution, extra, _ in _PACKAGES:
        if extra:
            assert any(re.search(rf"\b{distribution}\b", each) for each in extras[extra]), module
    known = {module for module, *_ in _PACKAGES} | {"multitracer", "collectors", "parsers"}
    for package in ("multitracer", "collectors", "parsers"):
        for path in (ROOT / package).rglob("*.py"):
            unknown = _imported(path) - sys.stdlib_module_names - known - {"multitracer_native", "_typeshed"}
            assert not unknown, path


def _imported(path: Path) -> set[str]:
    """Return the first names of the modules that a program imports, wherever in it."""
    names: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.Import):
            names |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            names.add(node.module.partition(".")[0])
    return names


def test_everything_is_installed_by_one_extra() -> None:
    """But what only SCAT needs: it is GPL."""
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    (everything,) = extras["all"]
    assert {*everything.partition("[")[2].rstrip("]").split(",")} == {*extras} - {"all", "signalling"}


def test_the_page_of_licences_has_every_package() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]
    wanted = {(_name(each), "always") for each in project["dependencies"]}
    wanted |= {
        (_name(each), f"`{extra}`") for extra, own in extras.items() for each in own if "multitracer[" not in each
    }
    told = set()
    for line in (ROOT / "docs" / "licences.md").read_text("utf-8").splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if len(cells) == 4 and not cells[0].startswith(("-", "package")):
            told.add((cells[0], cells[2]))
    assert told == wanted


def _name(requirement: str) -> str:
    return re.split(r"[\[><=]", requirement)[0]
