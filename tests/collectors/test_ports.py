"""Serial ports by name: which there are, why one cannot be opened; every collector has a reader."""

from __future__ import annotations

import os
import pty
import tty
from typing import TYPE_CHECKING

import pytest

import parsers
from collectors import collectors
from collectors._line import NoPortError, Port, candidates

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture
def terminal() -> Iterator[str]:
    device, port = pty.openpty()
    tty.setraw(port)
    yield os.ttyname(port)
    os.close(device)
    os.close(port)


def test_two_names_of_one_port_are_one_candidate(tmp_path: Path) -> None:
    port = tmp_path / "ttyUSB0"
    port.touch()
    (tmp_path / "ttyUSB1").touch()
    (tmp_path / "by-id-modem").symlink_to(port)
    found = candidates([str(tmp_path / "by-id-*"), str(tmp_path / "ttyUSB*"), str(tmp_path / "absent")])
    names = [os.path.basename(path) for path in found]  # noqa: PTH119
    assert names == ["by-id-modem", "ttyUSB1", "absent"]
    assert candidates([str(tmp_path / "none*"), "usb:NO-SUCH-NUMBER"]) == []


def test_reasons_are_those_of_gaps(terminal: str, tmp_path: Path) -> None:
    first = Port(terminal)
    reasons = {}
    for name, path in (("busy", terminal), ("absent", str(tmp_path / "x")), ("file", __file__)):
        with pytest.raises(NoPortError) as failure:
            Port(path)
        reasons[name] = failure.value.why
    first.close()
    assert reasons == {"busy": "port busy", "absent": "unplugged", "file": "no serial port"}
    Port(terminal).close()


def test_refused_port_leaks_no_descriptor(terminal: str) -> None:
    first = Port(terminal)
    before = len(os.listdir("/proc/self/fd"))  # noqa: PTH208
    for _ in range(5):
        with pytest.raises(NoPortError):
            Port(terminal)
    assert len(os.listdir("/proc/self/fd")) == before  # noqa: PTH208
    first.close()


def test_the_log_of_every_collector_has_a_reader_of_its_layer() -> None:
    formats = {fmt.name: fmt for fmt in parsers.formats()}
    for name, collector in collectors().items():
        assert formats[collector.log_format].layer == collector.layer, name
