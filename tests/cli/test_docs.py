"""Every command and option has help, an example that is true, and a place in docs/cli.md."""

from __future__ import annotations

import shlex
import shutil
from itertools import groupby, takewhile
from typing import TYPE_CHECKING

import click
import pytest

from tests.cli.program import ROOT, call
from tests.cli.reference import BEGIN, PAGE, commands, reference

if TYPE_CHECKING:
    from pathlib import Path

COMMANDS = dict(commands())
HEAVY_MODULES = ("numpy", "pandas", "plotly", "pyarrow", "rich", "scapy")


def test_reference_is_what_the_commands_say() -> None:
    written = PAGE.read_text("utf-8").partition(BEGIN)[2].strip()
    assert written == reference().strip(), "run: python -m tests.cli.reference"


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_has_help_and_an_example(name: str) -> None:
    command = COMMANDS[name]
    assert command.help
    assert name in (command.epilog or "")
    assert all(option.help or option.name == "theme" for option in _options(command))
    assert "--debug" in [text for option in _options(command) for text in option.opts]


@pytest.mark.parametrize("name", COMMANDS)
def test_examples_name_real_commands_and_options(name: str) -> None:
    for line in (COMMANDS[name].epilog or "").splitlines()[2:]:
        pipe = [list(words) for is_bar, words in groupby(shlex.split(line), "|".__eq__) if not is_bar]
        ours = next(words for words in pipe if "multitracer" in words)
        words = list(takewhile(lambda word: word not in {">", "--"}, ours))
        words = words[1:] if words[0] == "sudo" else words
        owner = next(" ".join(words[:n]) for n in (3, 2, 1) if " ".join(words[:n]) in COMMANDS)
        known = {text for option in _options(COMMANDS[owner]) for text in (*option.opts, *option.secondary_opts)}
        used = {word.partition("=")[0] for word in words if word.startswith("-") and word != "-"}
        assert used <= known, line


def _options(command: click.Command) -> list[click.Option]:
    return [param for param in command.params if isinstance(param, click.Option)]


EXAMPLES = [
    line.strip()
    for command in COMMANDS.values()
    for line in (command.epilog or "").splitlines()[2:]
    if "sample_traces/" in line and "monday" not in line and "--pdf" not in line
]
"""Those whose inputs lie in a clone."""


@pytest.mark.parametrize("example", EXAMPLES)
def test_an_example_on_a_bundled_session_runs(example: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "sample_traces").mkdir()
    for session in (ROOT / "sample_traces").iterdir():
        if f"/{session.name}" in example:
            shutil.copytree(session, tmp_path / "sample_traces" / session.name)
    monkeypatch.chdir(tmp_path)
    call(*shlex.split(example)[1:])


@pytest.mark.parametrize("name", [name for name, each in COMMANDS.items() if isinstance(each, click.Group)])
def test_a_list_of_commands_cuts_no_sentence(name: str) -> None:
    context = click.Context(COMMANDS[name], info_name=name)
    assert "..." not in COMMANDS[name].get_help(context).partition("Options:")[2]


def test_help_of_the_program_lists_every_command() -> None:
    shown = call("--help").stdout
    for name in COMMANDS:
        assert name.split()[1 if " " in name else 0] in shown


@pytest.mark.parametrize("page", ["cli.md", "session.md"])
def test_links_lead_somewhere(page: str) -> None:
    text = (ROOT / "docs" / page).read_text("utf-8")
    targets = [part.partition(")")[0] for part in text.split("](")[1:]]
    files = [target.partition("#")[0] for target in targets if "://" not in target]
    assert all((ROOT / "docs" / file).exists() for file in files)
