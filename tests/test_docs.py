"""What the pages say is true: runnable blocks run and print what is shown, links lead somewhere.

A fence ```console run``` holds commands after `$ `, each followed by what it prints (`...` stands for
anything); ```python run``` holds a program, run with the working folder that the commands have.
"""

from __future__ import annotations

import doctest
import json
import os
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import multitracer
from docs.programs.reflow import WIDTH
from multitracer.diagnosis.rules import RULES

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).parents[1]
CHANGES = sorted((ROOT / "docs" / "changes").glob("*"))
"""What the next changelog is written from."""
PAGES = [*sorted(ROOT.glob("*.md")), *(page for page in sorted((ROOT / "docs").rglob("*.md")) if page not in CHANGES)]
_FENCE = re.compile(r"^```(console|python) run\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"\]\((?!https?:|mailto:|#)([^)#\s]+)")
_FORGIVING = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
_WIDTH = "110"


@dataclass(frozen=True, slots=True)
class Block:
    page: Path
    line: int
    language: str
    text: str

    def __str__(self) -> str:
        return f"{self.page.relative_to(ROOT)}:{self.line}"


def _blocks() -> Iterator[Block]:
    for page in PAGES:
        text = page.read_text()
        for found in _FENCE.finditer(text):
            yield Block(page, text[: found.start()].count("\n") + 1, found[1], found[2])


def test_the_changelog_can_be_read() -> None:
    """Details are in `docs/changes`, and after a release in a lab note."""
    lines = (ROOT / "CHANGELOG.md").read_text("utf-8").splitlines()
    assert len(lines) <= 400
    newest = lines.index(f"## {multitracer.__version__}")
    assert lines.index("## 0.1.0") - newest <= 150


def test_the_citation_is_of_this_version() -> None:
    assert f"\nversion: {multitracer.__version__}\n" in (ROOT / "CITATION.cff").read_text("utf-8")


@pytest.mark.parametrize("change", CHANGES, ids=lambda path: path.name)
def test_a_change_is_named_after_its_issue_and_kind_and_has_bullets(change: Path) -> None:
    assert re.fullmatch(r"\d+\.(added|changed|fixed|deprecated|removed)(\.\d+)?\.md", change.name)
    assert all(line.startswith(("- ", "  ")) for line in change.read_text("utf-8").splitlines())


@pytest.mark.parametrize("block", list(_blocks()), ids=str)
def test_block_does_what_the_page_says(block: Block, tmp_path: Path) -> None:
    (tmp_path / "sample_traces").symlink_to(ROOT / "sample_traces")
    if block.language == "python":
        _run([sys.executable, "-c", block.text], tmp_path)
        return
    for command, shown in _commands(block.text):
        printed = _run(["/bin/sh", "-c", command], tmp_path)
        if shown:
            assert doctest.OutputChecker().check_output(shown, printed, _FORGIVING), (
                f"$ {command}\n--- shown\n{shown}\n--- printed\n{printed}"
            )


def _commands(text: str) -> Iterator[tuple[str, str]]:
    for part in re.split(r"^\$ ", text, flags=re.MULTILINE)[1:]:
        command, _, shown = part.partition("\n")
        yield command, shown


def _run(argv: list[str], folder: Path) -> str:
    ours = Path(sys.executable).parent
    environment = os.environ | {
        "PATH": f"{ours}{os.pathsep}{os.environ['PATH']}",
        "PYTHONPATH": str(ROOT),  # of this clone, whichever is installed
        "COLUMNS": _WIDTH,
        "NO_COLOR": "1",
    }
    done = subprocess.run(
        argv, cwd=folder, env=environment, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, f"{argv[-1]}\n{done.stdout}\n{done.stderr}"
    return done.stdout


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page: Path) -> None:
    dead = [target for target in _LINK.findall(page.read_text()) if not (page.parent / target).exists()]
    assert dead == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_samples_that_a_page_names_are_there(page: Path) -> None:
    named = set(re.findall(r"(?<![\w/])sample_traces/([\w-]+)", page.read_text("utf-8")))
    assert [name for name in named if not (ROOT / "sample_traces" / name).exists()] == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_prose_has_at_most_100_characters_a_line(page: Path) -> None:
    """But for tables, code and lines with an address."""
    prose = re.sub(r"^ *```.*?^ *```$", "", page.read_text("utf-8"), flags=re.MULTILINE | re.DOTALL)
    lines = [line for line in prose.splitlines() if not line.lstrip().startswith("|") and "://" not in line]
    assert [line for line in lines if len(line) > WIDTH] == [], "run python -m docs.programs.reflow"


def test_every_page_is_found_from_the_index() -> None:
    index = ROOT / "docs" / "index.md"
    linked = {(index.parent / target).resolve() for target in _LINK.findall(index.read_text())}
    assert {page.resolve() for page in PAGES if page != index} - linked - {ROOT / "README.md"} == set()


def test_every_package_is_on_the_map() -> None:
    packages = {path.stem for path in (ROOT / "multitracer").iterdir() if path.suffix == ".py" or _is_package(path)}
    named = set(re.findall(r"(\w+)(?:/|\.py)", (ROOT / "CONTRIBUTING.md").read_text()))
    assert packages - named - {"__init__", "__main__"} == set()


def _is_package(path: Path) -> bool:
    return (path / "__init__.py").exists()


def test_first_screen_of_the_readme_has_a_newcomers_two_commands() -> None:
    first = (ROOT / "README.md").read_text("utf-8").splitlines()[:30]
    for command in ("make demo", "make test"):
        assert any(line.startswith(command) for line in first), command


def test_each_sample_is_called_as_its_folder() -> None:
    for path in (ROOT / "sample_traces").glob("*/manifest.json"):
        assert json.loads(path.read_text("utf-8"))["name"] == path.parent.name, path


def test_readme_can_be_tried_out() -> None:
    languages = {block.language for block in _blocks() if block.page.name == "README.md"}
    assert languages == {"console", "python"}


def test_readme_names_every_command() -> None:
    program = Path(sys.executable).with_name("multitracer")
    words = _run([str(program), "--help"], ROOT)
    commands = re.findall(r"^  ([a-z][a-z-]*)  +\S", words, re.MULTILINE)
    assert {"inspect", "analyze"} <= set(commands)
    readme = (ROOT / "README.md").read_text()
    assert [name for name in commands if f"multitracer {name}" not in readme] == []


def test_every_finding_has_its_row_and_its_evidence() -> None:
    page = (ROOT / "docs" / "diagnoses.md").read_text("utf-8")
    kinds = [rule.KIND for rule in RULES]
    assert len(kinds) > 20
    assert [kind for kind in kinds if f"\n| `{kind}` |" not in page or f"\n- **`{kind}`**:" not in page] == []
