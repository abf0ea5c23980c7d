"""A message without a time in its log gets none: SCAT stamps it with the time at which it runs."""

from __future__ import annotations

import shutil
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from multitracer.tables import NOT_A_TIME
from parsers._signalling import diagnostic_log
from parsers._signalling.signalling import read_signalling
from tests.parsers.signalling_messages import MESSAGES, START_NS, capture, serving, version_2

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

pytestmark = pytest.mark.skipif(not shutil.which("tshark"), reason="needs tshark")
DATAGRAMS = [serving(1350, 214, 77), *(version_2(name) for name in MESSAGES)]


def test_times_of_a_run_are_none_of_the_log(tmp_path: Path) -> None:
    times_ns = [START_NS + n * 10**8 for n in range(len(DATAGRAMS))]
    run = (START_NS + 150_000_000, START_NS + 250_000_000)
    path = tmp_path / "gsmtap.pcap"
    path.write_bytes(capture(*DATAGRAMS, times_ns=times_ns))
    plain, cleaned = read_signalling(path), read_signalling(path, runs=[run])
    assert NOT_A_TIME not in plain["signalling"]["time_ns"].tolist()
    kept = [NOT_A_TIME if run[0] <= at <= run[1] else at for at in plain["signalling"]["time_ns"].tolist()]
    assert cleaned["signalling"]["time_ns"].tolist() == kept
    assert kept.count(NOT_A_TIME) == 1
    assert cleaned["signalling"].provenance["warnings"][0] == "1 message without a time in the log: set to missing"


class Frames:
    """Frames of a log that are given to nobody."""

    complete, damaged = 1, 0

    def __iter__(self) -> Iterator[bytes]:
        yield b"a frame"


@pytest.mark.parametrize("is_stamped", [True, False])
def test_a_log_without_times_has_no_reading_of_today(monkeypatch: pytest.MonkeyPatch, is_stamped: bool) -> None:
    def scat(command: Sequence[str], *, into: Path, **_: Any) -> str:
        begin_ns = START_NS if is_stamped else time.time_ns()
        target = Path(command[command.index("-F") + 1])
        target.write_bytes(capture(*DATAGRAMS, times_ns=[begin_ns + n for n in range(len(DATAGRAMS))]))
        into.write_bytes(b"INFO: Reading from x\n")
        return ""

    monkeypatch.setattr(diagnostic_log, "run", scat)
    monkeypatch.setattr(diagnostic_log, "program", lambda name: name)
    tables = diagnostic_log.tables_of_log(Frames(), {}, path="a.mi2log", arguments=["-t", "qc"], suffix=".qmdl")
    for name in ("signalling", "radio"):
        assert len(tables[name])
        assert (tables[name]["time_ns"] == NOT_A_TIME).all() == (not is_stamped), name
    assert not is_stamped or len(tables["handovers"])
    assert is_stamped or not len(tables["handovers"])
