"""`export xplot`: files that xplot's grammar takes, with the points of tcptrace and our verdicts."""

from __future__ import annotations

import gzip
import re
import resource
import shutil
import subprocess
from typing import TYPE_CHECKING

import pytest

from multitracer.export.xplot import MOST_CONNECTIONS, letters
from tests.analysis.pcap_file import write_pcap
from tests.analysis.traffic import ACK, Segment, handshake
from tests.cli.program import call, run
from tests.conftest import SAMPLES
from tests.export.lossy_capture import lossy

if TYPE_CHECKING:
    from pathlib import Path

needs_tcptrace = pytest.mark.skipif(shutil.which("tcptrace") is None, reason="needs tcptrace")
SENDER = SAMPLES / "fig8-resets-vj" / "mobile" / "tcp-0.pcap.gz"

_NUMBER = r"-?\d+(\.\d+)?"
_COLOUR = "white|green|red|blue|yellow|purple|orange|magenta|pink"
_POINT = r"x|\.|\+|plus|dot|o|box|diamond|[udlrhv]tick|[udlr]arrow|invisible"
_GRAMMAR = re.compile(
    rf"({_COLOUR})|go|({_POINT}) {_NUMBER} {_NUMBER}( ({_COLOUR}))?|"
    rf"d?line {_NUMBER} {_NUMBER} {_NUMBER} {_NUMBER}( ({_COLOUR}))?|"
    rf"(?P<text>[abclr]text {_NUMBER} {_NUMBER}( ({_COLOUR}))?)"
)
"""Commands as demo.0 of xplot-xplot.org lists them; a text is followed by a line of its own."""
_AXES = {"timeval", "double", "signed", "unsigned", "dtime"}


def check_grammar(text: str) -> None:
    lines = iter(text.splitlines())
    assert set(next(lines).split(" ")) <= _AXES
    for name in ("title", "xlabel", "ylabel"):
        assert next(lines) == name
        assert next(lines).isprintable()
    last = ""
    for line in lines:
        found = _GRAMMAR.fullmatch(line)
        assert found, line
        if found["text"]:
            assert next(lines).isprintable()
        last = line
    assert last == "go"


def plots(folder: Path, *args: str | Path) -> dict[str, str]:
    call("export", "xplot", *args, "-o", folder)
    return {path.name: path.read_text("ascii") for path in sorted(folder.iterdir())}


def points(text: str, *commands: str) -> set[str]:
    """Return commands with their numbers; colours behind them say nothing of places."""
    lines = [line for line in text.splitlines() if line.split(" ")[0] in commands]
    return {re.sub(r" [a-z]+$", "", line) for line in lines}


