"""Numbers of the command line: what is none, or endless, is refused before anything is made."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.program import call


@pytest.mark.parametrize("number", ["nan", "inf", "-nan"])
@pytest.mark.parametrize(
    "arguments",
    [
        ("testbed", "run", "clean-bulk", "-o", "made", "--speed"),
        ("testbed", "compare", "fig5-typical", "-o", "made", "--seconds"),
        ("testbed", "channel", "ray-1", "-o", "made", "--threshold"),
        ("capture", "-o", "made", "--duration"),
        ("measure", "run", "127.0.0.1:9", "-o", "made", "--timeout"),
    ],
    ids=lambda arguments: " ".join(arguments[:2]),
)
def test_a_number_that_is_none_is_refused(
    arguments: tuple[str, ...], number: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    refused = call(*arguments, number, status=2)
    assert f"Invalid value for '{arguments[-1]}'" in refused.stderr
    assert not Path("made").exists()
