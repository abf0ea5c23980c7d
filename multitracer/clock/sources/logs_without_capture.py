"""Logs of unknown host, or of a host without a capture: related to captures by events that both recorded.

A log of TCP variables shows the bytes acknowledged, a log of a link the packets that it took and gave, a log
of the radio when nothing could come through. Each has an estimator of its own; of several captures the one
that says most is taken.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from multitracer.clock.model.relation import Clock, Relation
from multitracer.clock.sources.link_edges import relate_link
from multitracer.clock.sources.stall_sources import relate_radio
from multitracer.clock.sources.state_edges import relate_state
from multitracer.errors import ClockError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from multitracer.capture import Capture
    from multitracer.clock.model.estimate import Estimate
    from multitracer.logs import LogSource
    from multitracer.tables import Table

    Found = list[Estimate]


def relations_of_logs(
    source: LogSource, captures: Mapping[str, Capture], refused: list[str]
) -> Iterator[Relation]:
    """Yield how the clocks of logs from elsewhere relate to those of the captures.

    Parameters
    ----------
    source : LogSource
    captures : mapping of str to Capture
        By host.
    refused : list of str
        Gets a sentence for each log that cannot be related.
    """
    for layer, estimator in _ESTIMATORS.items():
        if source.folder is not None and layer != "radio":
            continue  # these two need the capture of the very host, whose clock is then the log's own
        for log, tables in source.logs(layer):
            if log.host not in captures and captures:
                yield from _best(Clock(log.host), tables, captures, estimator, refused)


def _best(
    clock: Clock,
    tables: dict[str, Table],
    captures: Mapping[str, Capture],
    estimator: Callable[[Capture, dict[str, Table]], Found],
    refused: list[str],
) -> Iterator[Relation]:
    """Yield the relation of a log to the capture that leaves the least uncertainty."""
    relations, reasons = [], []
    for host, capture in captures.items():
        try:
            relations.append(Relation(Clock(host), clock, tuple(estimator(capture, tables))))
        except ClockError as error:
            reasons.append(f"{host} and {clock.host}: {error}")
    if relations:
        yield min(relations, key=lambda relation: relation.estimates[0].uncertainty_ns)
    else:
        refused += reasons


def _of_state(capture: Capture, tables: dict[str, Table]) -> Found:
    return relate_state(capture, tables["tcp_state"])


def _of_link(capture: Capture, tables: dict[str, Table]) -> Found:
    return relate_link(capture, tables["link_events"])


def _of_radio(capture: Capture, tables: dict[str, Table]) -> Found:
    return relate_radio(capture, tables["radio"])


_ESTIMATORS = {"tcp": _of_state, "link": _of_link, "radio": _of_radio}
"""Layer of a log -> what relates it to a capture."""
