"""The clapperboard: the same tag in several logs, and its probes in the captures of the other end."""

from __future__ import annotations

import io
import json
from typing import TYPE_CHECKING

import numpy as np
import pytest

import parsers
from multitracer.clock.model.relation import Clock
from multitracer.clock.session_clock import clocks_of
from multitracer.clock.sources.sync_probes import SYNC_PROBES, relate_sync_probes, relations_of_sync_probes
from multitracer.errors import ClockError
from multitracer.protocols.pcap_file import pcap_header, pcap_record
from multitracer.recorder.supervisor import MAGIC, SyncProber
from multitracer.recording.read import read
from multitracer.tables import Table
from parsers import sync_probes

if TYPE_CHECKING:
    from pathlib import Path

S, MS, US = 1_000_000_000, 1_000_000, 1_000
NOW = 1_795_252_741 * S


def table(host: str, times: np.ndarray, tags: list[str], *, error_ns: int = 50 * US, heard: object = False) -> Table:
    length = len(tags)
    columns = {
        "tag": np.array(tags, dtype="U32"),
        "host": np.full(length, host, dtype="U128"),
        "domain": np.full(length, "realtime", dtype="U16"),
        "time_ns": np.asarray(times, dtype=np.int64),
        "error_ns": np.full(length, error_ns),
        "heard": np.broadcast_to(np.asarray(heard, dtype=bool), length),
    }
    return Table(SYNC_PROBES, columns)


def test_one_tag_in_two_logs_relates_their_clocks() -> None:
    at = NOW + np.arange(0, 300, 30) * S
    tags = [f"{i:02x}" for i in range(10)]
    far = at + 2 * S + np.rint((at - NOW) * 50e-6).astype(np.int64)
    both = Table.concatenate(SYNC_PROBES, [table("a", at, tags), table("b", far[::-1], tags[::-1])])
    (relation,) = relations_of_sync_probes(both)
    assert (relation.source, relation.target) == (Clock("a"), Clock("b"))
    (estimate,) = relation.estimates
    assert estimate.offset_ns == pytest.approx(2 * S, abs=50 * US)
    assert estimate.skew_ppm == pytest.approx(50, abs=1)
    assert estimate.evidence == 10


def probes(*, out_ms: float, back_ms: float) -> tuple[Table, Table, int]:
    """Return both hosts' tags, b being 2 s ahead: even tags go there, odd ones back."""
    at = NOW + np.arange(0, 300, 15) * S
    tags = [f"{i:02x}" for i in range(20)]
    unexpected = np.arange(20) % 2 == 1
    random = np.random.default_rng(3)
    delay = np.where(unexpected, back_ms, out_ms) * MS + random.integers(0, 3 * MS, 20)
    near = table("a", at + np.where(unexpected, delay, 0), tags, heard=unexpected)
    return near, table("b", at + 2 * S + np.where(unexpected, 0, delay), tags, heard=~unexpected), 2 * S


def test_probes_both_ways_bound_the_offset() -> None:
    near, far, truth = probes(out_ms=40, back_ms=40)
    (estimate,) = relate_sync_probes(near, far)
    assert estimate.offset_ns == pytest.approx(truth, abs=3 * MS)
    assert 40 * MS < estimate.uncertainty_ns < 80 * MS


def test_unequal_ways_stay_within_the_error() -> None:
    near, far, truth = probes(out_ms=5, back_ms=95)
    (estimate,) = relate_sync_probes(near, far)
    assert abs(estimate.offset_ns - truth) < estimate.uncertainty_ns


def test_probes_one_way_say_nothing() -> None:
    near, far, _ = probes(out_ms=40, back_ms=40)
    with pytest.raises(
        ClockError, match=r"cannot determine the clock offset, because 10 sync probes .*; what would help"
    ):
        relate_sync_probes(near.take(~near["heard"]), far)


def test_the_clapperboards_log_is_read(tmp_path: Path) -> None:
    log = tmp_path / "claps.jsonl"
    with SyncProber(log, to=("127.0.0.1", 9), every_ns=1) as board:
        tags = [tag for i in range(5) if (tag := board.sync_probe(i * 10))]
    fmt, tables = parsers.read(log)
    assert fmt.name == "claps"
    readings = tables["clock_readings"]  # type: ignore[index]
    assert readings.provenance["tags"] == tags
    assert len(tags) >= 3
    assert (np.diff(readings["time_ns"]) > 0).all()
    assert (readings["monotonic_after_ns"] >= readings["monotonic_before_ns"]).all()


