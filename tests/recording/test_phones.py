"""The phones of a recording: legs beside the serving cell, and cards that are kept apart."""

from __future__ import annotations

import json
import shutil
from typing import TYPE_CHECKING

import numpy as np
import pytest

import multitracer as mt
from multitracer.recording.phones import Phone
from multitracer.recording.read import read
from multitracer.recording.transfer import Transfer
from multitracer.report.write import write_report
from multitracer.schemas.mobility import JUDGED_HANDOVERS
from multitracer.schemas.radio import RADIO
from multitracer.schemas.signalling import HANDOVERS, HandoverKind
from multitracer.tables import NA
from tests.cli.program import call
from tests.conftest import SAMPLES
from tests.parsers.frames import ethernet, ipv4, pcap_file, tcp
from tests.report.test_route_map import START_NS, table

if TYPE_CHECKING:
    from pathlib import Path

S = 1_000_000_000


def phone() -> Phone:
    """Return a phone that changed its cell, and 10 s before that got a leg of NR."""
    orders = table(
        HANDOVERS,
        time_ns=START_NS + np.array([20, 10]) * S,
        complete_ns=START_NS + np.array([20, 10]) * S + 10_000_000,
        kind=np.array([HandoverKind.HANDOVER.value, HandoverKind.SECONDARY_ADDED.value], dtype="U20"),
        source_cell_id=np.array([1, NA]),
        target_cell_id=np.array([2, NA]),
        source_rat=np.array(["LTE", ""]),
        target_rat=np.array(["LTE", "NR"]),
        result=np.array(["complete", "complete"]),
        evidence=np.array(["signalling", "signalling"]),
    )
    radio = table(RADIO, time_ns=START_NS + np.arange(40) * S, role=np.full(40, "serving"))
    return Phone("phone", radio, orders, ("log",))


def test_a_leg_is_a_change_but_no_handover() -> None:
    both = phone()
    assert both.handovers["kind"].tolist() == ["handover"]
    changes = both.changes
    assert changes.schema == JUDGED_HANDOVERS
    assert changes["kind"].tolist() == ["secondary added", "handover"]
    leg = next(changes.rows())
    assert (leg["ping_pong"], leg["verdict"]) == (None, "")
    assert leg["verdict_reason"] == "no change of the serving cell"


def test_a_report_says_that_there_is_another_card(tmp_path: Path) -> None:
    """Two cards of one phone camp on cells of their own, which is no change of the cell."""
    lines = ["time_ns,source,role,rat,rsrp_dbm,cell_id,modem"]
    lines += [f"{START_NS + i * S},scat,serving,LTE,-90,{7 + i % 2},{i % 2}" for i in range(60)]
    (tmp_path / "radio.csv").write_text("\n".join(lines) + "\n")
    recording = read(tmp_path / "radio.csv")
    phones = recording.radio_context().phones
    assert [len(each.handovers) for each in phones] == [0, 0]
    write_report(recording, tmp_path / "report.html")
    html = (tmp_path / "report.html").read_text()
    assert "has 1 other radio, too" in html
    assert "What is shown is of card 0 of the phone; the logs hold 1 other radio, too" in html
    assert "1 serving cell" in html


@pytest.fixture
def two_cars(tmp_path: Path) -> Path:
    """Two phones in two cars, each in a folder of its own; the second one has fewer readings, and more positions."""
    for host, rsrp_dbm, cell, lat_deg, readings, positions in (
        ("a", -90, 7, 52.5, 120, 60),
        ("b", -120, 9, 48.1, 100, 100),
    ):
        folder = tmp_path / "evening" / host
        folder.mkdir(parents=True)
        radio = [f"{START_NS + i * S},x,serving,LTE,{rsrp_dbm},{cell}" for i in range(readings)]
        places = [f"{START_NS + i * S},{lat_deg + i * 1e-4:.5f},13.4" for i in range(positions)]
        (folder / "radio.csv").write_text("\n".join(["time_ns,source,role,rat,rsrp_dbm,cell_id", *radio]) + "\n")
        (folder / "position.csv").write_text("\n".join(["time_ns,lat_deg,lon_deg", *places]) + "\n")
    return tmp_path / "evening"


@pytest.mark.parametrize(("phone", "cell", "lat_deg"), [(None, 7, 52.5), ("a", 7, 52.5), ("b", 9, 48.1)])
def test_radio_and_route_are_of_one_phone(two_cars: Path, phone: str | None, cell: int, lat_deg: float) -> None:
    context = read(two_cars, phone=phone).radio_context()
    assert context.phones[0].radio["cell_id"].tolist() == [cell] * len(context.phones[0].radio)
    assert context.route is not None
    assert context.route.table["lat_deg"][0] == pytest.approx(lat_deg)
    assert len(context.phones) == (2 if phone is None else 1)


