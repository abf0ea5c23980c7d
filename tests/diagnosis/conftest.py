"""Transfers of scenarios in virtual time: each is run once, however many tests and workers look at it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from multitracer.lab.scenario.library import load_scenario
from multitracer.recording.read import read
from multitracer.recording.transfer import Transfer

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.lab.shared_runs import SharedRuns


@pytest.fixture(scope="session")
def session_of(tmp_path_factory: pytest.TempPathFactory, shared_runs: SharedRuns) -> Callable[..., Path]:
    """`session_of(name)` or `session_of(name, toml_text)`: the folder of a bundled or own scenario."""
    done: dict[str, Path] = {}

    def run(name: str, text: str | None = None) -> Path:
        if name not in done:
            where = name
            if text is not None:
                file = tmp_path_factory.mktemp("scenario") / f"{name}.toml"
                file.write_text(text)
                where = str(file)
            done[name] = shared_runs.session(load_scenario(where)).folder
        return done[name]

    return run


@pytest.fixture(scope="session")
def transfer_of(session_of: Callable[..., Path]) -> Callable[..., Transfer]:
    """`transfer_of(name)` or `transfer_of(name, toml_text)`: the largest transfer of the scenario."""
    done: dict[str, Transfer] = {}

    def transfer_of(name: str, text: str | None = None) -> Transfer:
        if name not in done:
            done[name] = Transfer.of(read(session_of(name, text)))
        return done[name]

    return transfer_of
