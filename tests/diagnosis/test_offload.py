"""What a device joins shows no traffic of others: not of a sender that is paced, nor behind a slower link."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from multitracer.diagnosis.diagnose import diagnose
from multitracer.recording.read import read
from multitracer.recording.transfer import Transfer
from tests.analysis.pcap_file import write_pcap
from tests.analysis.traffic import ACK, MS, START_NS, SYN, Segment
from tests.diagnosis.exchange import FULL, kinds

if TYPE_CHECKING:
    from pathlib import Path

    from multitracer.diagnosis.diagnosis import Diagnosis
    from multitracer.tables import Array

WAY_MS = 10
OPENED_MS = 2 * WAY_MS + 0.1


def _came_ms(sent_ms: Array, service_ms: Array) -> Array:
    """Return when each segment is through a link that needs so long for it, and across the path."""
    free_ms, came = 0.0, []
    for at, needs in zip(sent_ms.tolist(), service_ms.tolist(), strict=True):
        free_ms = max(at, free_ms) + needs
        came.append(free_ms + WAY_MS)
    return np.array(came)


def _joined_in_pairs(folder: Path, pair_ms: Array, service_ms: Array, *, are_one: bool) -> Diagnosis:
    """Return the diagnosis of pairs sent at these times, whose first waits for its second at the receiver."""
    second_ms = _came_ms(np.repeat(pair_ms, 2), np.repeat(service_ms, 2))[1::2]
    ends: dict[str, list[Segment]] = {"mobile": [], "fixed": []}

    def note(end: str, at_ms: float, side: int, number: int, **what: Any) -> None:
        how: dict[str, Any] = {"window": 60_000, "ip_id": number, **what}
        ends[end].append(Segment(side, time_ns=START_NS + round(at_ms * MS), **how))

    syn: dict[str, Any] = {"seq": 1000, "flags": SYN, "options": {"mss": FULL, "scale": 0}}
    answer = syn | {"seq": 5000, "flags": SYN | ACK, "ack": 1001}
    for end, late_ms in (("mobile", 0), ("fixed", WAY_MS)):
        note(end, late_ms, 0, 1, **syn)
        note(end, 2 * WAY_MS - late_ms, 1, 1, **answer)
        note(end, OPENED_MS + late_ms, 0, 2, seq=1001, ack=5001)
    for pair, at_ms in enumerate(pair_ms.tolist()):
        seq, number, acks = 1001 + 2 * pair * FULL, 3 + 2 * pair, 2 + pair
        note("mobile", at_ms, 0, number, seq=seq, ack=5001, payload=2 * FULL)
        if are_one:
            note("fixed", second_ms[pair], 0, number, seq=seq, ack=5001, payload=2 * FULL)
        else:
            note("fixed", second_ms[pair] - 0.005, 0, number, seq=seq, ack=5001, payload=FULL)
            note("fixed", second_ms[pair], 0, number + 1, seq=seq + FULL, ack=5001, payload=FULL)
        note("fixed", second_ms[pair] + 0.05, 1, acks, seq=5001, ack=seq + 2 * FULL)
        note("mobile", second_ms[pair] + 0.05 + WAY_MS, 1, acks, seq=5001, ack=seq + 2 * FULL)
    for end, noted in ends.items():
        (folder / end).mkdir()
        write_pcap(folder / end / "tcp-0.pcap", sorted(noted, key=lambda segment: segment.time_ns or 0))
    return diagnose(Transfer.of(read(folder)))


def test_what_a_sender_spaced_out_did_not_wait_for_others(tmp_path: Path) -> None:
    """The link needs 0.36 ms for a segment; one gap in two is longer for a while, most are later."""
    uneven_ms = np.random.default_rng(1).choice([2.0, 4.0], 160)
    gaps_ms = np.concatenate([np.full(100, 2.0), uneven_ms, np.full(900, 10.0)])
    pair_ms = OPENED_MS + 1 + np.cumsum(gaps_ms)
    found = _joined_in_pairs(tmp_path, pair_ms, np.full(len(pair_ms), 0.36), are_one=True)
    assert "competing-traffic" not in kinds(found)


def test_a_slower_link_whose_pairs_were_joined_is_a_step_of_its_rate_alone(tmp_path: Path) -> None:
    """Then the second of each two seems to have waited for the whole time that both took longer."""
    fast = np.tile([30.0, *[0.0] * 24], 72)
    slow = np.concatenate([np.tile([36.0, *[0.0] * 9], 15), np.full(250, 4.0)])
    pair_ms = OPENED_MS + 1 + np.cumsum(np.concatenate([fast, slow]))
    service_ms = np.repeat([0.57, 1.7], [len(fast), len(slow)])
    found = _joined_in_pairs(tmp_path, pair_ms, service_ms, are_one=False)
    assert "rate-change" in kinds(found)
    assert "competing-traffic" not in kinds(found)
