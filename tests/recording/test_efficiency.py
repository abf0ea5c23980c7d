"""How much of what arrived was needed: as tshark counts it in each capture, and by the program's own transactions."""

from __future__ import annotations

import csv
import shutil
import subprocess
from collections import defaultdict
from typing import TYPE_CHECKING

import numpy as np
import pytest

import multitracer as mt
from multitracer.recording import efficiency
from multitracer.recording.inputs import find_inputs
from multitracer.recording.read import read
from multitracer.recording.recording import Recording
from tests.cli.program import call
from tests.conftest import ROOT
from tests.recording.captures import MS, START_NS, Conversation, write_conversations
from tests.transactions import transactions, write_session

if TYPE_CHECKING:
    from pathlib import Path

BUNDLED = ("cellular_upload", "fig8-resets-vj", "sack-modern", "download", "fig10-backoff")
_FIELDS = ("ip.src", "tcp.srcport", "ip.dst", "tcp.dstport", "tcp.stream", "tcp.seq", "tcp.len")


def tshark_ratio(path: Path) -> dict[tuple[str, str], float]:
    """Return distinct over all payload bytes by sender and receiver, as HOST:PORT, from tshark's own numbers."""
    command = ["tshark", "-n", "-r", str(path), "-Y", "tcp.len > 0", "-T", "fields", *(f"-e{name}" for name in _FIELDS)]
    command += ["-o", "tcp.desegment_tcp_streams:FALSE", "-o", "tcp.relative_sequence_numbers:TRUE"]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    ranges: dict[tuple[str, str], list[tuple[int, int]]] = defaultdict(list)
    for line in done.stdout.splitlines():
        source, sport, destination, dport, _, seq, length = line.split("\t")
        ranges[f"{source}:{sport}", f"{destination}:{dport}"].append((int(seq), int(seq) + int(length)))
    return {ends: _distinct(pairs) / sum(end - begin for begin, end in pairs) for ends, pairs in ranges.items()}


def _distinct(pairs: list[tuple[int, int]]) -> int:
    count = reached = 0
    for begin, end in sorted(pairs):
        count += max(end - max(begin, reached), 0)
        reached = max(reached, end)
    return count


@pytest.mark.skipif(shutil.which("tshark") is None, reason="needs tshark")
@pytest.mark.parametrize("name", BUNDLED)
def test_tshark_counts_the_same_at_the_receiver(name: str) -> None:
    session = mt.open(ROOT / "sample_traces" / name)
    captures = {path.parent.name: path for path in (ROOT / "sample_traces" / name).glob("*/tcp-0.pcap*")}
    connections = {(row["host"], row["connection"]): row for row in session.connections.to_dict("records")}
    own = session.efficiency().to_dict("records")
    assert own
    for row in own:
        ends = connections[row["host"], row["connection"]]
        source, destination = f"{ends['src']}:{ends['sport']}", f"{ends['dst']}:{ends['dport']}"
        pair = (destination, source) if row["direction"] == "reverse" else (source, destination)
        (receiver,) = captures.keys() - {row["host"]}
        assert row["efficiency"] == pytest.approx(tshark_ratio(captures[receiver])[pair], rel=1e-3)
        assert row["efficiency_sent"] == pytest.approx(tshark_ratio(captures[row["host"]])[pair], rel=1e-3)


def test_a_capture_at_the_sender_alone_shows_what_was_sent(sample_sender: Path, sample_receiver: Path) -> None:
    (sent,) = mt.open(sample_sender).efficiency().query("connection == 1").to_dict("records")
    assert np.isnan(sent["efficiency"])
    assert (round(sent["efficiency_sent"], 5), sent["evidence"]) == (0.98036, "captured at the sender")
    (came,) = mt.open(sample_receiver).efficiency().query("connection == 1").to_dict("records")
    assert np.isnan(came["efficiency_sent"])
    assert (round(came["efficiency"], 5), came["evidence"]) == (0.99976, "captured at the receiver")


