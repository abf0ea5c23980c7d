"""What might explain paper 000's Bluetooth: Nagle's algorithm, and a queue that is too short.

`python -m docs.papers.programs.experiment_bluetooth` runs the transactions over Bluetooth, in virtual time
and with Linux 2.2's TCP, with and without Nagle's algorithm, and those of CentaurusComm with several lengths
of the queue before the link; it writes data/experiments/bluetooth-steps.csv.
"""

from __future__ import annotations

import csv
import tempfile
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import fmean, median
from typing import TYPE_CHECKING, NamedTuple

from docs.papers.programs.experiment_sweep import DATA, SEED
from multitracer.lab.channel.bluetooth_piconet import BluetoothConfig
from multitracer.lab.rig.virtual import run_virtual
from multitracer.lab.scenario.library import load_scenario
from multitracer.lab.scenario.model import ProgramSetting
from multitracer.lab.tcp.profile import PROFILES
from multitracer.measure.plan import Experiment, MeasurementPlan

if TYPE_CHECKING:
    from multitracer.lab.scenario.model import Scenario
    from multitracer.measure.plan import ProtocolName

FILE = DATA / "bluetooth-steps.csv"
SIZES = (64, 128, 256, 512, 1024, 2048, 4096, 8192)
SESSIONS = 50
"""Of each size: enough for a median where nothing is lost."""
_WATCHDOG_S = 9.5
"""Nearly the 10 s after which CentaurusComm gives a silent session up."""
MTUS = (576, 1500)
"""That of the bundled link, and PPP's by default."""
QUEUES = (8, 12, 13, 14, 15, 16, 50)
"""In packets, below the 17 that CentaurusComm sends at once for 8192 bytes; 50 is the bundled link's."""


@dataclass(frozen=True, slots=True)
class Transport:
    """One way to do the transactions."""

    protocol: str
    mtu_bytes: int
    nagle: bool
    queue_packets: int

    @property
    def scenario(self) -> Scenario:
        """The link, and TCP of both ends."""
        found = load_scenario("bluetooth")
        assert isinstance(found.link, BluetoothConfig)
        tcp = replace(PROFILES["linux22"], mtu_bytes=self.mtu_bytes)
        queue = replace(found.link.queue, limit_packets=self.queue_packets)
        program = ProgramSetting(nodelay=not self.nagle)
        return replace(found, mobile=tcp, fixed=tcp, link=replace(found.link, queue=queue), program=program)


class Row(NamedTuple):
    """A line of the file: what became of the transactions of one size."""

    protocol: str
    mtu_bytes: int
    nagle: bool
    queue_packets: int
    size_bytes: int
    begun: int
    ended: int
    median_s: float
    mean_s: float
    waited: int
    """How many took 9.5 s or more: a watchdog ran out."""


TRANSPORTS = (
    *(Transport("tcp", mtu, nagle, 50) for mtu in MTUS for nagle in (False, True)),
    *(Transport("centauruscomm", 576, False, queue) for queue in QUEUES),
)


def measured(transport: Transport) -> list[Row]:
    """Run an arm; return a row for each size."""
    protocol: ProtocolName = "tcp" if transport.protocol == "tcp" else "centauruscomm"
    plan = MeasurementPlan(protocol, "", (Experiment("reply", SIZES, SESSIONS),), over="bluetooth")
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place) / "run"
        run_virtual(plan, folder, transport.scenario, seed=SEED, progress=lambda *_: None)
        with (folder / "transactions.csv").open(encoding="utf-8", newline="") as stream:
            lines = list(csv.DictReader(stream))
    return [_row(transport, size, [each for each in lines if each["size_bytes"] == str(size)]) for size in SIZES]


def _row(transport: Transport, size: int, lines: list[dict[str, str]]) -> Row:
    rtts = [float(each["rtt_s"]) for each in lines if each["outcome"] == "ok"]
    waited = sum(each > _WATCHDOG_S for each in rtts)
    about = (
        transport.protocol,
        transport.mtu_bytes,
        transport.nagle,
        transport.queue_packets,
        size,
        len(lines),
        len(rtts),
    )
    return Row(*about, round(median(rtts), 4), round(fmean(rtts), 4), waited)


def make() -> None:
    """Write the file."""
    with FILE.open("w", encoding="utf-8", newline="") as stream:
        writer = csv.writer(stream, lineterminator="\n")
        writer.writerow(Row._fields)
        for transport in TRANSPORTS:
            writer.writerows(measured(transport))


def rows() -> list[Row]:
    """Return all that is in the file."""
    with FILE.open(encoding="utf-8", newline="") as stream:
        return [_parsed(line) for line in csv.DictReader(stream)]


def _parsed(line: dict[str, str]) -> Row:
    complete = ("mtu_bytes", "queue_packets", "size_bytes", "begun", "ended", "waited")
    return Row(
        protocol=line["protocol"],
        nagle=line["nagle"] == "True",
        median_s=float(line["median_s"]),
        mean_s=float(line["mean_s"]),
        **{name: int(line[name]) for name in complete},
    )


if __name__ == "__main__":
    make()
