"""Commands, replies and refusals of RRC become handovers, legs, redirections and re-establishments."""

from __future__ import annotations

import shutil
import subprocess
from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest

from multitracer.protocols.pcap_file import pcap_header, pcap_record
from parsers import diag
from parsers._signalling.dissection import program
from parsers._signalling.signalling import read_signalling
from tests.conftest import FIXTURES
from tests.parsers.signalling_messages import START_NS, nr, packet, read_messages, serving, version_2
from tests.parsers.test_diag import needs_programs

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.skipif(not shutil.which("tshark"), reason="needs tshark")
TENTH_NS = 10**8


def handovers(tmp_path: Path, *datagrams: bytes, **how: Any) -> list[dict[str, Any]]:
    return list(read_messages(tmp_path, *datagrams, **how)["handovers"].rows())


def test_a_handover_has_command_reply_cells_and_the_report_before_it(tmp_path: Path) -> None:
    after = serving(1350, 305, 126_457_789)
    (row,) = handovers(
        tmp_path,
        serving(1350, 141, 5_139_763),
        version_2("report"),
        version_2("handover to 305"),
        version_2("complete 1"),
        after,
    )
    assert (row["kind"], row["result"], row["evidence"]) == ("handover", "complete", "signalling")
    assert (row["time_ns"], row["complete_ns"]) == (START_NS + 2 * TENTH_NS, START_NS + 3 * TENTH_NS)
    assert (row["earliest_ns"], row["latest_ns"]) == (row["time_ns"], row["complete_ns"])
    assert (row["trigger_line"], row["command_line"], row["complete_line"]) == (2, 3, 4)
    source = (row["source_rat"], row["source_physical_cell_id"], row["source_channel"], row["source_cell_id"])
    target = (row["target_rat"], row["target_physical_cell_id"], row["target_channel"], row["target_cell_id"])
    assert source == ("LTE", 141, 1350, 5_139_763)
    assert target == ("LTE", 305, 1350, 126_457_789)


def test_a_reply_to_another_command_completes_nothing(tmp_path: Path) -> None:
    (row,) = handovers(tmp_path, version_2("handover to 305"), version_2("complete 2"))
    assert (row["result"], row["complete_ns"], row["latest_ns"]) == ("unknown", None, None)
    late = [START_NS, START_NS + 13 * 10**9]
    (row,) = handovers(tmp_path, version_2("handover to 305"), version_2("complete 1"), times_ns=late)
    assert row["result"] == "unknown"


def test_a_handover_that_fails_ends_in_a_re_establishment(tmp_path: Path) -> None:
    first, second = handovers(
        tmp_path,
        serving(1350, 305, 9),
        version_2("handover to 17 on 1575"),
        version_2("re-establishment request"),
        version_2("re-establishment complete"),
    )
    assert (first["kind"], first["result"], first["target_channel"]) == ("handover", "re-established", 1575)
    assert (second["kind"], second["result"]) == ("re-establishment", "complete")
    assert (second["source_physical_cell_id"], second["cause"]) == (305, "handoverFailure")


@pytest.mark.parametrize("end", ["re-establishment reject", "request"])
def test_a_re_establishment_that_is_refused_has_failed(end: str, tmp_path: Path) -> None:
    (row,) = handovers(tmp_path, version_2("re-establishment request"), version_2(end))
    assert (row["kind"], row["result"], row["complete_line"]) == ("re-establishment", "failed", 2)


def test_a_leg_of_nr_is_added_changed_and_released(tmp_path: Path) -> None:
    steps = ["leg to 283", "complete 1", "leg to 432", "complete 2", "leg released", "complete 3"]
    rows = handovers(tmp_path, *map(version_2, steps))
    assert [(row["kind"], row["result"]) for row in rows] == [
        ("secondary added", "complete"),
        ("secondary changed", "complete"),
        ("secondary released", "complete"),
    ]
    cells = [(row["source_physical_cell_id"], row["target_physical_cell_id"]) for row in rows]
    assert cells == [(None, 283), (283, 432), (432, None)]
    assert rows[0]["target_channel"] == 504_990


def test_a_leg_that_was_never_seen_is_not_released_and_the_end_of_the_connection_ends_one(tmp_path: Path) -> None:
    assert handovers(tmp_path, version_2("leg released"), version_2("complete 3")) == []
    rows = handovers(tmp_path, *map(version_2, ("leg to 283", "complete 1", "release")))
    assert [(row["kind"], row["cause"]) for row in rows][1:] == [("secondary released", "release of the connection")]


def test_a_handover_of_nr_is_one(tmp_path: Path) -> None:
    (row,) = handovers(tmp_path, nr("handover to 7"), nr("complete", cell=7))
    assert (row["kind"], row["result"], row["target_rat"]) == ("handover", "complete", "NR")
    assert (row["source_physical_cell_id"], row["target_physical_cell_id"]) == (3, 7)


def test_a_release_may_redirect_and_says_to_what(tmp_path: Path) -> None:
    (row,) = handovers(tmp_path, version_2("release to UMTS"))
    assert (row["kind"], row["result"], row["cause"]) == ("redirection", "unknown", "other")
    assert (row["target_rat"], row["target_channel"]) == ("UMTS", 10564)


def test_a_phone_that_chooses_another_cell_is_a_reselection(tmp_path: Path) -> None:
    cells = [serving(1350, 305, 7), serving(1350, 305, 7), serving(40936, 212, 8)]
    (row,) = handovers(tmp_path, *cells)
    assert (row["kind"], row["evidence"], row["command_line"], row["complete_line"]) == (
        "reselection",
        "cell id",
        None,
        3,
    )
    assert (row["source_cell_id"], row["target_cell_id"]) == (7, 8)


def test_radios_of_one_phone_are_followed_apart(tmp_path: Path) -> None:
    path = tmp_path / "two.pcap"
    steps = [
        (0, version_2("handover to 305")),
        (1, version_2("complete 1")),
        (1, version_2("handover to 17 on 1575")),
        (0, version_2("complete 1")),
    ]
    records = [pcap_record(packet(d, modem=m), time_ns=START_NS + n * TENTH_NS) for n, (m, d) in enumerate(steps)]
    path.write_bytes(pcap_header() + b"".join(records))
    rows = list(read_signalling(path)["handovers"].rows())
    assert [(row["modem"], row["result"], row["complete_line"]) for row in rows] == [
        (0, "complete", 4),
        (1, "unknown", None),
    ]


@pytest.mark.fixtures
@needs_programs
def test_every_command_that_tshark_finds_is_a_row(tmp_path: Path) -> None:
    (path,) = (FIXTURES / "mobileinsight").rglob("20201116_124000*.mi2log")
    made = tmp_path / "scat.pcap"
    scat = [program("scat"), "-t", "qc", "-L", "nas,rrc", "-d", str(path), "-F", str(made)]
    subprocess.run(scat, check=True, capture_output=True)

    def frames(field: str) -> int:
        tshark = ["tshark", "-n", "-r", str(made), "-Y", field, "-T", "fields", "-e", "frame.number"]
        return len(subprocess.run(tshark, check=True, capture_output=True).stdout.splitlines())

    with path.open("rb") as stream:
        rows = list(diag.parse(stream, path=str(path))["handovers"].rows())
    kinds = Counter(row["kind"] for row in rows)
    assert kinds["handover"] == frames("lte-rrc.mobilityControlInfo_element") > 0
    legs = kinds["secondary added"] + kinds["secondary changed"]
    assert legs == frames("nr-rrc.reconfigurationWithSync_element") > 0
    assert {row["result"] for row in rows if row["kind"] == "handover"} == {"complete"}
