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
from multitracer.cli._program import cli
from tests.cli.program import ENVIRONMENT
from tests.cli.reference import commands
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
    sample, campaign, measured = str(SAMPLES / "cellular_upload"), str(out / "campaign"), str(out / "measured")
    (out / "plan.csv").write_text("protocol,over,size\ntcp,cdpd,64\n")
    planned = [str(out / "plan.csv"), "--vary", "reply", "--virtual"]
    received = str(SAMPLES / "download" / "mobile" / "tcp-0.pcap.gz")
    plan = ["--protocol", "tcp", "--over", "cdpd", "--virtual", "--vary", "reply", "--sizes", "64"]
    return {
        "inspect": ["inspect", capture],
        "analyze": ["analyze", "--csv", capture],
        "diagnose": ["diagnose", capture],
        "report": ["report", capture, "-o", str(out / "report.html")],
        "plot": ["plot", capture, "-o", str(out / "plot.html")],
        "export capacity": ["export", "capacity", received, "-o", str(out / "capacity")],
        "export errors": ["export", "errors", str(SAMPLES / "fade-n2-20"), "-o", str(out / "errors")],
        "export perfetto": ["export", "perfetto", capture, "-o", str(out / "a.pftrace")],
        "export route": ["export", "route", str(SAMPLES / "rehearsal"), "-o", str(out / "route.geojson")],
        "export segments": ["export", "segments", capture],
        "export series": ["export", "series", capture, "-o", str(out / "series")],
        "export session": ["export", "session", sample, "-o", str(out / "shared"), "--anonymize"],
        "export tables": ["export", "tables", capture, "-o", str(out / "tables")],
        "export wireshark": ["export", "wireshark", capture, "-o", str(out / "out.pcapng")],
        "export xplot": ["export", "xplot", capture, "-o", str(out / "xplot")],
        "align": ["align", sample, "--no-keep"],
        "merge": ["merge", sample, capture, "--host", "phone", "-o", str(out / "merged")],
        "compare": ["compare", capture, other],
        "campaign run": ["campaign", "run", capture, "-o", campaign],
        "campaign status": ["campaign", "status", campaign],
        "campaign verify": ["campaign", "verify", campaign],
        "campaign compact": ["campaign", "compact", campaign],
        "campaign query": ["campaign", "query", campaign, "SELECT 1"],
        "campaign report": ["campaign", "report", campaign, "-o", str(out / "campaign.html")],
        "campaign forget": ["campaign", "forget", campaign, "a.pcap"],
        "measure run": ["measure", "run", *plan, "-o", measured],
        "measure plan": ["measure", "plan", *planned, "-o", str(out / "planned")],
        "report of a measurement": ["report", measured, "-o", str(out / "measured.html")],
        "testbed run": ["testbed", "run", "ray-4", "--virtual", "-o", str(out / "ray")],
        "testbed channel": ["testbed", "channel", "ray-4", "-o", str(out / "power.csv")],
        "testbed list": ["testbed", "list"],
        "dissect": ["dissect", capture],
        "formats": ["formats"],
        "schema": ["schema", "diagnose"],
        "completion": ["completion", "bash"],
        "doctor": ["doctor"],
    }


SKIPPED = {
    "capture": "records for as long as it runs; what it needs is asked by tests/collectors/test_installed.py",
    "measure serve": "serves until it is ended",
    "testbed compare": "takes as long as testbed run, several times",
    "testbed doctor": "asks for rights and programs only",
    "testbed table": "takes as long as testbed run, five times",
}
"""Commands that are not run, and why."""


def test_every_command_is_run_or_has_a_reason_why_not(tmp_path: Path) -> None:
    leaves = {name.removeprefix("multitracer ") for name, command in commands(cli) if not hasattr(command, "commands")}
    assert leaves == ({*_lines(tmp_path)} | {"correlate"} | {*SKIPPED}) - {"report of a measurement"}


_OF_CAMPAIGNS = {
    "compare", "campaign run", "campaign status", "campaign verify", "campaign compact", "campaign query",
    "campaign report", "campaign forget", "measure plan",
}  # fmt: skip
REFUSED = {
    "campaign": _OF_CAMPAIGNS,
    "field": set(),
    "notebook": set(),
    "quic": set(),
    "signalling": set(),
    "starlink": set(),
    "figures": {"plot"},
    "statistics": {"correlate"},
    "tables": {"export tables", "export segments", *_OF_CAMPAIGNS},
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
