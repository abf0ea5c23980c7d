"""The path does to packets what it is told: on real TCP between two namespaces."""

from __future__ import annotations

import shutil
import subprocess
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
import pytest

from tests.causes.judge import VIEWS, judge
from tests.causes.path import DELIVERED, FATES, SOURCES, build, lateness_p99_ns, read_bytes, read_log
from tests.causes.record import MOST_LATE_NS, make
from tests.causes.scenario import Draw, Hosts
from tests.causes.ticks import stamps
from tests.causes.truth import write

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from numpy.typing import NDArray

    from multitracer.tables import Times
    from tests.causes.scenario import Scenario

RATE_BPS, DELAY_NS, QUEUE_BYTES, SENT_BYTES = 4_000_000, 15_000_000, 30_000, 800_000
MTU, THINK_S, ANSWER_BYTES, TICK_MS = 1500, 0.4, 60_000, 10

_BY_HAND = r"""
#define CLOCK_BY_HAND
#define main main_of_path
#include "path.c"
#undef main
ns_t clock_by_hand;

static void run_until(ns_t end)
{
    for (ns_t next; (next = next_event()) <= end && next != UINT64_MAX;) {
        clock_by_hand = next > clock_by_hand ? next : clock_by_hand;
        advance(&ways[0], clock_by_hand);
        for (struct flying *f; (f = first_due(clock_by_hand)); forget()) {
            records[f->packet->record].written = clock_by_hand;
            records[f->packet->record].fate = DELIVERED;
        }
    }
}

int main(int argc, char **argv)
{
    unsigned char packet[LARGEST] = {0x45, 2};
    unsigned long long at;
    unsigned length;
    configure(argv[argc - 2]);
    while (scanf("%llu %u", &at, &length) == 2) {
        run_until(at + S);
        clock_by_hand = at + S;
        accept_packet(&ways[0], packet, length);
    }
    run_until(UINT64_MAX);
    write_log(argv[argc - 1], 0);
}
"""
"""Carries packets that enter at times told on stdin; each asks for ECN (ECT(0))."""


def _real(test: Callable[..., None]) -> Callable[..., None]:
    """Mark a test that records; it is skipped where a busy machine disturbs it."""
    return pytest.mark.root(pytest.mark.realtime(test))


