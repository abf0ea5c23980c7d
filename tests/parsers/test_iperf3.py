"""What iperf3 says of its streams: real tests on the loopback, the events of newer versions, damage."""

from __future__ import annotations

import json
import shutil
import socket
import subprocess
import time
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given

import multitracer as mt
import parsers
from multitracer.errors import FormatError
from parsers import iperf3
from tests.narrowed import parsed
from tests.parsers.damage import damaged, survives

if TYPE_CHECKING:
    from pathlib import Path

S = 1_000_000_000
PROGRAM = shutil.which("iperf3")
needs_iperf3 = pytest.mark.skipif(PROGRAM is None, reason="iperf3 is not installed (apt-get install iperf3)")
CONNECTED = [
    {"socket": 5, "local_host": "10.0.0.1", "local_port": 58430, "remote_host": "10.0.0.2", "remote_port": 5201},
    {"socket": 7, "local_host": "fd00::1", "local_port": 58446, "remote_host": "fd00::2", "remote_port": 5201},
]


def interval(second: int, number: int, **more: object) -> dict[str, Any]:
    return {
        "socket": number, "start": second, "end": second + 1.25, "seconds": 1.25, "bytes": 1048576,
        "bits_per_second": 6710886.4, "retransmits": 3, "snd_cwnd": 14480, "rtt": 170, "rttvar": 219,
        "omitted": False, "sender": True, **more,
    }  # fmt: skip


def sample_test(intervals: int = 2) -> dict[str, Any]:
    """Return a test as iperf 3.12 writes it, cut to what is read."""
    count = {"start": 0, "end": 2.5, "seconds": 2.5, "bytes": 2097152, "bits_per_second": 6710886.4}
    return {
        "start": {
            "connected": CONNECTED, "version": "iperf 3.12", "cookie": "sru6uv7pbac6l624jsv7ontkgvjpngywioe6",
            "timestamp": {"time": "Mon, 23 Nov 2026 07:23:08 GMT", "timesecs": 1795418588},
            "test_start": {"protocol": "TCP", "num_streams": 2, "reverse": 0},
        },
        "intervals": [
            {"streams": [interval(n, 5), interval(n, 7, rtt=0)], "sum": {}} for n in range(intervals)
        ],
        "end": {
            "streams": [
                {"sender": {"socket": n, **count, "retransmits": 6, "sender": True},
                 "receiver": {"socket": n, **count, "bytes": 2000000, "sender": True}}
                for n in (5, 7)
            ],
        },
    }  # fmt: skip


SAMPLE = json.dumps(sample_test(), indent="\t").encode()


def test_each_stream_has_a_row_for_each_interval_and_two_sums() -> None:
    assert parsers.recognise(SAMPLE, path="x").name == "iperf3"
    tables = parsed(iperf3.FORMAT, SAMPLE)
    first, second, *_ = tables["application_rate"].rows()
    assert (first["time_ns"], first["until_ns"]) == (1795418588 * S, 1795418589_250_000_000)
    assert (first["series"], first["local"], first["remote"]) == ("5", "10.0.0.1:58430", "10.0.0.2:5201")
    assert (first["direction"], first["bytes"], first["rate_bps"]) == ("sent", 1048576, 6710886.4)
    assert (first["retransmitted_segments"], first["cwnd_bytes"], first["omitted"]) == (3, 14480, 0)
    assert (first["rtt_s"], first["rttvar_s"]) == (170e-6, 219e-6)
    assert (second["local"], second["rtt_s"], second["rttvar_s"]) == ("[fd00::1]:58446", None, None)
    sums = list(tables["application_sums"].rows())
    assert [(row["reporter"], row["bytes"]) for row in sums] == [("sender", 2097152), ("receiver", 2000000)] * 2
    assert tables["application_rate"].provenance["tests"] == 1


def test_what_follows_omitted_seconds_is_counted_from_their_end() -> None:
    """As iperf 3.12 wrote it on a busy host: the first counted interval has hardly a length."""
    test = sample_test()
    test["start"]["test_start"]["omit"] = 1
    times = [(0.0, 0.5, True), (0.5, 1.0, True), (0.500055, 0.500083, False), (0.500083, 1.0, False)]
    test["intervals"] = [
        {"streams": [interval(0, 5, start=start, end=end, seconds=length, omitted=omitted)]}
        for (start, end, omitted), length in zip(times, (0.5, 0.5, 1.0, 0.5), strict=True)
    ]
    tables = parsed(iperf3.FORMAT, json.dumps(test, indent="\t").encode())
    rows = list(tables["application_rate"].rows())
    assert [row["omitted"] for row in rows] == [1, 1, 0, 0]
    begins_s = [row["time_ns"] / S - 1795418588 for row in rows]
    assert begins_s == pytest.approx([0.0, 0.5, 1.0, 1.500083], abs=1e-6)
    assert rows[2]["rate_bps"] == pytest.approx(1048576 * 8 / 0.500083)
    first = next(tables["application_sums"].rows())
    assert (first["time_ns"], first["until_ns"]) == (1795418589 * S, 1795418591_500_000_000)


def events(test: dict[str, Any]) -> bytes:
    """Return a test as the events of --json-stream, of iperf 3.17 and later."""
    lines = [{"event": "start", "data": test["start"]}]
    lines += [{"event": "interval", "data": each} for each in test["intervals"]]
    return b"".join(json.dumps(line).encode() + b"\n" for line in (*lines, {"event": "end", "data": test["end"]}))


