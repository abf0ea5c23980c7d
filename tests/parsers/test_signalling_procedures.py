"""From octets of RRC and NAS to procedures and states: what phone and network asked, how it ended, and what held."""

from __future__ import annotations

import io
import shutil
import subprocess
from collections import Counter
from decimal import Decimal
from typing import TYPE_CHECKING

import pytest

import parsers
from multitracer.analysis.signalling.procedures import procedures_of
from multitracer.analysis.signalling.states import states_of
from multitracer.protocols.pcap_file import pcap_header, pcap_record
from parsers._signalling import dissection as programs
from parsers._signalling.signalling import read_signalling
from tests.conftest import FIXTURES
from tests.parsers.signalling_messages import START_NS, capture, nas, nr, packet, version_2
from tests.parsers.test_diag import needs_programs
from tests.parsers.test_signalling import RECORDINGS

if TYPE_CHECKING:
    from pathlib import Path

    from multitracer.tables import Row, Table


pytestmark = pytest.mark.skipif(not shutil.which("tshark"), reason="needs tshark")
TENTH_NS = 10**8
SCRIPT = (
    nas("attach request"), version_2("request"), version_2("set-up"), version_2("set-up complete with attach request"),
    nas("attach accept"), nas("attach complete"), nas("connectivity request 7"), nas("connectivity request 8"),
    nas("connectivity reject 7"), nas("default bearer 8"), nas("default bearer accepted"),
    version_2("cells 1 and 2 added"), version_2("complete 1"), version_2("cell 1 released"), version_2("complete 2"),
    version_2("leg to 283"), version_2("complete 1"), version_2("leg released"), version_2("complete 3"),
    nas("update request"), nas("update reject 9"), version_2("release"), nas("bearer 6 gone"),
    nas("attach request"), nas("attach reject 15"), version_2("request"), version_2("reject"),
)  # fmt: skip
"""27 packets of one phone, a tenth of a second apart."""
OF_NR = (
    nr("request"), nr("set-up"), nr("set-up complete"), nas("registration request"), nas("registration accept"),
    nas("session request 5"), nas("session reject 5"), nr("release to inactive"), nr("resume request"), nr("resume"),
    nr("resume complete"), nr("release"), nas("registration request"), nas("registration reject 11"),
)  # fmt: skip


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Table]:
    """Return the tables of a capture of two phones' cards whose packets alternate: LTE on card 0, NR on card 1."""
    path = tmp_path_factory.mktemp("cards") / "two.pcap"
    both = [(0, i, each) for i, each in enumerate(SCRIPT)] + [(1, i, each) for i, each in enumerate(OF_NR)]
    both.sort(key=lambda entry: (entry[1], entry[0]))
    data = [pcap_record(packet(each, modem=card), time_ns=START_NS + i * TENTH_NS) for card, i, each in both]
    path.write_bytes(pcap_header() + b"".join(data))
    return read_signalling(path)


def of_card(table: Table, card: int) -> list[Row]:
    return [row for row in table.rows() if row["card"] == card]


def test_causes_transactions_and_elements_are_columns(tables: dict[str, Table]) -> None:
    rows = list(tables["signalling"].rows())
    by_name = {row["message"]: row for row in rows}
    reject = by_name["PDN connectivity reject"]
    assert (reject["cause"], reject["cause_number"], reject["transaction"]) == ("Request rejected, unspecified", 31, 7)
    assert by_name["Attach reject"]["cause_number"] == 15
    assert by_name["RRCRelease"]["elements"] == ""
    assert {row["elements"] for row in rows if row["message"] == "RRCRelease"} == {"suspendConfig", ""}
    assert [row["elements"] for row in rows if "sCell" in row["elements"]] == ["sCell+1 sCell+2", "sCell-1"]
    assert by_name["PDU session establishment reject"]["bearer"] == 1
    accept, bearer = (by_name[name] for name in ("Attach accept", "Activate default EPS bearer context accept"))
    assert accept["cause"] == ""  # that of the session message inside it is not its own
    assert bearer["bearer"] == 6


