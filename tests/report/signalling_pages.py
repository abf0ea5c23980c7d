"""Reports of messages between phone and network: real packets of two cards, and tables of any size and content."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from multitracer.logs import HostLog, ParsedLog
from multitracer.protocols.pcap_file import pcap_header, pcap_record
from multitracer.recording.inputs import Inputs
from multitracer.recording.recording import Recording
from multitracer.report.write import Request, write_report
from multitracer.schemas.signalling import HANDOVERS, SIGNALLING
from multitracer.tables import NA, Table
from tests.parsers.signalling_messages import START_NS, nas, nr, packet, serving, version_2

if TYPE_CHECKING:
    from pathlib import Path

    from tests.report.chromium import Browser

CARD_0 = (
    "request", "set-up", "set-up complete with service request", "complete 1", "report", "handover to 305",
    "complete 1", "release",
)  # fmt: skip
CARD_1 = ("request", "set-up", "set-up complete", "release")


def two_cards(path: Path) -> Path:
    """Write a capture of both cards: LTE, whose update of the tracking area is rejected, and NR."""
    first = [*map(version_2, CARD_0), nas("update request"), nas("update reject 9")]
    second = [*map(nr, CARD_1), nas("registration request"), nas("registration reject 11")]
    records = [(START_NS + n * 100_000_000, packet(each)) for n, each in enumerate(first)]
    records += [(START_NS + 50_000_000 + n * 100_000_000, packet(each, modem=1)) for n, each in enumerate(second)]
    records.sort(key=lambda each: each[0])
    path.write_bytes(pcap_header() + b"".join(pcap_record(data, time_ns=at) for at, data in records))
    return path


_NAMES = (
    ("LTE", "rrc", "down", "DL-DCCH", "RRCConnectionReconfiguration", "", NA),
    ("LTE", "rrc", "up", "UL-DCCH", "RRCConnectionReconfigurationComplete", "", NA),
    ("LTE", "rrc", "up", "UL-DCCH", "MeasurementReport", "", NA),
    ("LTE", "rrc", "down", "PCCH", "Paging", "", NA),
    ("LTE", "rrc", "up", "UL-CCCH", "RRCConnectionRequest", "mo-Data", NA),
    ("LTE", "rrc", "down", "DL-CCCH", "RRCConnectionSetup", "", NA),
    ("LTE", "rrc", "up", "UL-DCCH", "RRCConnectionSetupComplete", "", NA),
    ("LTE", "nas", "", "", "Service request", "", NA),
    ("LTE", "rrc", "down", "DL-DCCH", "RRCConnectionRelease", "other", NA),
    ("LTE", "nas", "", "", "Tracking area update request", "", NA),
    ("LTE", "nas", "", "", "Tracking area update reject", "No suitable cells in tracking area", 15),
)


def messages(rows: int, *, names: tuple[tuple[object, ...], ...] = _NAMES, step_ns: int = 40_000_000) -> Table:
    """Return SIGNALLING with messages of these kinds one after the other, in cells that change now and then."""
    kinds = np.arange(rows) % len(names)
    columns = {column.name: np.full(rows, NA) for column in SIGNALLING if not column.dtype.startswith("U")}
    columns |= {column.name: np.full(rows, "", column.dtype) for column in SIGNALLING if column.dtype.startswith("U")}
    shown = ("rat", "layer", "direction", "logical_channel", "message", "cause", "cause_number")
    for place, name in enumerate(shown):
        dtype = next(column.dtype for column in SIGNALLING if column.name == name)
        columns[name] = np.array([each[place] for each in names], dtype=dtype)[kinds]
    jitter = np.random.default_rng(50).integers(0, step_ns // 2, rows)
    columns["time_ns"] = START_NS + np.arange(rows, dtype=np.int64) * step_ns + jitter
    columns["frame"] = np.arange(1, rows + 1)
    columns["clock"] = np.zeros(rows, np.int64)
    is_radio = columns["layer"] == "rrc"
    columns["physical_cell_id"] = np.where(is_radio, (np.arange(rows) // 400) % 180, NA)
    columns["channel"] = np.where(is_radio, 1350, NA)
    return Table(SIGNALLING, {column.name: columns[column.name].astype(column.dtype) for column in SIGNALLING})


def page_of(table: Table, path: Path, **request: object) -> Path:
    """Write the report of a log with these messages; the log itself is not there, so its trees are not."""
    log = HostLog("phone", str(path.with_suffix(".mi2log")), "diag", "radio")
    tables = {"signalling": table, "handovers": Table.empty(HANDOVERS)}
    recording = Recording(Inputs("drive", []), _logs={"radio": [ParsedLog(log, tables)]})
    write_report(recording, path, Request(**request))  # type: ignore[arg-type]
    return path


def opened(browser: Browser, page: Path) -> Browser:
    """Open a report and its viewer of messages."""
    browser.open("about:blank")
    browser.open(page)
    browser.wait("window.signalling")
    browser.evaluate("document.querySelectorAll('details.fold').forEach((each) => (each.open = true))")
    browser.evaluate("window.signalling.then((shown) => ((window.viewer = shown), true))")
    return browser


_CONNECTION = ("request", "set-up", "set-up complete with service request", "complete 1", "report")
_DATA = ("report", "handover to 305", "complete 1", "report", "handover to 17 on 1575", "complete 2", "report")


def drive(path: Path) -> Path:
    """Write a capture of 100 s: connections, handovers, a leg of NR, and a tracking area that is refused."""
    steps: list[tuple[int, bytes]] = []

    def add(at_ms: int, *datagrams: bytes, apart_ms: int = 35) -> None:
        steps.extend((at_ms + n * apart_ms, each) for n, each in enumerate(datagrams))

    add(
        0,
        serving(1350, 18, 0x1A2B3C),
        *map(version_2, ("request", "set-up")),
        version_2("set-up complete with attach request"),
    )
    add(180, nas("attach request"), nas("attach accept"), nas("attach complete"), apart_ms=90)
    add(600, *map(version_2, _DATA), apart_ms=1_400)
    add(
        11_000,
        version_2("leg to 283"),
        version_2("complete 1"),
        version_2("report"),
        version_2("leg to 432"),
        version_2("complete 2"),
        apart_ms=2_500,
    )
    add(26_000, version_2("leg released"), version_2("complete 3"), version_2("release"), apart_ms=60)
    for start in (38_000, 52_000):
        add(start, nas("update request"), *map(version_2, _CONNECTION), apart_ms=110)
        add(start + 900, nas("update accept"))
        add(start + 1_500, *map(version_2, _DATA), apart_ms=1_100)
        add(start + 10_500, version_2("release"))
    add(70_000, serving(1350, 305, 0x1A2B40), version_2("request"), version_2("reject"), apart_ms=60)
    add(
        74_000,
        version_2("request"),
        version_2("set-up"),
        version_2("set-up complete with service request"),
        apart_ms=300,
    )
    add(75_000, nas("update request"), nas("update reject 9"), apart_ms=420)
    add(76_000, *map(version_2, ("re-establishment request", "re-establishment reject")), apart_ms=80)
    add(82_000, *map(version_2, _CONNECTION), apart_ms=45)
    add(82_400, nas("attach request"), nas("attach accept"), nas("attach complete"), apart_ms=120)
    add(84_000, *map(version_2, _DATA), apart_ms=1_500)
    add(99_000, version_2("release"))
    records = sorted(steps, key=lambda each: each[0])
    path.write_bytes(
        pcap_header()
        + b"".join(pcap_record(packet(data), time_ns=START_NS + at_ms * 1_000_000) for at_ms, data in records)
    )
    return path
