"""Each command where the packages of an extra are not installed: it works, or says in one sentence which one to get."""

from __future__ import annotations

import ast
import json
import re
import subprocess
import sys
import tomllib
from contextlib import suppress
from importlib import metadata
from typing import TYPE_CHECKING

import pytest

from multitracer.cli._checks import _PACKAGES
from tests.cli.program import ENVIRONMENT
from tests.conftest import ROOT, SAMPLES
from tests.recording.captures import Conversation, write_conversations

if TYPE_CHECKING:
    from pathlib import Path

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


def _lines(out: Path) -> dict[str, list[str]]:
    """Return a command line of each command that reads, by its name, with small inputs and outputs in a folder."""
    capture, other = (str(write_conversations(out / name, Conversation())) for name in ("a.pcap", "b.pcap"))
    campaign = str(out / "campaign")
    return {
        "inspect": ["inspect", capture],
        "analyze": ["analyze", "--csv", capture],
        "diagnose": ["diagnose", capture],
        "report": ["report", capture, "-o", str(out / "report.html")],
        "plot": ["plot", capture, "-o", str(out / "plot.html")],
        "export tables": ["export", "tables", capture, "-o", str(out / "tables")],
        "export series": ["export", "series", capture, "-o", str(out / "series")],
        "export wireshark": ["export", "wireshark", capture, "-o", str(out / "out.pcapng")],
        "align": ["align", str(SAMPLES / "cellular_upload")],
        "compare": ["compare", capture, other],
        "campaign run": ["campaign", "run", capture, "-o", campaign],
        "campaign query": ["campaign", "query", campaign, "SELECT 1"],
        "campaign report": ["campaign", "report", campaign, "-o", str(out / "campaign.html")],
        "dissect": ["dissect", capture],
        "formats": ["formats"],
        "doctor": ["doctor"],
    }


_OF_CAMPAIGNS = {"compare", "campaign run", "campaign query", "campaign report"}
REFUSED = {
    "campaign": _OF_CAMPAIGNS,
    "field": set(),
    "notebook": set(),
    "signalling": set(),
    "starlink": set(),
    "figures": {"plot"},
    "statistics": {"correlate"},
    "tables": {"export tables", *_OF_CAMPAIGNS},
    "wireshark": {"dissect"},
}
"""The commands that need an extra; all others work without it."""


@pytest.mark.slow
@pytest.mark.parametrize("extra", OPTIONAL)
def test_a_command_names_the_extra_that_it_needs(extra: str, tmp_path: Path) -> None:
    missing, lines = [module for module, _, own, _ in _PACKAGES if own == extra], _lines(tmp_path)
    if extra == "statistics":  # with them it takes seconds, and has tests of its own
        lines["correlate"] = ["correlate", str(SAMPLES / "rehearsed-drive")]
    command = [sys.executable, "-c", _PROGRAM, json.dumps([missing, list(lines.values())])]
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=ENVIRONMENT)
    answers = [json.loads(line) for line in done.stdout.splitlines()]
    refused = set()
    for name, (_, status, said) in zip(lines, answers, strict=True):
        if "is not installed" in said:
            refused.add(name)
            assert (status, f"multitracer[{extra}]" in said, said.count("\n")) == (1, True, 1), said
        elif name != "doctor":  # which tells what is missing on standard output
            assert status == 0, (name, said)
    assert refused == REFUSED[extra]


def test_every_package_that_is_imported_is_known_by_its_extra() -> None:
    """A package that `_PACKAGES` lacks would end a command as a bug where it is not installed."""
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    for module, distribution, extra, _ in _PACKAGES:
        if extra:
            assert any(re.search(rf"\b{distribution}\b", each) for each in extras[extra]), module
    known = {module for module, *_ in _PACKAGES} | {"multitracer", "collectors", "parsers"}
    for package in ("multitracer", "collectors", "parsers"):
        for path in (ROOT / package).rglob("*.py"):
            unknown = _imported(path) - sys.stdlib_module_names - known - {"_typeshed"}
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


def test_each_package_under_the_gpl_is_named_as_one() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    every = {_name(each) for own in project["optional-dependencies"].values() for each in own}
    section = (ROOT / "docs" / "licences.md").read_text("utf-8").split("## ")[1]
    named = set()
    for package in (every | {_name(each) for each in project["dependencies"]}) - {"multitracer"}:
        with suppress(metadata.PackageNotFoundError):
            about = metadata.metadata(package)
            licences = [about[each] for each in ("License-Expression", "License") if each in about]
            words = [*licences, *(about.get_all("Classifier") or [])]
            named |= {package for each in words if re.search(r"GPL|General Public", each[:100])}
    assert named <= {"scapy", "signalcat"}
    assert all(name in section for name in named)


def test_the_sniffer_is_tried_in_a_process_of_its_own() -> None:
    program = (
        "import sys; from contextlib import suppress; from collectors import collectors; "
        "from multitracer.errors import PreflightError\n"
        "with suppress(PreflightError): collectors()['sniffer'].check()\n"
        "sys.exit('scapy' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", program], check=False, cwd=ROOT).returncode == 0


def _name(requirement: str) -> str:
    return re.split(r"[\[><=]", requirement)[0]
