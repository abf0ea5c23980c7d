"""Transactions as a measurement writes them, made from a few numbers."""

from __future__ import annotations

import csv
from typing import TYPE_CHECKING, Any

import numpy as np

from multitracer.manifest import Manifest, Variables, write_manifest
from multitracer.schemas.transactions import LABEL, TRANSACTIONS
from multitracer.tables import NA, Table

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from numpy.typing import ArrayLike

START_NS = 1_795_000_000_000_000_000
_TIMEOUT_S = 60.0
_MISSING = {"U": "", "i": NA, "f": np.nan}


def transactions(
    rtts_s: Mapping[int, ArrayLike],
    *,
    protocol: str = "tcp",
    vary: str = "reply",
    connection: str = "one",
    connect_s: float = np.nan,
    labels: str = "",
    radio: bool = False,
) -> Table:
    """Return TRANSACTIONS with these RTTs for each size; inf is a dropped one, NaN one whose RTT is not known."""
    rtts = {size: np.asarray(values, dtype=np.float64) for size, values in rtts_s.items()}
    sizes = np.array([size for size, values in rtts.items() for _ in values], dtype=np.int64)
    rtt = np.array([value for values in rtts.values() for value in values], dtype=np.float64)
    count, lost = len(rtt), np.isinf(rtt)
    took_s = np.where(np.isfinite(rtt), rtt, _TIMEOUT_S) + 0.5
    luck = np.random.default_rng(7)
    fixed = "reply" if vary == "request" else "request"
    columns: dict[str, Any] = {
        "transaction": np.arange(1, count + 1),
        "protocol": np.full(count, protocol),
        "vary": np.full(count, vary),
        "size_bytes": sizes,
        "repetition": np.array([n for v in rtts.values() for n in range(1, len(v) + 1)], dtype=np.int64),
        f"{vary}_bytes": sizes,
        f"{fixed}_bytes": np.full(count, 64),
        "connection": np.full(count, connection),
        "timeout_s": np.full(count, _TIMEOUT_S),
        "start_ns": START_NS + ((np.cumsum(took_s) - took_s) * 1e9).astype(np.int64),
        "connect_s": np.full(count, connect_s),
        "rtt_s": np.where(lost, np.nan, rtt),
        "server_rtt_s": np.where(lost, np.nan, rtt),
        "retransmitted_client": np.where(lost, NA, 0),
        "retransmitted_server": np.where(lost, NA, sizes // 4096),
        "bytes_up": np.where(lost, NA, 64),
        "bytes_down": np.where(lost, NA, sizes + 536 * (sizes // 4096)),
        "efficiency": np.full(count, np.nan),
        "clock_offset_s": np.full(count, np.nan),
        "clock_uncertainty_s": np.full(count, np.nan),
        "outcome": np.where(lost, "dropped", "ok"),
        "why": np.where(lost, "reply", ""),
        "rssi_dbm": luck.normal(-90, 6, count) if radio else np.full(count, np.nan),
        "bler_percent": luck.gamma(2, 2, count) if radio else np.full(count, np.nan),
        "cell_busy_percent": luck.uniform(0, 60, count) if radio else np.full(count, np.nan),
        "radio_readings": np.full(count, 3 if radio else NA),
        "labels": np.full(count, labels),
    }
    columns |= {c.name: np.full(count, _MISSING[c.dtype[0]]) for c in TRANSACTIONS if c.name not in columns}
    return Table(TRANSACTIONS, {c.name: np.asarray(columns[c.name], dtype=c.dtype) for c in TRANSACTIONS})


def write_session(folder: Path, table: Table, *, name: str | None = None, **variables: Any) -> Path:
    """Write a session folder with these transactions."""
    folder.mkdir(parents=True)
    with (folder / "transactions.csv").open("w", newline="") as stream:
        _write(stream, table)
    about = Manifest(name or folder.name, created_ns=START_NS, variables=Variables.of(variables))
    write_manifest(folder, about)
    return folder


def _write(stream: Any, table: Table) -> None:
    told = ";".join(table["labels"][:1])
    labels = dict(pair.split("=", 1) for pair in told.split(";") if "=" in pair)
    plain = TRANSACTIONS.names[:-1]
    writer = csv.writer(stream, lineterminator="\n")
    writer.writerow([*plain, *(LABEL + label for label in labels)])
    for row in table.rows():
        cells = ["" if row[column] is None else row[column] for column in plain]
        writer.writerow([*cells, *labels.values()])


SIZES = (128, 256, 512, 1024, 2048, 4096, 8192)


def cdpd_like(protocol: str, count: int = 100, **more: Any) -> Table:
    """Return transactions that look as the paper's on CDPD do: TCP breaks down, CentaurusComm does not."""
    luck = np.random.default_rng(len(protocol))
    rtts = {}
    for size in SIZES:
        fixed = 1.0 if protocol == "tcp" else 3.0
        factor = 5.0 if protocol == "tcp" and size >= 4096 else 1.0
        values = (fixed + factor * size / 1100) * luck.lognormal(0, 0.25, count)
        lost = luck.random(count) < (0.9 if size == 8192 else 0.1 if size == 4096 else 0)
        rtts[size] = np.where(lost & (protocol == "tcp"), np.inf, values)
    return transactions(rtts, protocol=protocol, radio=True, **more)
