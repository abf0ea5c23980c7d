"""The path does to packets what it is told: on real TCP between two namespaces."""

from __future__ import annotations

import shutil
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
import pytest

from tests.causes.judge import VIEWS, judge
from tests.causes.path import DELIVERED, FATES, build, lateness_p99_ns, read_bytes, read_log
from tests.causes.record import MOST_LATE_NS, make
from tests.causes.scenario import Draw, Hosts
from tests.causes.ticks import stamps
from tests.causes.truth import write

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray

    from multitracer.tables import Times
    from tests.causes.scenario import Scenario

RATE_BPS, DELAY_NS, QUEUE_BYTES, SENT_BYTES = 4_000_000, 15_000_000, 30_000, 800_000
MTU, THINK_S, ANSWER_BYTES, TICK_MS = 1500, 0.4, 60_000, 10

pytestmark = [pytest.mark.root, pytest.mark.realtime]  # recordings that a busy machine disturbs are skipped


@pytest.fixture(scope="module")
def upload(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a recording of an upload over a link that is slower than both hosts."""
    draw = Draw(1)
    draw.upload, draw.congestion_control, draw.timestamps = True, "cubic", True
    draw.rate_bps, draw.rtt_s = RATE_BPS, 2 * DELAY_NS / 1e9
    draw.bulk(SENT_BYTES)
    told = draw.finish(1, "plain", "link", control=True)
    told.path = [
        *(["up", *each] for each in (["queue", QUEUE_BYTES], ["step", 0, RATE_BPS, DELAY_NS])),
        *(["down", *each] for each in (["queue", QUEUE_BYTES], ["step", 0, RATE_BPS, DELAY_NS])),
    ]
    return _punctual(told, tmp_path_factory.mktemp("causes"))


def _punctual(told: Scenario, place: Path) -> Path:
    """Return a recording that the machine did not disturb; skip if it is never idle for two seconds."""
    if shutil.which("cc") is None:
        pytest.skip("no C compiler: the path cannot be built")
    for number in range(3):
        folder = place / str(number)
        make(told, build(place / "built"), folder)
        if lateness_p99_ns(read_log(folder / "truth" / "path.bin")) <= MOST_LATE_NS:
            return folder
    pytest.skip(f"the machine is too busy: packets were over {MOST_LATE_NS / 1e6:.0f} ms late three times")


@pytest.fixture(scope="module")
def answers(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a recording of a thinking server: IPv6, segmentation offload, timestamps with coarse ticks."""
    draw = Draw(2)
    draw.upload, draw.congestion_control, draw.timestamps = False, "cubic", True
    draw.rate_bps, draw.rtt_s, draw.queue_bdp = 40e6, 0.02, 2
    ask = [["send", 250], ["recv", ANSWER_BYTES]]
    answer = [["recv", 250], ["wait", THINK_S, "think"], ["send", ANSWER_BYTES]]
    client, server = [["repeat", 5, ask], ["close"]], [["repeat", 5, answer], ["drain"], ["close"]]
    draw.plan["connections"] = [{"client": client, "server": server}]
    told = draw.finish(2, "answers", "application", control=True)
    told.hosts = Hosts(6, offload=True, gro_ns=1_000_000, ticks_ms={"fixed": TICK_MS})
    told.plan["address"] = told.hosts.address("10.0.1.2")
    return _punctual(told, tmp_path_factory.mktemp("causes"))


@pytest.fixture(scope="module")
def data(upload: Path) -> NDArray[np.void]:
    log = read_log(upload / "truth" / "path.bin")
    return log[(log["way"] == 0) & (log["payload"] > 0)]


def test_all_that_was_sent_arrives_and_what_is_dropped_is_told(data: NDArray[np.void]) -> None:
    assert {FATES[fate] for fate in data["fate"]} <= {"delivered", "queue"}
    arrived = data[data["fate"] == DELIVERED]
    assert len(np.unique(arrived["seq"])) == -(-SENT_BYTES // 1448)


def test_the_serializer_keeps_its_rate(data: NDArray[np.void]) -> None:
    served = data[data["served_ns"] > 0]
    served_ns: Times = served["served_ns"].astype(np.int64)
    took_ns = served_ns[1:] - served_ns[:-1]
    assert (took_ns >= served["length"][1:] * 8e9 / RATE_BPS - 1).all()
    busy_bps = served["length"].sum() * 8e9 / (served["served_ns"][-1] - served["enter_ns"][0])
    assert 0.9 * RATE_BPS < busy_bps <= RATE_BPS


def test_the_delay_is_kept_and_the_queue_is_no_longer_than_told(data: NDArray[np.void]) -> None:
    arrived = data[data["fate"] == DELIVERED]
    assert (arrived["due_ns"] - arrived["served_ns"] == DELAY_NS).all()
    waited_ns = arrived["served_ns"].astype(np.int64) - arrived["enter_ns"].astype(np.int64)
    assert waited_ns.max() <= QUEUE_BYTES * 8e9 / RATE_BPS + 1
    assert (arrived["written_ns"] >= arrived["due_ns"]).all()


def test_the_truth_of_a_full_link_is_the_link(upload: Path) -> None:
    found = write(upload)["transfers"][0]
    assert next(iter(found["shares"])) == "link"
    assert found["bytes"] == SENT_BYTES
    edges = [(begin, end) for begin, end, _, _ in found["intervals"]]
    assert all(left[1] == right[0] for left, right in pairwise(edges))
    assert sum(end - begin for begin, end in edges) == pytest.approx(found["total_s"] * 1e9)


@pytest.mark.parametrize("view", VIEWS)
def test_the_program_says_of_every_view_that_the_link_was_the_limit(upload: Path, view: str) -> None:
    judged = judge(upload, write(upload), view)
    assert judged is not None
    assert judged.right, (judged.ours, judged.error)
    assert judged.overlap > 0.85


def _payloads(recording: Path, host: str) -> NDArray[np.int64]:
    """Return the payload of each packet of a capture, as its IPv6 header tells it."""
    data = read_bytes(recording / "session" / host / "tcp-0.pcap")
    found = [int.from_bytes(data[s.tcp - 36 : s.tcp - 34], "big") - (data[s.tcp + 12] >> 4) * 4
             for s in stamps(data)]  # fmt: skip
    return np.array(found)


@pytest.mark.parametrize("host", ["fixed", "mobile"])
def test_captures_hold_segments_that_the_path_never_saw(answers: Path, host: str) -> None:
    log = read_log(answers / "truth" / "path.bin")
    assert log["length"].max() <= MTU
    assert log["payload"][log["way"] == 1].sum() >= 5 * ANSWER_BYTES
    assert _payloads(answers, host).max() > MTU


def test_the_servers_timestamps_tick_as_told_and_the_client_echoes_them(answers: Path) -> None:
    log = read_log(answers / "truth" / "path.bin")
    data = read_bytes(answers / "session" / "mobile" / "tcp-0.pcap")
    told = [(s.source[-2:], int.from_bytes(data[s.at : s.at + 4], "big"),
             int.from_bytes(data[s.at + 4 : s.at + 8], "big")) for s in stamps(data)]  # fmt: skip
    server = (5001).to_bytes(2, "big")
    of_server = {value for source, value, _ in told if source == server}
    assert of_server == {value // TICK_MS for value in log["tsval"][log["way"] == 1].tolist()}
    assert {echo for source, _, echo in told if source != server} <= of_server | {0}


@pytest.mark.parametrize("view", ["both", "receiver"])
def test_the_program_says_of_a_thinking_server_that_the_application_was_the_limit(answers: Path, view: str) -> None:
    found = write(answers)
    judged = judge(answers, found, view)
    assert judged is not None
    assert judged.answer == "application", (judged.ours, judged.error)
    assert found["transfers"][0]["shares"]["application"] == pytest.approx(judged.ours["application"], abs=0.05)
    assert "server-think-time" in judged.findings