@pytest.fixture(scope="module")
def by_hand(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the path as a program whose clock is what it is told."""
    compiler = shutil.which("cc")
    if compiler is None:
        pytest.skip("no C compiler: the path cannot be built")
    folder = tmp_path_factory.mktemp("by-hand")
    (folder / "by_hand.c").write_text(_BY_HAND)
    beside = SOURCES[0].parent
    files = [str(folder / "by_hand.c"), str(beside / "way.c"), "-I", str(beside), "-lm"]
    subprocess.run([compiler, "-DCLOCK_BY_HAND", "-o", str(folder / "path"), *files], check=True)
    return folder / "path"


def _carried(program: Path, settings: list[str], packets: list[tuple[float, int]]) -> NDArray[np.void]:
    """Return the log of packets that entered the way up at these seconds, with so many bytes."""
    folder = program.parent
    config = ["up seed 1", "up queue 1000000", "up step 0 12000000 10000000", *(f"up {each}" for each in settings)]
    (folder / "config").write_text("\n".join(config) + "\n")
    words = "".join(f"{round(at_s * 1e9)} {length}\n" for at_s, length in packets)
    subprocess.run([str(program), str(folder / "config"), str(folder / "log")], input=words, text=True, check=True)
    return read_log(folder / "log")


def _took_ms(log: NDArray[np.void]) -> list[float]:
    return ((log["written_ns"].astype(np.int64) - log["enter_ns"].astype(np.int64)) / 1e6).round(3).tolist()


def test_a_trace_of_capacity_serves_each_packet_at_the_rates_of_its_time(by_hand: Path) -> None:
    trace = ["trace 0 12000000", "trace 1000000 0", "trace 6000000 6000000"]
    log = _carried(by_hand, trace, [(0, 1500), (0, 1500), (0, 1500), (0.1, 1500)])
    assert _took_ms(log) == [11, 18, 20, 12]  # 1 ms, 5 ms of standing still, then 2 ms each; the delay is 10 ms
    log = _carried(by_hand, ["trace 0 12000000", "trace 500000 0", "trace 6000000 6000000"], [(0, 1500)])
    assert _took_ms(log) == [17]  # half of it before, half after


def test_grants_let_packets_out_together_at_multiples(by_hand: Path) -> None:
    log = _carried(by_hand, ["grant 8000000"], [(0, 1500), (0, 1500), (0.0061, 1500)])
    assert _took_ms(log) == [16, 16, 17.9]
    assert log["served_ns"][0] - log["enter_ns"][0] == 1_000_000  # no queue


def test_a_second_link_has_a_queue_of_its_own(by_hand: Path) -> None:
    log = _carried(by_hand, ["second 6000000 3000"], [(0, 1500)] * 8)
    assert _took_ms(log[:2]) == [13, 15]
    dropped = log[log["fate"] == FATES.index("queue")]
    assert len(dropped) == 3
    assert not dropped["served_ns"].any()
    waits = np.diff(log["served_ns"][log["fate"] == DELIVERED].astype(np.int64))
    assert (waits == 2_000_000).all()


@pytest.mark.parametrize("managed", ["codel 5000000 100000000", "pie 15000000"])
def test_a_managed_queue_drops_or_marks_what_lets_it_stand(by_hand: Path, managed: str) -> None:
    full = [(number * 0.00097, 1500) for number in range(9000)]  # a little more than the link carries
    logs = [_carried(by_hand, [f"{managed} {ecn}"], full) for ecn in (0, 1)]
    assert [int(log["ce"].sum()) > 20 for log in logs] == [False, True]
    assert (logs[0]["fate"] == FATES.index("queue")).sum() > 20
    assert _longest_wait_ms(logs[0]) < _longest_wait_ms(_carried(by_hand, [], full)) / 2
    free = _carried(by_hand, [f"{managed} 0"], [(number * 0.0011, 1500) for number in range(3000)])
    assert (free["fate"] == DELIVERED).all()


def test_a_fair_queue_lets_small_flows_pass_and_parts_the_link(by_hand: Path) -> None:
    others = "cross 0 3000000000 24000000 1500 0 0"  # twice what the link carries
    small = [(0, 100), *((0.5 + 0.013 * number, 100) for number in range(100))]
    alone_ms, service_ms = 10 + 100 * 8 / 12e3, 1
    fair = _carried(by_hand, [others, "fair 5000000 100000000 0"], small)
    assert (fair["fate"] == DELIVERED).all()
    assert max(_took_ms(fair)) <= alone_ms + service_ms + 0.001  # at most what is in service stands before it
    assert np.median(_took_ms(_carried(by_hand, [others], small))) > 300
    full = [(number * 0.0008, 1500) for number in range(2500)]
    half = _carried(by_hand, [others, "fair 5000000 100000000 0"], full)
    served = half["served_ns"][half["served_ns"] > 0].astype(np.int64) - half["enter_ns"][0].astype(np.int64)
    assert ((served > 0.5e9) & (served < 1.5e9)).sum() == pytest.approx(500, rel=0.02)  # of 1000 packets a second
    dropped = half["fate"] == FATES.index("queue")
    assert 0 < dropped.sum() < len(full) / 2


def test_a_full_fair_queue_drops_of_the_longest(by_hand: Path) -> None:
    others = "cross 0 1000000000 48000000 1500 0 0"
    mine = [(0, 1500), *((0.2 + 0.004 * number, 1500) for number in range(150))]  # a quarter of the link
    carried = [
        _carried(by_hand, [others, "queue 40000", *more], mine) for more in ([], ["fair 1000000000 100000000 0"])
    ]
    lost = [int((log["fate"] == FATES.index("queue")).sum()) for log in carried]
    assert lost[0] > 75
    assert lost[1] == 0


def _longest_wait_ms(log: NDArray[np.void]) -> float:
    served = log[log["served_ns"] > 0]
    return float((served["served_ns"].astype(np.int64) - served["enter_ns"].astype(np.int64)).max()) / 1e6


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


@_real
def test_all_that_was_sent_arrives_and_what_is_dropped_is_told(data: NDArray[np.void]) -> None:
    assert {FATES[fate] for fate in data["fate"]} <= {"delivered", "queue"}
    arrived = data[data["fate"] == DELIVERED]
    assert len(np.unique(arrived["seq"])) == -(-SENT_BYTES // 1448)


@_real
def test_the_serializer_keeps_its_rate(data: NDArray[np.void]) -> None:
    served = data[data["served_ns"] > 0]
    served_ns: Times = served["served_ns"].astype(np.int64)
    took_ns = served_ns[1:] - served_ns[:-1]
    assert (took_ns >= served["length"][1:] * 8e9 / RATE_BPS - 1).all()
    busy_bps = served["length"].sum() * 8e9 / (served["served_ns"][-1] - served["enter_ns"][0])
    assert 0.9 * RATE_BPS < busy_bps <= RATE_BPS


@_real
def test_the_delay_is_kept_and_the_queue_is_no_longer_than_told(data: NDArray[np.void]) -> None:
    arrived = data[data["fate"] == DELIVERED]
    assert (arrived["due_ns"] - arrived["served_ns"] == DELAY_NS).all()
    waited_ns = arrived["served_ns"].astype(np.int64) - arrived["enter_ns"].astype(np.int64)
    assert waited_ns.max() <= QUEUE_BYTES * 8e9 / RATE_BPS + 1
    assert (arrived["written_ns"] >= arrived["due_ns"]).all()


@_real
def test_the_truth_of_a_full_link_is_the_link(upload: Path) -> None:
    found = write(upload)["transfers"][0]
    assert next(iter(found["shares"])) == "link"
    assert found["bytes"] == SENT_BYTES
    edges = [(begin, end) for begin, end, _, _ in found["intervals"]]
    assert all(left[1] == right[0] for left, right in pairwise(edges))
    assert sum(end - begin for begin, end in edges) == pytest.approx(found["total_s"] * 1e9)


@_real
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


@_real
@pytest.mark.parametrize("host", ["fixed", "mobile"])
def test_captures_hold_segments_that_the_path_never_saw(answers: Path, host: str) -> None:
    log = read_log(answers / "truth" / "path.bin")
    assert log["length"].max() <= MTU
    assert log["payload"][log["way"] == 1].sum() >= 5 * ANSWER_BYTES
    assert _payloads(answers, host).max() > MTU


@_real
def test_the_servers_timestamps_tick_as_told_and_the_client_echoes_them(answers: Path) -> None:
    log = read_log(answers / "truth" / "path.bin")
    data = read_bytes(answers / "session" / "mobile" / "tcp-0.pcap")
    told = [(s.source[-2:], int.from_bytes(data[s.at : s.at + 4], "big"),
             int.from_bytes(data[s.at + 4 : s.at + 8], "big")) for s in stamps(data)]  # fmt: skip
    server = (5001).to_bytes(2, "big")
    of_server = {value for source, value, _ in told if source == server}
    assert of_server == {value // TICK_MS for value in log["tsval"][log["way"] == 1].tolist()}
    assert {echo for source, _, echo in told if source != server} <= of_server | {0}


@_real
@pytest.mark.parametrize("view", ["both", "receiver"])
def test_the_program_says_of_a_thinking_server_that_the_application_was_the_limit(answers: Path, view: str) -> None:
    found = write(answers)
    judged = judge(answers, found, view)
    assert judged is not None
    assert judged.answer == "application", (judged.ours, judged.error)
    assert found["transfers"][0]["shares"]["application"] == pytest.approx(judged.ours["application"], abs=0.05)
    assert "server-think-time" in judged.findings