def test_procedures_have_their_result_cause_and_frames(tables: dict[str, Table]) -> None:
    rows = of_card(procedures_of(tables), 0)
    made = [(row["kind"], row["result"], row["cause_number"], row["duration_ns"]) for row in rows]
    assert made == [
        ("PDN connection", "complete", 50, 4 * TENTH_NS),
        ("attach", "complete", None, 5 * TENTH_NS),
        ("RRC set-up", "complete", None, 2 * TENTH_NS),
        ("PDN connection", "rejected", 31, 2 * TENTH_NS),
        ("PDN connection", "complete", None, 2 * TENTH_NS),
        ("secondary added", "complete", None, TENTH_NS),
        ("secondary released", "complete", None, TENTH_NS),
        ("tracking area update", "rejected", 9, TENTH_NS),
        ("release", "complete", None, None),
        ("attach", "rejected", 15, TENTH_NS),
        ("PDN connection", "rejected", 15, TENTH_NS),
        ("RRC set-up", "rejected", None, TENTH_NS),
    ]
    assert rows[2]["purpose"] == "mo-Data"
    assert {row["error_ns"] for row in rows} == {1000}
    numbers = [int(frame) for frame in rows[0]["frames"].split()]
    assert (numbers[0], numbers[-1]) == (rows[0]["begin_frame"], rows[0]["end_frame"])


def test_procedures_of_nr_resume_and_reject(tables: dict[str, Table]) -> None:
    rows = of_card(procedures_of(tables), 1)
    assert [(row["kind"], row["result"], row["cause"], row["purpose"]) for row in rows] == [
        ("RRC set-up", "complete", "", "mo-Data"),
        ("service request", "failed", "", ""),
        ("registration", "complete", "", ""),
        ("PDU session", "rejected", "Insufficient resources", ""),
        ("release", "complete", "", "suspend"),
        ("resume", "complete", "", "mo-Data"),
        ("release", "complete", "", ""),
        ("registration", "rejected", "PLMN not allowed", ""),
    ]
    assert rows[1]["reason"] == "the connection was released"


def test_states_begin_with_the_message_that_proves_them(tables: dict[str, Table]) -> None:
    states = states_of(tables)

    def of(machine: str, card: int = 0) -> list[tuple[str, int | None, float]]:
        rows = [row for row in of_card(states, card) if row["machine"] == machine]
        return [(row["state"], row["number"], (row["begin_ns"] - START_NS) / TENTH_NS) for row in rows]

    assert of("RRC") == [("idle", None, 1), ("connected", None, 2), ("idle", None, 21)]
    assert of("EMM") == [
        ("registered-initiated", None, 0), ("registered", None, 4), ("tracking-area-updating-initiated", None, 19),
        ("deregistered", None, 20), ("registered-initiated", None, 23), ("deregistered", None, 24),
    ]  # fmt: skip
    assert of("session") == [("active", 1, 5), ("active", 2, 10), ("active", 1, 22), ("none", 0, 23)]
    assert of("CA") == [("none", 0, 1), ("active", 2, 12), ("active", 1, 14), ("none", 0, 21)]
    assert of("DC") == [
        ("none", None, 1), ("LTE only", None, 2), ("EN-DC", None, 16), ("LTE only", None, 18), ("none", None, 21)
    ]  # fmt: skip
    assert of("RRC", 1) == [
        ("idle", None, 0), ("connected", None, 1), ("inactive", None, 7), ("connected", None, 9), ("idle", None, 11)
    ]  # fmt: skip
    assert of("DC", 1)[1] == ("NR", None, 1)
    assert of("5GMM", 1)[-1] == ("deregistered", None, 13)
    assert {row["message"] for row in states.rows() if row["state"] == "inactive"} == {"RRCRelease"}


# --- recordings of others ---


def test_a_detach_from_circuits_alone_changes_neither_registration_nor_sessions(tmp_path: Path) -> None:
    said = ("attach request", "attach accept", "attach complete", "connectivity request 7", "IMSI detach")
    path = tmp_path / "detach.pcap"
    path.write_bytes(capture(*map(nas, said), nas("detach accept"), nas("connectivity reject 7")))
    tables = read_signalling(path)
    assert [row["elements"] for row in tables["signalling"].rows() if row["elements"]] == ["imsiDetach"]
    rows = states_of(tables).rows()
    assert [row["state"] for row in rows if row["machine"] == "EMM"] == ["registered-initiated", "registered"]
    (session,) = (row for row in states_of(tables).rows() if row["machine"] == "session" and row["state"] == "active")
    assert session["end_frame"] is None
    assert [row["result"] for row in procedures_of(tables).rows() if row["kind"] == "PDN connection"][-1] == "rejected"


