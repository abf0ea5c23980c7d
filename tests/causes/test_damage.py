"""Captures that are damaged on purpose: what is left of them, and what the truth then is about."""

from __future__ import annotations

import json
import struct
from itertools import pairwise
from typing import TYPE_CHECKING

import pytest

from tests.causes.damage import cut, lose, snap
from tests.causes.judge import _in_view
from tests.causes.made import MSS, NS, Made
from tests.causes.truth import truth

if TYPE_CHECKING:
    from pathlib import Path

_HEAD = struct.pack("<IHHiIII", 0xA1B23C4D, 2, 4, 0, 0, 96, 101)
_BYTES = 80


def _capture(folder: Path, count: int) -> Path:
    """Write a packet each 10 ms; its first bytes are its number."""
    rows = [
        struct.pack("<IIII", *divmod(NS + number * 10_000_000, NS), _BYTES, 1500)
        + struct.pack("<I", number).ljust(_BYTES, b"\0")
        for number in range(count)
    ]
    file = folder / "tcp-0.pcap"
    file.write_bytes(_HEAD + b"".join(rows))
    return file


def _numbers(file: Path, size: int = _BYTES) -> list[int]:
    data, step = file.read_bytes(), 16 + size
    return [struct.unpack_from("<I", data, at + 16)[0] for at in range(len(_HEAD), len(data) - step + 1, step)]


@pytest.mark.parametrize("run", [1, 20])
def test_a_share_of_the_packets_is_lost_in_runs_and_the_rest_is_untouched(tmp_path: Path, run: int) -> None:
    file = _capture(tmp_path, 20_000)
    lost = lose(file, 0.05, run=run, seed=1)
    left = _numbers(file)
    assert lost == 20_000 - len(left)
    assert lost == pytest.approx(1000, rel=0.3)
    gaps = [after - before - 1 for before, after in pairwise(left) if after > before + 1]
    assert sum(gaps) / len(gaps) == pytest.approx(run, rel=0.3)
    assert file.stat().st_size == len(_HEAD) + len(left) * (16 + _BYTES)


def test_a_smaller_snap_length_keeps_the_beginning_of_each_packet(tmp_path: Path) -> None:
    file = _capture(tmp_path, 10)
    snap(file, 54)
    assert _numbers(file, 54) == list(range(10))
    data = file.read_bytes()
    assert struct.unpack_from("<I", data, 16)[0] == 54
    assert struct.unpack_from("<II", data, len(_HEAD) + 8) == (54, 1500)


@pytest.mark.parametrize("share", [0.35, 0.8])
def test_a_cut_file_ends_amid_a_packet_and_the_last_whole_one_is_told(tmp_path: Path, share: float) -> None:
    file = _capture(tmp_path, 100)
    until_ns = cut(file, share)
    last = _numbers(file)[-1]
    assert until_ns == NS + last * 10_000_000
    assert last == pytest.approx(99 * share, abs=1)
    assert 0 < (file.stat().st_size - len(_HEAD)) % (16 + _BYTES) < 16 + _BYTES


@pytest.mark.parametrize("host", ["mobile", "fixed"])
def test_what_an_end_sees_of_a_transfer_ends_with_its_capture(tmp_path: Path, host: str) -> None:
    made = Made(tmp_path)
    begin_s = made.handshake()
    for number in range(4):
        made.call("send", begin_s + number, begin_s + number + 0.0001, MSS)
        made.segment(begin_s + number, number)
    folder = made.save()
    whole = json.loads(json.dumps(truth(folder)["transfers"][0]))
    until_ns = NS + 1_500_000_000
    (folder / "truth" / "damage.json").write_text(json.dumps({"host": host, "until_ns": until_ns}))
    damaged = json.loads(json.dumps(truth(folder)["transfers"][0]))
    assert damaged["shares"] == whole["shares"]
    ends = {view: (_in_view(damaged, view) or [])[-1][1] for view in ("both", "sender", "receiver")}
    unharmed = {view: (_in_view(whole, view) or [])[-1][1] for view in ends}
    cut_view = "sender" if host == "mobile" else "receiver"
    assert ends == unharmed | {cut_view: until_ns}
