"""What the commands say and draw of sessions that hold transactions."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path

import numpy as np
import pytest

from tests.cli.program import ROOT, call
from tests.recording.captures import Conversation, write_conversations
from tests.transactions import cdpd_like, transactions, write_session

INF = np.inf


@pytest.fixture(autouse=True)
def _in_a_folder_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Two measurements that look as the paper's."""
    place = tmp_path_factory.mktemp("measured")
    tcp = cdpd_like("tcp", connection="per-session", connect_s=2.0)
    return [
        write_session(place / "cdpd-tcp", tcp, link="cdpd", virtual=True),
        write_session(place / "cdpd-cc", cdpd_like("centauruscomm"), link="cdpd", virtual=True),
    ]


def test_inspect_counts_the_transactions_of_each_size(folders: list[Path]) -> None:
    said = call("inspect", folders[0]).stdout
    assert "transactions: transactions, transactions.csv" in said
    (line,) = [line for line in said.splitlines() if " 4,096 B " in line]
    assert line.split()[:6] == ["TCP", "reply", "4,096", "B", "100", "11"]


def test_analyze_sets_transports_beside_each_other(folders: list[Path]) -> None:
    said = call("analyze", *folders).stdout
    assert "TCP over CentaurusComm, reply varied" in said
    ratios = {line.split()[0]: line for line in said.partition("TCP over")[2].splitlines() if " B " in line}
    assert "half or more were dropped: TCP" in ratios["8,192"]
    assert float(ratios["4,096"].split()[2]) > 3


def test_analyze_writes_the_numbers_for_programs(folders: list[Path]) -> None:
    document = json.loads(call("analyze", "--json", *folders).stdout)
    assert document["schema"] == "multitracer.transactions/1"
    assert len(document["sizes"]) == 14
    failed = next(row for row in document["comparisons"] if row["size_bytes"] == 8192)
    assert (failed["ratio"], failed["dropped"], failed["other_dropped"]) == (None, 84, 0)
    rows = list(csv.DictReader(io.StringIO(call("analyze", "--csv", *folders).stdout)))
    assert [row["median_s"] for row in rows if row["transport"] == "TCP"][-1] == ""
    assert float(rows[0]["median_s"]) == document["sizes"][0]["median_s"]


def test_plot_draws_the_figure_that_is_asked_for(folders: list[Path]) -> None:
    titles = {}
    for kind in ("rtt-size", "cdf", "environment", "panels"):
        assert call("plot", *folders, "--figure", kind, "-o", f"{kind}.json").stdout == f"{kind}.json\n"
        titles[kind] = json.loads(Path(f"{kind}.json").read_text())["layout"]["annotations"][0]["text"]
    assert "Round-trip time against the length of the reply" in titles["rtt-size"]
    assert "128 bytes" in titles["cdf"]
    assert "RTT range" in titles["environment"]
    call("plot", *folders, "-o", "default.json")
    assert Path("default.json").read_text() == Path("rtt-size.json").read_text(), (
        "RTT against size is what comes without a wish"
    )


def test_the_size_of_the_environment_can_be_chosen(folders: list[Path]) -> None:
    call("plot", folders[0], "--figure", "environment", "--size", "1024", "-o", "one.json")
    figure = json.loads(Path("one.json").read_text())
    assert "reply of 1024 bytes" in figure["layout"]["annotations"][0]["text"]
    said = call("plot", folders[0], "--figure", "panels", "--size", "1000", status=1).stderr
    assert "no transaction of 1000 bytes; the sizes are 128, 256" in said


def test_wishes_that_mean_nothing_are_refused(folders: list[Path], tmp_path: Path) -> None:
    capture = write_conversations(tmp_path / "a.pcap", Conversation())
    assert "cannot be used with transactions" in call("plot", folders[0], "--from", "1", status=2).stderr
    assert "--size can be used only" in call("plot", folders[0], "--figure", "cdf", "--size", "64", status=2).stderr
    assert "--size can be used only" in call("plot", capture, "--size", "64", status=2).stderr
    said = call("plot", capture, "--figure", "cdf", status=1).stderr
    assert "this folder contains no transactions; name folders that `measure run` wrote" in said


def test_a_run_that_was_interrupted_at_once_says_so(tmp_path: Path) -> None:
    table = transactions({64: [1.0]})
    folder = write_session(tmp_path / "begun", table.take(np.array([], dtype=int)))
    assert "No transaction was finished yet." in call("inspect", folder).stdout
    assert "contains no finished transaction" in call("analyze", folder, status=1).stderr


def test_damaged_lines_are_passed_over_and_told(tmp_path: Path) -> None:
    folder = write_session(tmp_path / "bad", transactions({64: [1.0, 2.0]}))
    with (folder / "transactions.csv").open("a") as stream:
        stream.write("garbage\n")
    done = call("analyze", folder)
    assert "1 line" in done.stderr
    assert " 2        0 " in done.stdout


def test_report_of_one_session_is_a_page_on_it(folders: list[Path]) -> None:
    assert call("report", folders[1]).stdout == "report.html\n"
    page = Path("report.html").read_text("utf-8")
    assert "CentaurusComm took" in page
    assert "SHA-256" in page


