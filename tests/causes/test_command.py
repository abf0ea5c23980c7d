"""The command line of the corpus: which recordings it is about."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.causes.__main__ import main

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path


def _run(monkeypatch: pytest.MonkeyPatch, *words: str) -> None:
    monkeypatch.setattr("sys.argv", ["causes", *words])
    main()


def test_a_kind_that_is_none_is_named_beside_those_there_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        _run(monkeypatch, "record", str(tmp_path), "--kinds", "policer,policeman")
    words = capsys.readouterr().err
    assert "no kind policeman; there are " in words
    assert ", bbr, " in words


def test_only_seeds_of_the_kinds_that_were_asked_for_are_recorded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[int] = []

    def noted(seeds: Iterable[int], _: Path) -> list[str]:
        asked.extend(seeds)
        return []

    monkeypatch.setattr("tests.causes.record.record_all", noted)
    _run(monkeypatch, "record", str(tmp_path), "--seeds", "0-90", "--kinds", "short-queue,policer")
    assert asked == [0, 4, 43, 47, 86, 90]