def test_a_tag_in_the_log_of_a_hosts_clocks_counts_for_that_host(tmp_path: Path) -> None:
    """The collector names the machine; in a session, the folder names the host."""
    for host, ahead in (("mobile", 0), ("fixed", 5 * S)):
        (tmp_path / host).mkdir()
        lines = [
            json.dumps({
                "host": "laptop", "monotonic_before_ns": i * S, "realtime_ns": NOW + i * 30 * S + ahead,
                "monotonic_after_ns": i * S + 50, "tag": f"{i:02x}",
            }) + "\n"
            for i in range(1, 9)
        ]  # fmt: skip
        (tmp_path / host / "clocks.jsonl").write_text("".join(lines))
    found = clocks_of(read(tmp_path), [])
    placed = found.place(np.array([NOW + 65 * S]), Clock("fixed"), Clock("mobile"))
    assert int(placed.time_ns[0]) == pytest.approx(NOW + 60 * S, abs=US)


def test_what_is_no_clap_is_skipped() -> None:
    good = {"kind": "clap", "tag": "ab", "monotonic_before_ns": 1, "realtime_ns": 5, "monotonic_after_ns": 2}
    bad = [good | {"tag": "no"}, good | {"tag": 7}, good | {"realtime_ns": None}, good | {"kind": "x"}, []]
    text = "".join(json.dumps(each) + "\n" for each in [good, *bad, good | {"tag": "cd"}])
    found = sync_probes.parse(io.BytesIO(text.encode()), path="claps.jsonl")["clock_readings"]
    assert found.provenance["tags"] == ["ab", "cd"]
    assert found.provenance["skipped"] == {"no clap": 5}


def test_probes_in_captures_relate_two_recordings(tmp_path: Path) -> None:
    """Two hosts that clap at each other: nothing else in the session relates them."""
    for host in ("mobile", "fixed"):
        (tmp_path / host).mkdir()
    ahead = {"mobile": 0, "fixed": -7 * S}
    packets: dict[str, list[tuple[int, bytes]]] = {"mobile": [], "fixed": []}
    lines: dict[str, list[str]] = {"mobile": [], "fixed": []}
    for i in range(12):
        here, there = ("mobile", "fixed") if i % 2 else ("fixed", "mobile")
        true = NOW + i * 20 * S
        tag = f"{i:016x}"
        record = {
            "kind": "clap", "tag": tag, "monotonic_before_ns": i * S + 5, "realtime_ns": true + ahead[here],
            "monotonic_after_ns": i * S + 9, "to": "10.0.0.1:9009", "error": None,
        }  # fmt: skip
        lines[here].append(json.dumps(record) + "\n")
        packets[here].append((true + ahead[here] + 10 * US, probe(tag)))
        packets[there].append((true + ahead[there] + 35 * MS, probe(tag)))
    for host, seen in packets.items():
        (tmp_path / host / "claps.jsonl").write_text("".join(lines[host]))
        body = b"".join(pcap_record(data, time_ns=at) for at, data in seen)
        (tmp_path / host / "tcp-0.pcap").write_bytes(pcap_header() + body)
    session = read(tmp_path)
    found = clocks_of(session, session.captures)
    placed = found.place(np.array([NOW + 100 * S - 7 * S]), Clock("fixed"), Clock("mobile"))
    assert abs(int(placed.time_ns[0]) - (NOW + 100 * S)) < 2 * MS
    assert 30 * MS < placed.bound_ns[0] < 60 * MS
    assert {r.method for r in found.graph.path(Clock("fixed"), Clock("mobile"))} == {"clapperboard"}


def probe(tag: str) -> bytes:
    payload = MAGIC + tag.encode()
    udp = (9009).to_bytes(2) * 2 + (8 + len(payload)).to_bytes(2) + b"\0\0" + payload
    length = (20 + len(udp)).to_bytes(2)
    return b"\x45\0" + length + b"\0\0\0\0\x40\x11\0\0" + bytes([10, 0, 0, 1, 10, 0, 0, 2]) + udp
