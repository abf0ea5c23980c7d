"""Rates and round trips of the bundled recordings, against the log of the path that carried each packet."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

import multitracer as mt
from multitracer.cli._program import cli
from tests.causes.path import DELIVERED, WAYS, read_log

RECORDINGS = Path(__file__).parent.parent / "causes" / "recordings"
_ENOUGH_BYTES = 8_000
_NEAR = 0.02
"""The last ACK may be held back: 1.5 % of the time at most, in the 72 recordings this was measured on."""


def transfers() -> list[tuple[Path, dict[str, Any]]]:
    truths = [(path, json.loads((path / "truth/truth.json").read_text())) for path in RECORDINGS.iterdir()]
    single = [(p, truth["transfers"][0]) for p, truth in truths if len(_ports(truth)) == 1]
    return [(path, transfer) for path, transfer in sorted(single) if _has_a_rate(transfer)]


def _has_a_rate(transfer: dict[str, Any]) -> bool:
    delivered = transfer["fates"]["data"].get("delivered", 0)
    return bool(transfer["bytes"] >= _ENOUGH_BYTES and delivered > 1)


def _ports(truth: dict[str, Any]) -> set[int]:
    return {transfer["client_port"] for transfer in truth["transfers"]}


def arrived_bps(recording: Path, transfer: dict[str, Any]) -> float:
    """Return new payload per time from its first arrival to its last, as the path's log has it."""
    log = read_log(recording / "truth" / "path.bin")
    mine = (log["source"] == transfer["client_port"]) | (log["target"] == transfer["client_port"])
    mine &= (log["way"] == WAYS.index(transfer["way"])) & (log["fate"] == DELIVERED) & (log["payload"] > 0)
    packets = np.sort(log[mine], order="due_ns")
    seq = packets["seq"].astype(np.int64) - int(packets["seq"].min())
    seen = np.zeros(int((seq + packets["payload"]).max()), dtype=bool)
    new = np.zeros(len(packets), dtype=np.int64)
    for i, (begin, size) in enumerate(zip(seq, packets["payload"], strict=True)):
        new[i] = np.count_nonzero(~seen[begin : begin + size])
        seen[begin : begin + size] = True
    first, last = np.flatnonzero(new)[[0, -1]]
    return float(new[first + 1 :].sum()) * 8e9 / float(packets["due_ns"][last] - packets["due_ns"][first])


def of(recording: Path, host: str) -> Path:
    return next((recording / "session" / host).glob("tcp-0.pcap*"))


def ends(transfer: dict[str, Any]) -> tuple[str, str]:
    return ("mobile", "fixed") if transfer["way"] == "up" else ("fixed", "mobile")


@pytest.mark.parametrize(("recording", "transfer"), transfers(), ids=lambda value: getattr(value, "name", ""))
def test_goodput_is_that_of_the_path_at_both_ends(recording: Path, transfer: dict[str, Any]) -> None:
    true = arrived_bps(recording, transfer)
    for host, by in zip(ends(transfer), ("acknowledged", "arrived"), strict=True):
        done = CliRunner().invoke(cli, ["analyze", "--json", str(of(recording, host))])
        (connection,) = json.loads(done.output)["connections"]
        found = connection["forward" if transfer["way"] == "up" else "reverse"]
        assert found["goodput_by"] == by
        assert found["goodput_bps"] == pytest.approx(true, rel=_NEAR), host


def download() -> Path:
    return next(of(path, "mobile") for path, transfer in transfers() if transfer["way"] == "down")


def test_there_are_recordings_of_both_ways() -> None:
    assert len(transfers()) >= 45
    assert {transfer["way"] for _, transfer in transfers()} == {"up", "down"}


def test_a_download_at_the_phone_has_no_round_trips_of_the_data_and_says_why() -> None:
    """What was shown before are the phone's own delays, microseconds; its own request has one."""
    session = mt.open(download())
    rtt = session.rtt()
    assert not rtt["reverse"].any()
    assert len(rtt) > 0, "its SYN, its request"
    assert "near the receiver" in rtt.attrs["absent"][True]
    assert False not in rtt.attrs["absent"]
    shown = CliRunner().invoke(cli, ["analyze", str(download())]).output
    assert "No round-trip times from responder: captured near the receiver" in shown
    document = json.loads(CliRunner().invoke(cli, ["analyze", "--json", str(download())]).output)
    found = document["connections"][0]["reverse"]
    assert "near the receiver" in found["rtt_absent"]
