"""The measured tables of docs/links.md; `python -m tests.lab.channel.link_table` writes them."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from pathlib import Path
from statistics import mean, quantiles
from typing import TYPE_CHECKING

from multitracer.lab.channel.bluetooth_piconet import BitErrorConfig, BluetoothConfig, RfcommConfig
from multitracer.lab.channel.cdpd_config import CdpdConfig, CellConfig, NetworkConfig, OutageConfig
from multitracer.lab.channel.links import link_of
from multitracer.lab.channel.shared.frame_errors import ErrorConfig
from multitracer.lab.channel.shared.packet_link import FAR, SIDES
from multitracer.protocols.link_events import AccessWaitEnded, BurstSent
from tests.lab.channel import cell
from tests.lab.channel.over import Seen, bulk, echoes
from tests.narrowed import of_kind

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from multitracer.lab.channel.links import AnyLinkConfig
    from multitracer.lab.channel.shared.packet_link import Side

PAGE = Path(__file__).parents[3] / "docs" / "links.md"
BEGIN, END = "<!-- measured -->\n", "<!-- end of measured -->"
SEED = 1
NO_OUTAGES = OutageConfig(hop_every_ns=0, ejection_every_ns=0, blackout_every_ns=0)
NO_LOSS = NetworkConfig(loss_up=0, loss_down=0)
CLEAN = CdpdConfig(
    up=ErrorConfig(),
    down=ErrorConfig(),
    cell=CellConfig(busy_percent=0, spread_percent=0),
    outages=NO_OUTAGES,
    network=NO_LOSS,
)
ORDINARY = CdpdConfig()
NO_BIT_ERRORS = BitErrorConfig(good_ber=0, bad_ber=0)
FULL = RfcommConfig(n1_octets=1005, credits=60, grant_at=20)
"""Frames that fill three DH5, and credits that never run out."""
BUSY_PERCENTS = (0, 20, 40, 60)
MOBILES = (1, 3, 10, 30)
CELL_S = 300
"""As long as paper 001's figures of several flows."""


