"""The sweep of experiments_sweep.md: which TCP collapses over CDPD, in virtual time.

`python -m docs.papers.programs.experiment_sweep` makes the cells that data/experiments/sweep.csv.gz lacks,
one after the other, and writes each as soon as it is done. A cell is a transport at one cap of the Palm's
timeout, one load of the cell and one loss; all cells have the same radio, and the sizes take turns, so that
each size has been everywhere in it.
"""

from __future__ import annotations

import csv
import gzip
import io
import tempfile
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from multitracer.lab.channel.cdpd_config import CdpdConfig
from multitracer.lab.rig.radios import with_tcp_profile
from multitracer.lab.rig.virtual import run_virtual
from multitracer.lab.scenario.library import load_scenario
from multitracer.measure.plan import Experiment, MeasurementPlan
from multitracer.measure.transports import TransportOptions
from multitracer.protocols.centaurus.messages import Extension
from multitracer.units import NS_PER_S

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from multitracer.lab.scenario.model import Scenario
    from multitracer.measure.plan import ProtocolName, Varied

DATA = Path(__file__).parents[1] / "data" / "experiments"
FILE = DATA / "sweep.csv.gz"
SCENARIO = "cdpd-palm"
"""The bundled link; each cell replaces its cap, load and loss."""
SIZES = (128, 256, 512, 1024, 2048, 4096, 8192)
ROUNDS, OF_EACH = 4, 5
"""Rounds through the sizes, and of each in a round: 20 a size and 140 a cell, 1 to 20 s of computing."""
CAPS_S = (1, 2, 4, 8, 16, 64)
BUSY_PERCENT = (0, 20, 40, 60, 80)
LOSS_PERCENT = (0.0, 0.3, 1.0, 2.0, 5.0)
BUSY, LOSS = 20, 0.3
"""The load where the loss varies, and the loss where the load does."""
EDGES = ((1, 50), (2, 70))
"""Caps and loads between cells where 4096 bytes end and cells where they do not."""
SEED = 1
MORE_SEEDS = (2, 3)
"""Other radios for the first of the edges, to see what was chance."""
PATIENCE_S = 120.0
"""The application's timeout, as in the other experiments; the paper gives no number."""
MORE_PATIENCE_S = 600.0
"""Five times that: the authors increased theirs."""
OTHERS = ("cc", "ccearly", "tcp1999", "tcptoday")


@dataclass(frozen=True, slots=True, order=True)
class Cell:
    """One transport under one set of conditions."""

    vary: Varied
    transport: str
    """palm, or one of `OTHERS`."""
    cap_s: int
    """Largest timeout of the Palm; 0 where there is no Palm."""
    busy_percent: int
    loss_percent: float
    patience_s: float = PATIENCE_S
    seed: int = SEED
    """Of the radio."""

    @property
    def sizes(self) -> tuple[int, ...]:
        """Those that are kept, all are run; with more patience only the largest, which need it."""
        return SIZES if self.patience_s == PATIENCE_S else SIZES[-2:]

    @property
    def plan(self) -> MeasurementPlan:
        """What is measured."""
        protocol: ProtocolName = "centauruscomm" if self.transport.startswith("cc") else "tcp"
        return MeasurementPlan(
            protocol, "", (Experiment(self.vary, SIZES, OF_EACH),) * ROUNDS, self.patience_s, over="palm"
        )

    @property
    def scenario(self) -> Scenario:
        """The link, and TCP of both ends."""
        found = load_scenario(SCENARIO)
        assert isinstance(found.link, CdpdConfig)
        load = replace(found.link.cell, busy_percent=self.busy_percent, spread_percent=0)
        loss = self.loss_percent / 100
        network = replace(found.link.network, loss_up=loss, loss_down=loss)
        found = replace(found, link=replace(found.link, cell=load, network=network))
        if self.transport.startswith("tcp"):
            return with_tcp_profile(found, self.transport.removeprefix("tcp"))
        return replace(found, mobile=replace(found.mobile, max_rto_ns=(self.cap_s or 64) * NS_PER_S))

    @property
    def options(self) -> TransportOptions:
        """Of CentaurusComm."""
        early = self.transport == "ccearly"
        return TransportOptions(extensions=Extension.EARLY_START if early else Extension.NONE)