def test_the_chosen_phone_is_that_of_all_commands(two_cars: Path, tmp_path: Path) -> None:
    document = json.loads(call("diagnose", "--json", "--phone", "b", two_cars).stdout)
    assert (document["phone"]["host"], document["phones"], document["stretches"][0]["cause"]) == (
        "b",
        ["b"],
        "coverage",
    )
    assert "--phone NAME" in call("diagnose", two_cars).stdout
    page = tmp_path / "report.html"
    call("report", "--phone", "b", "-o", page, two_cars)
    assert "<title>evening" in page.read_text()
    assert "LTE cell 9" in page.read_text()
    assert "LTE cell 7" not in page.read_text()
    call("export", "tables", "--format", "csv", "--phone", "b", "-o", tmp_path / "tables", two_cars)
    assert {
        line.split(",")[0].strip('"') for line in (tmp_path / "tables" / "cells.csv").read_text().splitlines()[1:]
    } == {"b"}
    assert mt.open(two_cars, phone="b").cells["cell_id"].tolist() == [9]
    refused = call("diagnose", "--phone", "c", two_cars, status=1).stderr
    assert "no radio log is of a phone 'c'; the phones are a, b" in refused


COMMANDS = (
    ("analyze",), ("analyze", "--json"), ("analyze", "--stream"), ("diagnose",), ("diagnose", "--json"), ("inspect",),
    ("report", "-o", "{out}.html"), ("align",), ("correlate",), ("export", "tables", "-o", "{out}"),
    ("plot", "-o", "{out}.html"), ("export", "route", "-o", "{out}.geojson"), ("export", "segments"),
    ("export", "series", "-o", "{out}"), ("export", "perfetto", "-o", "{out}.json"),
)  # fmt: skip


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_a_phone_that_is_not_there_is_one_error_of_every_command(
    two_cars: Path, tmp_path: Path, command: tuple[str, ...]
) -> None:
    """Also of those that show no radio, with a capture and without."""
    (two_cars / "a" / "tcp-0.pcap").write_bytes(pcap_file([ethernet(ipv4(tcp()))] * 3))
    words = [word.replace("{out}", str(tmp_path / "out")) for word in command]
    refused = call(*words, "--phone", "c", two_cars, status=1).stderr
    assert " ".join(refused.split()).count("no radio log is of a phone 'c'; the phones are a, b") == 1
    assert not list(tmp_path.glob("out*"))


def test_a_phone_of_a_recording_without_any_is_one_error(tmp_path: Path) -> None:
    (tmp_path / "tcp-0.pcap").write_bytes(pcap_file([ethernet(ipv4(tcp()))] * 3))
    refused = call("analyze", "--phone", "c", tmp_path / "tcp-0.pcap", status=1).stderr
    assert "there is no phone in it, so leave --phone out" in " ".join(refused.split())


def test_two_phones_of_one_host_are_chosen_by_their_logs(tmp_path: Path) -> None:
    for name, cell in (("first", 7), ("second", 9)):
        rows = [f"{START_NS + i * S},x,serving,LTE,{-80 - cell},{cell}" for i in range(30)]
        (tmp_path / f"{name}.csv").write_text("\n".join(["time_ns,source,role,rat,rsrp_dbm,cell_id", *rows]) + "\n")
    for name in ("second.csv", "second"):
        (phone,) = read(tmp_path, phone=name).radio_context().phones
        assert set(phone.radio["cell_id"].tolist()) == {9}


def test_title_is_the_name_of_the_folder_as_it_is_now(two_cars: Path, tmp_path: Path) -> None:
    (two_cars / "manifest.json").write_text('{"schema": "multitracer.session/1", "name": "noon", "hosts": {}}')
    call("report", "-o", tmp_path / "report.html", two_cars)
    assert "<title>evening" in (tmp_path / "report.html").read_text()


@pytest.mark.parametrize(("phone", "hosts"), [(None, {"mobile"}), ("other", {"other"}), ("mobile", {"mobile"})])
def test_radio_of_another_car_explains_no_transfer(phone: str | None, hosts: set[str], tmp_path: Path) -> None:
    """Its changes of the cell are no findings, unless the user says that it carried the transfer."""
    others = shutil.ignore_patterns("rlp*", "tcp_*", "nstat*", "clocks*")
    shutil.copytree(SAMPLES / "second-connection", tmp_path, dirs_exist_ok=True, ignore=others)
    first_ns = read(tmp_path).captures[0].tables.first_ns
    assert first_ns is not None
    for host, rsrp_dbm in (("mobile", -90), ("other", -120)):
        rows = [f"{first_ns + i * S},x,serving,LTE,{rsrp_dbm},{i // 5}" for i in range(10)]
        text = "\n".join(["time_ns,source,role,rat,rsrp_dbm,cell_id", *rows]) + "\n"
        (tmp_path / host).mkdir(exist_ok=True)
        (tmp_path / host / "radio.csv").write_text(text)
    transfer = Transfer.of(read(tmp_path, phone=phone))
    assert {host for host, _ in transfer.radio} == hosts