@pytest.fixture(scope="module")
def measured(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Transactions over TCP that lose packets, with captures at both hosts, in virtual time."""
    folder = tmp_path_factory.mktemp("measured") / "session"
    wishes = ["--over", "cdpd", "--virtual", "--capture", "--protocol", "tcp", "--vary", "reply"]
    call("measure", "run", *wishes, "--sizes", "128,2048,4096", "--sessions", "20", "-o", folder)
    return folder


def test_a_transaction_over_tcp_has_the_efficiency_of_both_captures(measured: Path) -> None:
    """The simulated kernels count what they send again; what arrived is at most that, and at least what was needed."""
    own = {row["transaction"]: row for row in mt.open(measured).efficiency().to_dict("records")}
    with (measured / "transactions.csv").open(newline="") as stream:
        rows = [row for row in csv.DictReader(stream) if row["outcome"] == "ok"]
    assert len(rows) > 50
    lost = repeated = 0
    for row in rows:
        counted = own[int(row["transaction"])]
        needed = int(row["request_bytes"]) + int(row["reply_bytes"])
        sent = int(row["bytes_up"]) + int(row["bytes_down"])
        assert counted["evidence"] == "captured at both hosts"
        assert (counted["needed_bytes"], needed <= counted["arrived_bytes"] <= sent) == (needed, True)
        assert counted["efficiency"] == pytest.approx(needed / counted["arrived_bytes"])
        lost += counted["arrived_bytes"] < sent  # on the way
        repeated += counted["arrived_bytes"] > needed  # for nothing
    assert lost
    assert repeated


def test_the_bundled_drive_has_an_efficiency_of_each_transaction() -> None:
    """TCP and CentaurusComm took turns, in six measurements of one session, by three connections of TCP."""
    own = mt.open(ROOT / "sample_traces" / "measured-drive").efficiency()
    assert own["evidence"].value_counts().to_dict() == {
        "captured at both hosts": 72, "counted by the receivers": 72,
    }  # fmt: skip
    assert own["begin_ns"].is_monotonic_increasing
    tcp = own.query("protocol == 'tcp'")
    assert (tcp["efficiency"] >= tcp["efficiency_sent"] - 1e-9).all()
    assert tcp["efficiency_sent"].min() < 0.8
    assert own[["rssi_dbm", "bler_percent", "cell_busy_percent"]].notna().all(axis=None)
    assert set(own["host"]) == {"mobile"}, "the host that measured, not the folder of the measurement"


def test_the_reason_without_radio_is_that_of_most_transactions(tmp_path: Path) -> None:
    """One measurement wrote that no modem was there; two others have ten times as many transactions."""
    for name, number, why in (("a", 1, "no modem was recorded"), ("b", 5, "unplugged"), ("c", 5, "unplugged")):
        table = transactions({64: [0.2] * number})
        table.columns["rssi_absent"][:] = why
        write_session(tmp_path / "drive" / name, table)
    table = efficiency.efficiency_table(Recording(find_inputs(tmp_path / "drive")))
    assert table.provenance["absent"]["rssi_dbm"] == "unplugged"


def test_all_that_arrived_is_that_of_some_transaction(measured: Path) -> None:
    """Payload that arrived, less that of good-byes and receipts, as tshark counts it."""
    if shutil.which("tshark") is None:
        pytest.skip("needs tshark")
    arrived = mt.open(measured).efficiency()["arrived_bytes"].sum()
    directions = mt.open(measured).directions
    own = directions.query("(host == 'fixed' and not reverse) or (host == 'mobile' and reverse)")
    count = len(mt.open(measured).transactions)
    assert 0 < own["payload_bytes"].sum() - arrived < 300 * count


def test_a_capture_of_many_connections_has_the_largest(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(efficiency, "MOST", 2)
    large = Conversation(lost=(2,))
    small = (
        Conversation(sport=port, segments=2, start_ns=START_NS + (port - 40_000) * MS) for port in (40_001, 40_002)
    )
    table = efficiency.efficiency_table(read(write_conversations(tmp_path / "a.pcap", large, *small)))
    assert (len(table), table.provenance["left_out"], table["connection"][0]) == (2, 1, 1)


def test_without_captures_the_senders_counts_are_used(tmp_path: Path) -> None:
    table = transactions({4096: [1.0, 2.0, np.inf]})
    own = mt.open(write_session(tmp_path / "counted", table)).efficiency()
    assert own["efficiency"].isna().all()
    assert own["efficiency_sent"].round(4).tolist()[:2] == [round(4160 / 4696, 4)] * 2
    assert own["evidence"].tolist() == ["counted by the senders"] * 2 + ["not known"]
    assert own["outcome"].tolist()[2] == "dropped"
    assert own["efficiency_sent"].isna().tolist() == [False, False, True]