def _table(columns: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    names = list(columns)
    lines = [names, ["---"] * len(names), *rows]
    return "".join(f"| {' | '.join(cells)} |\n" for cells in lines)


def busy_cell(percent: float) -> CdpdConfig:
    """Return a clean link in a cell whose others use so much of the channel."""
    return replace(CLEAN, cell=CellConfig(busy_percent=percent, spread_percent=0))


def bluetooth(*, rfcomm: RfcommConfig | None = None, up: str = "DH5") -> BluetoothConfig:
    """Return a link without bit errors."""
    return BluetoothConfig(errors=NO_BIT_ERRORS, rfcomm=rfcomm or RfcommConfig(), up=up)  # type: ignore[arg-type]


@cache
def carried(config: AnyLinkConfig, sides: tuple[Side, ...], *, seconds: float, octets: int = 576) -> Seen:
    """Return what came out while these sides sent as much as there was room for."""
    return bulk(link_of(config, seed=SEED), sides, seconds=seconds, octets=octets)


@cache
def round_trips(config: AnyLinkConfig, *, seconds: float, every_s: float) -> tuple[tuple[float, ...], float]:
    """Return the round trips of 64 bytes in s, ascending, and the loss of both ways together in %."""
    trips, seen = echoes(link_of(config, seed=SEED), seconds=seconds, every_s=every_s)
    return tuple(sorted(trips)), 100 * (1 - len(trips) / seen.sent["mobile"])


@cache
def access_waits(percent: float) -> tuple[tuple[float, ...], float]:
    """Return how long single packets waited for the channel, ms, and what the modem said of the cell, %."""
    link = link_of(busy_cell(percent), seed=SEED)
    _, seen = echoes(link, seconds=900, every_s=3)
    waits = [event.waited_us / 1000 for event in seen.of("mobile", AccessWaitEnded)]
    busy = [each.cell_busy_percent for each in seen.readings[5:] if each.cell_busy_percent is not None]
    return tuple(waits), mean(busy)


def cdpd_rows() -> Iterator[list[str]]:
    """Yield what CDPD carries under three conditions."""
    conditions = {
        "nobody else, no errors": CLEAN,
        "bundled, without outages": replace(ORDINARY, outages=NO_OUTAGES),
        "bundled": ORDINARY,
    }
    for name, config in conditions.items():
        cells = [name]
        for side in ("fixed", "mobile"):
            seen = carried(config, (side,), seconds=900)
            cells += [f"{seen.kbps(FAR[side]):.1f}", f"{seen.lost_percent(side):.1f}"]
        trips, _ = round_trips(config, seconds=3600, every_s=5)
        deciles = quantiles(trips, n=10)
        cells += [f"{each:.2f}" for each in (trips[0], deciles[4], deciles[8], trips[-1])]
        yield cells


def cell_rows() -> Iterator[list[str]]:
    """Yield what other users cost the mobile."""
    for percent in BUSY_PERCENTS:
        waits, busy = access_waits(percent)
        up = carried(busy_cell(percent), ("mobile",), seconds=200).kbps("fixed")
        down = carried(busy_cell(percent), ("fixed",), seconds=200).kbps("mobile")
        decile = quantiles(waits, n=10)[8]
        yield [str(percent), f"{busy:.0f}", f"{mean(waits):.0f}", f"{decile:.0f}", f"{up:.1f}", f"{down:.1f}"]


def shared_rows() -> Iterator[list[str]]:
    """Yield what mobiles with full queues carry together, and how evenly the reverse channel is shared."""
    for count in MOBILES:
        cells = [str(count)]
        for base in (cell.PLAIN, cell.MDLP):
            link = replace(base, mobiles=count)
            cells += [f"{_together(link, cell.down(count))[0]:.1f}"]
            rate, jain, collided = _together(link, cell.up(count))
            cells += [f"{rate:.1f}", f"{jain:.2f}", f"{collided:.0f}"]
        yield cells


def _together(config: CdpdConfig, ways: list[cell.Way]) -> tuple[float, float, float]:
    """Return the rate of all ways in kb/s, Jain's index of their packets, and collided bursts in %."""
    link = link_of(config, seed=SEED)
    only = {"mobile-1": link.hosts[0]}
    fates = cell.full(link, [(only.get(a, a), only.get(b, b)) for a, b in ways], seconds=CELL_S)
    counts = list(fates.delivered().values()) + [0] * (len(ways) - len(fates.delivered()))
    bursts = [e for events in fates.events.values() for e in of_kind(BurstSent, events)]
    collided = 100 * sum(burst.cause == "collision" for burst in bursts) / max(1, len(bursts))
    jain = sum(counts) ** 2 / (len(counts) * sum(count**2 for count in counts))
    return sum(counts) * 4 / CELL_S, jain, collided


def bluetooth_rows() -> Iterator[list[str]]:
    """Yield what Bluetooth carries, with framing that fits and with the default one."""
    rows: tuple[tuple[str, BluetoothConfig, tuple[Side, ...]], ...] = (
        ("DH5 each way, N1 = 1005, both full", bluetooth(rfcomm=FULL), SIDES),
        ("DH5 down, DH1 up, N1 = 1005, both full", bluetooth(rfcomm=FULL, up="DH1"), SIDES),
        ("bundled framing, N1 = 127, both full", bluetooth(), SIDES),
        ("bundled framing, N1 = 127, down only", bluetooth(), ("fixed",)),
    )
    for name, config, sides in rows:
        seen = carried(config, sides, seconds=5, octets=1500)
        rates = {side: f"{seen.kbps(FAR[side]):.0f}" for side in sides}
        yield [name, rates["fixed"], rates.get("mobile", "")]


def echo_row() -> list[str]:
    """Return the round trips over the bundled Bluetooth link."""
    trips, lost = round_trips(BluetoothConfig(), seconds=500, every_s=1.013)
    deciles = quantiles(trips, n=10)
    return [f"{1000 * each:.0f}" for each in (trips[0], deciles[4], deciles[8], trips[-1])] + [f"{lost:.1f}"]


def tables() -> str:
    """Return all tables."""
    cdpd = _table(
        ("CDPD", "down, kb/s", "lost, %", "up, kb/s", "lost, %", "RTT least, s", "median", "90 %", "worst"), cdpd_rows()
    )
    others = _table(
        ("others offer, %", "modem says, %", "access wait, ms", "90 %", "up, kb/s", "down, kb/s"), cell_rows()
    )
    each = "down, kb/s", "up, kb/s", "Jain's index up", "bursts collided, %"
    titles = [f"{recovery}: {title}" for recovery in ("none", "mdlp") for title in each]
    shared = _table(("mobiles", *titles), shared_rows())
    slots = _table(("Bluetooth", "down, kb/s", "up, kb/s"), bluetooth_rows())
    trips = _table(("RTT least, ms", "median", "90 %", "worst", "lost, %"), [echo_row()])
    return f"{cdpd}\n{others}\n{shared}\n{slots}\n{trips}"


def written() -> str:
    """Return the tables that the page has."""
    return PAGE.read_text("utf-8").partition(BEGIN)[2].partition(END)[0]


def main() -> None:
    """Write the tables into the page."""
    text = PAGE.read_text("utf-8")
    before, _, rest = text.partition(BEGIN)
    PAGE.write_text(f"{before}{BEGIN}{tables()}{END}{rest.partition(END)[2]}", "utf-8")


if __name__ == "__main__":
    main()
