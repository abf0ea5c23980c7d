"""Broken captures and hostile logs: some seconds of them in every run of the tests, more in `make fuzz`."""

from __future__ import annotations

import io
import os
import random
import sys
import time
from typing import TYPE_CHECKING

import numpy as np
import pytest

import parsers
from multitracer.tables import Table
from tests.fuzz import logs
from tests.fuzz.captures import GRAMMARS, check, read_or_refuse
from tests.fuzz.run import fuzz, samples

if TYPE_CHECKING:
    from pathlib import Path

SECONDS = float(os.environ.get("MULTITRACER_FUZZ_SECONDS") or 5)


@pytest.mark.fuzz
@pytest.mark.timeout(SECONDS + 120)
def test_broken_captures_are_read_or_refused() -> None:
    known = samples()
    assert known or SECONDS < 60, "nothing to mutate"
    first_seed = time.time_ns() // 1000 if SECONDS > 5 else 1
    tried, failed = fuzz(SECONDS, first_seed=first_seed, known=known)
    sys.stdout.write(f"{tried} inputs from seed {first_seed} on, {len(failed)} failed\n")
    assert tried > 10, "a slow machine tries some 30 in these seconds"
    assert not failed, f"seeds {failed[:10]}: see out/fuzz"


@pytest.mark.parametrize("grammar", GRAMMARS)
def test_the_grammars_make_captures_that_are_worth_reading(grammar: object) -> None:
    captures = [read_or_refuse(grammar(random.Random(seed))) for seed in range(150)]  # type: ignore[operator]
    complete = [c for c in captures if c is not None]
    assert len(complete) > 75
    assert sum(len(c.segments) for c in complete) > 200
    assert any(c.files[0].damaged for c in complete) or "pcapng_by" not in repr(grammar)


def test_the_check_can_fail() -> None:
    capture = next(
        c for seed in range(99) if (c := read_or_refuse(GRAMMARS[0](random.Random(seed)))) and len(c.segments)
    )
    check(capture)
    capture.files[0].packets += 1
    with pytest.raises(AssertionError):
        check(capture)


@pytest.mark.fuzz
@pytest.mark.timeout(SECONDS + 120)
def test_hostile_logs_of_every_format_give_tables_or_are_refused() -> None:
    first_seed = time.time_ns() // 1000 if SECONDS > 5 else 1
    tried, failed = logs.fuzz(SECONDS, first_seed=first_seed)
    sys.stdout.write(
        f"{tried.total():,} logs of {len(tried)} formats from seed {first_seed} on, {len(failed)} failed\n"
    )
    assert len(tried) > 30
    assert not failed, f"seeds {list(failed)[:10]}, see out/fuzz:\n{next(iter(failed.values()))}"


def test_the_logs_that_are_changed_are_read_as_they_are(tmp_path: Path) -> None:
    """A log that its format refuses would be refused however it is changed."""
    assert {*logs.known(), "pcapng", "snoop", "erf"} == {fmt.name for fmt in parsers.formats()}
    for name, whole in logs.known().items():
        if name not in ("diag", "sdm"):  # without scat and tshark they are refused
            assert all(logs.failure_of(name, data, tmp_path, must_read=True) is None for data in whole), name


def test_the_check_of_logs_can_fail(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (log, *_), fmt = logs.known()["ping"], next(fmt for fmt in parsers.formats() if fmt.name == "ping")
    tables = fmt.parse(io.BytesIO(log), path="x")
    assert isinstance(tables, dict)
    for name, value in (("time_ns", (1 << 63) - 1), ("rtt_s", float("inf")), ("series", "\ud800")):
        column = np.full(len(tables["pings"]), value, dtype=tables["pings"][name].dtype)
        broken = Table(tables["pings"].schema, tables["pings"].columns | {name: column})
        with pytest.raises((AssertionError, UnicodeEncodeError)):
            logs.check({"pings": broken})
    monkeypatch.setattr("parsers.ping._LOST", None)
    assert "AttributeError" in (logs.failure_of("ping", log + b"x\n", tmp_path) or "")