def test_report_of_sessions_with_captures_leads_to_their_reports(tmp_path: Path) -> None:
    folder = write_session(tmp_path / "both", transactions({64: [1.0, 2.0]}))
    (folder / "client").mkdir()
    write_conversations(folder / "client" / "a.pcap", Conversation())
    assert call("report", folder).stdout == "report.html\n"
    assert 'href="report-captures.html"' in Path("report.html").read_text("utf-8")
    assert "TCP connection" in Path("report-captures.html").read_text("utf-8")
    other = write_session(tmp_path / "other", transactions({64: [3.0]}, protocol="centauruscomm"))
    assert call("report", folder, other, "-o", "out").stdout == "out/index.html\n"
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == ["both.html", "index.html"]


def test_captures_beside_transactions_are_in_the_way_only_of_one_folder_over_tcp(tmp_path: Path) -> None:
    folders = {
        protocol: write_session(
            tmp_path / protocol, transactions({64: [1.0, 2.0]}, protocol=protocol), measurement={"protocol": protocol}
        )
        for protocol in ("tcp", "centauruscomm")
    }
    for folder in folders.values():
        (folder / "client").mkdir()
        write_conversations(folder / "client" / "a.pcap", Conversation())
    assert "TCP connection" in call("analyze", folders["tcp"]).stdout
    assert "CentaurusComm  reply" in call("analyze", folders["centauruscomm"]).stdout
    assert "TCP over CentaurusComm" in call("analyze", *folders.values()).stdout


def test_the_efficiency_over_tcp_is_that_of_captures_at_both_hosts(tmp_path: Path) -> None:
    """Of the same transactions without captures it is what the senders counted."""
    wishes = ["--over", "cdpd", "--virtual", "--protocol", "tcp", "--vary", "reply", "--sizes", "4096"]
    for folder, more in (("both", ["--capture"]), ("neither", [])):
        call("measure", "run", *wishes, *more, "--sessions", "12", "-o", tmp_path / folder)
    call("measure", "run", *wishes, "--sessions", "2", "-o", tmp_path / "other")
    documents = [json.loads(call("analyze", "--json", folder, "other").stdout) for folder in ("both", "neither")]
    arrived, sent = (document["sizes"][0]["efficiency"] for document in documents)
    assert sent < arrived < 1
    call("plot", "--figure", "environment", "both", "-o", "both.json")
    assert '"Efficiency"' in Path("both.json").read_text()
    call("plot", "--figure", "environment", "neither", "-o", "neither.json")
    assert '"Efficiency (sent)"' in Path("neither.json").read_text()


def test_plot_draws_efficiency_and_utilization_of_any_sessions(folders: list[Path]) -> None:
    sessions = [ROOT / "sample_traces" / "fig4-slow-start", ROOT / "sample_traces" / "load" / "lo.pcap.gz"]
    call("plot", "--figure", "efficiency", *folders, *sessions, "-o", "efficiency.json")
    titles = [each["text"] for each in json.loads(Path("efficiency.json").read_text())["layout"]["annotations"]]
    assert [title.split(":")[0] for title in titles] == [
        "<b>cdpd-tcp", "<b>cdpd-cc", "<b>fig4-slow-start", "<b>lo.pcap.gz",
    ]  # fmt: skip
    call("plot", "--figure", "utilization", *sessions, "-o", "utilization.json")
    titles = [each["text"] for each in json.loads(Path("utilization.json").read_text())["layout"]["annotations"]]
    assert titles[0].startswith("<b>Channel utilization of 1 transfer</b>")
    assert titles[2].startswith("<b>Time in which the link was the limit, of 3 transfers</b>")


def test_efficiency_of_a_part_of_a_session_can_be_drawn(folders: list[Path]) -> None:
    call("plot", "--figure", "efficiency", folders[1], "-o", "all.json")
    call("plot", "--figure", "efficiency", folders[1], "--to", "2026-11-18T11:10:00", "-o", "part.json")
    counts = [len(json.loads(Path(name).read_text())["data"][0]["customdata"]) for name in ("all.json", "part.json")]
    assert 0 < counts[1] < counts[0] == 700


@pytest.mark.parametrize(
    ("options", "status", "said"),
    [
        (("--figure", "utilization", "--size", "64"), 2, "--size cannot be used with --figure utilization; omit it"),
        (("--figure", "efficiency", "--trend", "RTT"), 2, "--trend, --mark and --axis cannot be used with"),
        (("--figure", "efficiency", "-c", "1"), 2, "--connection cannot be used with --figure efficiency"),
        (("--figure", "efficiency", "--size", "65"), 1, "there is no transaction of 65 bytes; the sizes are 128, 256"),
        (("--figure", "utilization"), 1, "no transfer of TCP whose use of the link is known"),
    ],
)
def test_what_these_figures_cannot_draw_is_a_sentence(
    folders: list[Path], options: tuple[str, ...], status: int, said: str
) -> None:
    done = call("plot", folders[0], *options, "-o", "nothing.html", status=status)
    assert said in " ".join(done.stderr.split())
    assert not Path("nothing.html").exists()
