"""Clocks of the two ends of a measurement, as CentaurusComm compared them in each transaction.

Each question and its answer bound the server's clock from both sides, whatever the two ways of the path are
like (docs/centauruscomm.md). What is left between the bounds does not average out over transactions.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from multitracer.clock.model.causal_bounds import certain
from multitracer.clock.model.estimate import PPM, Estimate
from multitracer.clock.model.relation import Clock, Relation
from multitracer.clock.sources.paired_stamps import UNSEEN_SKEW_PPM, fitted
from multitracer.errors import ClockError
from multitracer.manifest import Role
from multitracer.tables import NOT_A_TIME
from multitracer.units import NS_PER_S

if TYPE_CHECKING:
    from collections.abc import Iterator

    from multitracer.logs import Log, LogSource
    from multitracer.tables import Array, Table

METHOD = "centauruscomm"
_FARTHEST_S = 1e9
"""Clocks farther apart than 32 years are damage."""
_LONGEST_NAME = 100  # names are shown and sorted; a log may hold anything
_NOTE = (
    "both programs count from the time of day at their start; later steps of their hosts' clocks do not show"
)


def relations_of_transactions(source: LogSource, refused: list[str]) -> Iterator[Relation]:
    """Yield by how much a measurement's server is ahead of its client, by each log of transactions with both.

    Parameters
    ----------
    source : LogSource
    refused : list of str
        Gets a sentence for each log whose comparisons say nothing.
    """
    for log, tables in source.logs("transactions"):
        table = tables["transactions"]
        compared = table.take(_compared(table))
        if not len(compared):
            continue  # TCP, or a server that was never reached: nothing to be said
        client, server = _clocks_of_peers(source, log)
        try:
            yield Relation(client, server, tuple(relate_transactions(compared)))
        except ClockError as error:
            refused.append(f"{client.host} and {server.host}: {error}")


def _compared(table: Table) -> Array:
    """Return which transactions compared the clocks."""
    offset, bound = table["clock_offset_s"], table["clock_uncertainty_s"]
    known: Array = (table["start_ns"] != NOT_A_TIME) & (bound >= 0) & (bound < _FARTHEST_S)
    return known & (np.abs(offset) < _FARTHEST_S)


def _clocks_of_peers(source: LogSource, log: Log) -> tuple[Clock, Clock]:
    """Return the clocks of client and server: of hosts in the manifest, the server by its address.

    Over a modelled link there is no address: the manifest says which host was which.
    """
    manifest = source.manifest
    plan = manifest.variables.measurement if manifest else None
    roles = {host.role: name for name, host in manifest.hosts.items()} if manifest else {}
    if plan is not None and plan.over is not None and {Role.CLIENT, Role.SERVER} <= set(roles):
        return Clock(roles[Role.CLIENT]), Clock(roles[Role.SERVER])
    server = ((plan.server if plan else None) or "server")[:_LONGEST_NAME]
    address = server if server.startswith("serial:") else server.rpartition(":")[0].strip("[]") or server
    own = log.host
    for host, facts in manifest.hosts.items() if manifest else ():
        address = host if address in facts.addresses else address
    if manifest and source.folder is not None and log.host == str(source.folder):
        noted = {str(source.folder / file.path): file.host for file in manifest.files}
        own = noted.get(log.path, next(iter(manifest.hosts), own))
    return Clock(own), Clock(address if address != own else f"{address} (server)")


def relate_transactions(compared: Table) -> list[Estimate]:
    """Return the server's clock as seen by the client's, for each interval between steps.

    Parameters
    ----------
    compared : Table
        TRANSACTIONS whose clocks were compared. The comparison is somewhere in the transaction: what the
        clocks may drift meanwhile is added to its bound.

    Raises
    ------
    ClockError
        If the clocks jump at every transaction.
    """
    took = np.where(np.isfinite(compared["rtt_s"]), compared["rtt_s"], compared["timeout_s"]) * NS_PER_S
    start = compared["start_ns"] + np.rint(np.nan_to_num(took) / 2).astype(np.int64)
    offset = np.rint(compared["clock_offset_s"] * NS_PER_S).astype(np.int64)
    bound = compared["clock_uncertainty_s"] * NS_PER_S + UNSEEN_SKEW_PPM * PPM * np.nan_to_num(took) / 2
    bound = np.maximum(np.ceil(bound).astype(np.int64), 1)
    return [
        _certain(estimate, start, offset, bound)
        for estimate in fitted(start, start + offset, bound, method=METHOD)
    ]


def _certain(estimate: Estimate, start: Array, offset: Array, bound: Array) -> Estimate:
    """Return the estimate with what all its comparisons together leave open, as bounds and as error."""
    here = np.asarray(estimate.covers(start))
    time = (start[here] - estimate.first_ns).astype(np.float64)
    away = (offset[here] - estimate.offset_ns).astype(np.float64)
    half = bound[here].astype(np.float64)
    least, most = certain((time, away + half), (time, half - away), 0.0)
    least, most = min(least, most), max(least, most)
    return replace(
        estimate,
        offset_ns=estimate.offset_ns + round(min(max(least, 0.0), most)),
        uncertainty_ns=float(np.hypot(estimate.uncertainty_ns, half.min())),
        lower_ns=estimate.offset_ns + round(least),
        upper_ns=estimate.offset_ns + round(most),
        notes=(_NOTE,),
    )