class Row(NamedTuple):
    """What became of the transactions of one size in a cell; a line of the file."""

    vary: str
    transport: str
    cap_s: int
    busy_percent: int
    loss_percent: float
    patience_s: float
    seed: int
    size_bytes: int
    begun: int
    """Transactions."""
    resent: int
    """Segments that either end sent again, in those that ended."""
    modem_busy_percent: float
    """What the modem said of the cell, in the mean; NaN if it said nothing."""
    rtts_s: tuple[float, ...]
    """Of those that ended, in order."""

    @property
    def cell(self) -> Cell:
        """Whose row it is."""
        vary: Varied = "reply" if self.vary == "reply" else "request"
        return Cell(vary, *self[1:7])


def cells() -> Iterator[Cell]:
    """Yield every cell, those first that the page needs most."""
    caps = [("palm", cap) for cap in CAPS_S]
    others = [(name, 0) for name in OTHERS]
    for busy in BUSY_PERCENT:
        yield from (Cell("request", name, cap, busy, LOSS) for name, cap in caps + others)
    for cap_s, busy in EDGES:
        yield from (Cell("request", name, cap, busy, LOSS) for name, cap in (("palm", cap_s), ("cc", 0)))
    for loss in LOSS_PERCENT:
        if loss != LOSS:
            yield from (Cell("request", name, cap, BUSY, loss) for name, cap in caps + others)
    for busy in BUSY_PERCENT:
        yield from (Cell("reply", name, cap, busy, LOSS) for name, cap in [caps[0], caps[-1], *others])
    yield Cell("request", "palm", CAPS_S[0], 60, LOSS, MORE_PATIENCE_S)
    for seed in MORE_SEEDS:
        for name, cap in (("palm", EDGES[0][0]), ("cc", 0)):
            yield Cell("request", name, cap, EDGES[0][1], LOSS, seed=seed)


def measured(cell: Cell) -> list[Row]:
    """Run a cell; return a row for each size."""
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place) / "run"
        run_virtual(cell.plan, folder, cell.scenario, seed=cell.seed, options=cell.options, progress=lambda *_: None)
        with (folder / "transactions.csv").open(encoding="utf-8", newline="") as stream:
            lines = list(csv.DictReader(stream))
    return [_row(cell, size, [each for each in lines if each["size_bytes"] == str(size)]) for size in cell.sizes]


def _row(cell: Cell, size: int, lines: list[dict[str, str]]) -> Row:
    ended = [each for each in lines if each["outcome"] == "ok"]
    resent = sum(int(each[f"retransmitted_{end}"] or 0) for each in ended for end in ("client", "server"))
    rtts = tuple(round(float(each["rtt_s"]), 2) for each in ended)
    return Row(
        cell.vary,
        cell.transport,
        cell.cap_s,
        cell.busy_percent,
        cell.loss_percent,
        cell.patience_s,
        cell.seed,
        size,
        len(lines),
        resent,
        _mean([float(each["cell_busy_percent"]) for each in lines if each["cell_busy_percent"]]),
        rtts,
    )


def _mean(values: list[float]) -> float:
    return round(sum(values) / len(values), 1) if values else float("nan")


def rows() -> list[Row]:
    """Return all that is in the file."""
    if not FILE.exists():
        return []
    with gzip.open(FILE, "rt", encoding="utf-8", newline="") as stream:
        return [_parsed(line) for line in csv.DictReader(stream)]


def _parsed(line: dict[str, str]) -> Row:
    return Row(
        vary=line["vary"],
        transport=line["transport"],
        cap_s=int(line["cap_s"]),
        busy_percent=int(line["busy_percent"]),
        loss_percent=float(line["loss_percent"]),
        patience_s=float(line["patience_s"]),
        seed=int(line["seed"]),
        size_bytes=int(line["size_bytes"]),
        begun=int(line["begun"]),
        resent=int(line["resent"]),
        modem_busy_percent=float(line["modem_busy_percent"]),
        rtts_s=tuple(map(float, line["rtts_s"].split())),
    )


def keep(found: Iterable[Row]) -> None:
    """Write the file; its bytes depend on the rows alone."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(Row._fields)
    writer.writerows([*row[:-1], " ".join(map(str, row.rtts_s))] for row in sorted(found))
    FILE.write_bytes(gzip.compress(text.getvalue().encode(), 9, mtime=0))


def run_missing() -> None:
    """Make the cells that are not in the file."""
    found = rows()
    known = {row.cell for row in found}
    for cell in cells():
        if cell not in known:
            found += measured(cell)
            keep(found)


if __name__ == "__main__":
    run_missing()