def test_events_say_the_same_and_tests_may_follow_each_other() -> None:
    complete = parsed(iperf3.FORMAT, SAMPLE)
    data = events(sample_test())
    assert parsers.recognise(data, path="x").name == "iperf3"
    for name, table in parsed(iperf3.FORMAT, data).items():
        assert repr(list(table.rows())) == repr(list(complete[name].rows()))
    for twice in (SAMPLE + b"\n" + SAMPLE, data * 2):
        table = parsed(iperf3.FORMAT, twice)["application_rate"]
        assert sorted(table["run"].tolist()) == [1] * 4 + [2] * 4
        assert table.provenance["tests"] == 2


def test_test_that_was_cut_keeps_what_precedes() -> None:
    data = events(sample_test(3))
    cut = data[: data.index(b'"end", "data"') - 40]
    tables = parsed(iperf3.FORMAT, cut)
    assert (len(tables["application_rate"]), len(tables["application_sums"])) == (5, 2)
    assert tables["application_rate"].provenance["damaged"].startswith("not valid JSON at character")
    half = parsed(iperf3.FORMAT, SAMPLE[:-40])["application_rate"]
    assert (len(half), half.provenance["damaged"][:27]) == (4, "not valid JSON at character")
    with pytest.raises(FormatError, match=r"neither intervals nor sums.*not valid JSON at character"):
        parsed(iperf3.FORMAT, SAMPLE[:300])


def test_error_of_iperf3_is_named() -> None:
    failed = sample_test(0) | {"error": "unable to connect to server: Connection refused", "end": {}}
    with pytest.raises(
        FormatError, match="neither intervals nor sums of an iperf3 test; error of iperf3: unable to connect"
    ):
        parsed(iperf3.FORMAT, json.dumps(failed).encode())
    late = sample_test() | {"error": "the server has terminated"}
    warnings = parsed(iperf3.FORMAT, json.dumps(late).encode())["application_rate"].provenance["warnings"]
    assert warnings == ["iperf3 reported an error: the server has terminated"]


def test_reverse_test_of_an_early_version_received() -> None:
    test = sample_test()
    test["start"]["test_start"]["reverse"] = 1
    for each in test["intervals"]:
        for stream in each["streams"]:
            del stream["sender"]
    assert set(parsed(iperf3.FORMAT, json.dumps(test).encode())["application_rate"]["direction"]) == {"received"}


@pytest.mark.parametrize(
    ("host", "shown"),
    [("::ffff:10.0.0.1", "10.0.0.1:58430"), ("fe80::1%eth0", "[fe80::1]:58430"), ("phone.example", "")],
)
def test_end_is_an_address_or_nothing(host: str, shown: str) -> None:
    test = sample_test()
    test["start"]["connected"] = [CONNECTED[0] | {"local_host": host}]
    table = parsed(iperf3.FORMAT, json.dumps(test).encode())["application_rate"]
    assert table["local"][0] == shown


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def run(*options: str) -> bytes:
    """Return what a real test over the loopback writes."""
    assert PROGRAM is not None
    port = str(free_port())
    server = subprocess.Popen([PROGRAM, "-s", "-1", "-p", port], stdout=subprocess.DEVNULL)
    try:
        for _ in range(200):
            client = subprocess.run(
                [PROGRAM, "-c", "127.0.0.1", "-p", port, "--json", *options], capture_output=True, check=False
            )
            if client.returncode == 0 and b"error" not in client.stdout:  # 3.12 fails with 0, too
                return client.stdout
            time.sleep(0.05)
        raise AssertionError(client.stdout)
    finally:
        server.kill()
        server.wait()


@needs_iperf3
@pytest.mark.parametrize("options", [("-P", "2"), ("-R",), ("-u", "-b", "2M"), ("-O", "1")])
def test_real_test_adds_up_to_its_own_sums(options: tuple[str, ...], tmp_path: Path) -> None:
    path = tmp_path / "iperf3.json"
    before = time.time()
    path.write_bytes(run("-t", "1", "-i", "0.5", "-b", "20M", *options))
    session = mt.open(tmp_path)
    rates, sums = (session.table("application", f"application_{name}") for name in ("rate", "sums"))
    ours = "receiver" if "-R" in options else "sender"
    counted = rates[rates["omitted"] == 0]
    for series, group in counted.groupby("series"):
        total = sums[(sums["series"] == series) & (sums["reporter"] == ours)].iloc[0]
        assert abs(int(group["bytes"].sum()) - int(total["bytes"])) <= 2 * 131072, "one block at either end"
        assert abs((group["time_ns"].min() - total["time_ns"]).total_seconds()) < 0.001
        assert abs((group["until_ns"].max() - total["until_ns"]).total_seconds()) < 0.5
    assert set(rates["direction"]) == {"received" if "-R" in options else "sent"}
    assert rates["local"].str.startswith("127.0.0.1:").all()
    begin = rates["time_ns"].min().timestamp()
    assert before - 1.1 <= begin <= time.time()
    assert np.isfinite(rates["rate_bps"]).all()


@given(data=damaged(SAMPLE))
def test_damaged_test_gives_tables_or_an_error(data: bytes) -> None:
    survives(iperf3.parse, data)


@given(data=damaged(events(sample_test())))
def test_damaged_events_give_tables_or_an_error(data: bytes) -> None:
    survives(iperf3.parse, data)