@pytest.fixture(scope="module")
def ours(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    return plots(tmp_path_factory.mktemp("ours"), SENDER)


@pytest.fixture(scope="module")
def theirs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    folder = tmp_path_factory.mktemp("theirs")
    (folder / "in.pcap").write_bytes(gzip.decompress(SENDER.read_bytes()))
    subprocess.run(["tcptrace", "-G", "in.pcap"], cwd=folder, capture_output=True, check=True, timeout=60)
    return {path.name: path.read_text("latin-1") for path in folder.glob("*.xpl")}


def test_every_file_follows_the_grammar(ours: dict[str, str]) -> None:
    for text in ours.values():
        check_grammar(text)


@needs_tcptrace
def test_the_grammar_is_that_of_tcptrace(theirs: dict[str, str]) -> None:
    for text in theirs.values():
        check_grammar(text if text.endswith("go\n") else text + "go\n")


@needs_tcptrace
def test_the_files_are_called_as_tcptrace_calls_them(ours: dict[str, str], theirs: dict[str, str]) -> None:
    assert set(ours) == set(theirs)


@needs_tcptrace
@pytest.mark.parametrize("name", ["a2b_tsg.xpl", "b2a_tsg.xpl"])
def test_sent_and_acknowledged_are_where_tcptrace_has_them(
    name: str, ours: dict[str, str], theirs: dict[str, str]
) -> None:
    commands = ("line", "uarrow", "darrow", "diamond", "box", "dtick", "utick")
    assert points(ours[name], *commands) == points(theirs[name], *commands)
    assert len(points(ours[name], "line")) > 400


@needs_tcptrace
def test_sizes_are_those_of_tcptrace(ours: dict[str, str], theirs: dict[str, str]) -> None:
    assert points(ours["a2b_ssize.xpl"], "dot", "line") == points(theirs["a2b_ssize.xpl"], "dot", "line")


@needs_tcptrace
def test_round_trips_are_those_of_tcptrace_to_a_millisecond(ours: dict[str, str], theirs: dict[str, str]) -> None:
    own, other = (
        {line.split()[1]: int(line.split()[2]) for line in points(plot["a2b_rtt.xpl"], "dot")}
        for plot in (ours, theirs)
    )
    assert own.keys() == other.keys()
    assert all(abs(own[at] - other[at]) <= 1 for at in own)  # ours has ns, tcptrace µs: 8359.9 ms or 8360.0


@needs_tcptrace
def test_outstanding_data_are_those_of_tcptrace_less_one(ours: dict[str, str], theirs: dict[str, str]) -> None:
    own, other = ({tuple(line.split()[1:]) for line in points(plot["a2b_owin.xpl"], "dot")} for plot in (ours, theirs))
    less = {(at, str(int(number) - 1)) for at, number in other}
    flights = {point for point in own if point in less}
    assert len(flights) > 200


def test_a_copy_carries_its_verdict(tmp_path: Path) -> None:
    text = plots(tmp_path / "out", lossy(tmp_path))["a2b_tsg.xpl"]
    lines = text.splitlines()
    at = lines.index("R fast necessary")
    assert lines[at - 1] == "atext 1700000000.121000 1201"
    assert "S" in lines  # a SACK
    assert lines[lines.index("Z") - 1] == "atext 1700000000.190000 1501"  # the window closes


def test_an_arrow_takes_half_of_the_shortest_round_trip(tmp_path: Path) -> None:
    text = plots(tmp_path / "out", lossy(tmp_path))["a_b_tline.xpl"].splitlines()
    first = text.index("SYN 0:1(0) win 1000") if "SYN 0:1(0) win 1000" in text else text.index("SYN 0:0(0) win 1000")
    assert "line 40 -0.000000 60 -0.030000" in text[:first]


def test_hosts_are_named_as_tcptrace_names_them() -> None:
    assert [letters(place) for place in (0, 1, 25, 26, 27, 52, 702)] == ["a", "b", "z", "aa", "ab", "ba", "aaa"]


def test_of_many_connections_the_largest_are_drawn(tmp_path: Path) -> None:
    many = MOST_CONNECTIONS + 10
    segments = [Segment(0, 1, 10 + pair, ACK, 1, pair=pair) for pair in range(many)]
    done = call("export", "xplot", write_pcap(tmp_path / "many.pcap", segments), "-o", tmp_path / "out")
    assert f"the {MOST_CONNECTIONS} largest of {many} connections are drawn" in done.stderr
    assert len(list((tmp_path / "out").iterdir())) == 11 * MOST_CONNECTIONS
    one = plots(tmp_path / "one", tmp_path / "many.pcap", "-c", "1")
    assert sorted(one)[:2] == ["a2b_owin.xpl", "a2b_rtt.xpl"]
    assert len(one) == 11


def test_one_packet_draws_files_that_xplot_reads(tmp_path: Path) -> None:
    for text in plots(tmp_path / "out", write_pcap(tmp_path / "one.pcap", handshake()[:1])).values():
        check_grammar(text)


def test_without_a_connection_there_is_a_sentence(tmp_path: Path) -> None:
    none = write_pcap(tmp_path / "none.pcap", [])
    assert "contains no TCP connection" in call("export", "xplot", none, "-o", tmp_path / "out", status=1).stderr
    assert not (tmp_path / "out").exists()


def test_a_full_disk_leaves_no_half_folder(tmp_path: Path) -> None:
    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (5_000, 5_000))

    done = run("export", "xplot", SENDER, "-o", tmp_path / "out", status=1, preexec_fn=limit)
    assert "out: cannot write this file: File too large" in done.stderr
    assert not list(tmp_path.iterdir())