def test_causes_that_tshark_does_not_know_have_the_text_of_the_standard(tmp_path: Path) -> None:
    path = tmp_path / "reject.pcap"
    path.write_bytes(capture(nas("registration request"), nas("registration reject 73")))
    (row,) = procedures_of(read_signalling(path)).rows()
    assert (row["result"], row["cause_number"]) == ("rejected", 73)
    assert row["cause"] == "Serving network not authorized"


@pytest.mark.fixtures
@needs_programs
def test_procedures_and_states_of_a_phone_with_two_cards() -> None:
    (path,) = (FIXTURES / "mobileinsight").rglob("20201116_124000*.mi2log")
    with path.open("rb") as stream:
        tables = parsers.recognise(stream.read(4096), path="x").parse(io.BytesIO(path.read_bytes()), path="x")
    assert isinstance(tables, dict)
    rows = list(procedures_of(tables).rows())
    assert Counter((row["card"], row["kind"]) for row in rows if row["result"] == "complete") == {
        (1, "RRC set-up"): 12, (1, "release"): 12, (1, "tracking area update"): 12, (0, "RRC set-up"): 2,
        (0, "handover"): 7, (0, "paging to set-up"): 1, (0, "release"): 2, (0, "report to command"): 22,
        (0, "secondary added"): 4, (0, "secondary changed"): 12, (0, "secondary released"): 3,
        (0, "service request"): 2, (0, "tracking area update"): 6,
    }  # fmt: skip
    times: dict[int, int] = {}
    for row in tables["signalling"].rows():
        times.setdefault(row["frame"], row["time_ns"])
    for row in rows:
        for end in ("begin", "end"):
            if row[f"{end}_frame"] is not None:
                assert row[f"{end}_ns"] == times[row[f"{end}_frame"]]
    seconds = Counter[str]()
    for row in states_of(tables).rows():
        if (row["card"], row["machine"]) == (0, "DC"):
            seconds[row["state"]] += (row["end_ns"] - row["begin_ns"]) // 10**9
    assert seconds["EN-DC"] > 10 * seconds["LTE only"] > 0


@pytest.mark.fixtures
@needs_programs
@pytest.mark.parametrize("path", RECORDINGS, ids=lambda path: path.stem)
def test_begins_ends_and_durations_are_tsharks_frame_times(path: Path, tmp_path: Path) -> None:
    """Each time of a procedure is the frame's in the capture that SCAT writes, to its microsecond."""
    capture_path = path
    if path.suffix != ".pcap":
        capture_path = tmp_path / "scat.pcap"
        command = [
            programs.program("scat"),
            "-t",
            "qc",
            "-L",
            "nas,rrc",
            "-C",
            "-d",
            str(path),
            "-F",
            str(capture_path),
        ]
        subprocess.run(command, check=True, capture_output=True)
    fields = ["-T", "fields", "-e", "frame.time_epoch"]
    words = subprocess.run(
        ["tshark", "-n", "-r", str(capture_path), *fields], check=True, capture_output=True, text=True
    ).stdout
    frame_ns = [round(Decimal(word) * 10**9) for word in words.split()]
    with path.open("rb") as stream:
        parsed = (
            read_signalling(path)
            if path.suffix == ".pcap"
            else parsers.recognise(stream.read(4096), path="x").parse(io.BytesIO(path.read_bytes()), path="x")
        )
    assert isinstance(parsed, dict)
    compared, rows = 0, list(procedures_of(parsed).rows())
    for row in rows:
        both = [frame_ns[row[f"{end}_frame"] - 1] if row[f"{end}_frame"] else None for end in ("begin", "end")]
        for end, theirs in zip(("begin", "end"), both, strict=True):
            if theirs is not None and row[f"{end}_ns"] is not None:
                compared += 1
                is_moved = end == "end" and both[0] is not None and theirs < both[0]  # the log contradicts its order
                assert is_moved or abs(row[f"{end}_ns"] - theirs) < 1_000
        begin, end_ = both
        if row["duration_ns"] is not None and begin is not None and end_ is not None:
            assert abs(row["duration_ns"] - (end_ - begin)) < 2_000
    assert compared >= len(rows)
