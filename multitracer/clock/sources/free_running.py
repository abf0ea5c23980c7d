"""Free-running clocks: those of TCP timestamps and of modems, each related to its host.

They count from an origin of their own, so that only their rate and their steps tell anything.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from multitracer.captured import Mark
from multitracer.clock.model.relation import Clock, Relation
from multitracer.clock.sources.one_way import LEAST_STAMPS, one_way_estimate
from multitracer.clock.sources.timestamps import relate_timestamps
from multitracer.errors import ClockError
from multitracer.units import NS_PER_S

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from multitracer.capture import Capture
    from multitracer.clock.model.estimate import Estimate
    from multitracer.logs import LogSource
    from multitracer.tables import Table

_MODEM = "the modem's clock"


def free_running_clocks(
    source: LogSource, captures: Mapping[str, Capture], sender: str, refused: list[str]
) -> Iterator[Relation]:
    """Yield the relations of these clocks by the hosts' captures and radio logs, as far as they exist.

    Parameters
    ----------
    source : LogSource
        Of a session folder; of loose files nobody knows whose host they are.
    captures : mapping of str to Capture
        By host.
    sender : str
        The host that sends the larger direction.
    refused : list of str
        Gets a sentence for each clock that is there and cannot be related.
    """
    for host, capture in captures.items():
        flow = _own_flow(capture, is_sender=host == sender)
        if flow is not None:
            yield from _one(host, "tsval", partial(relate_timestamps, capture, flow), refused)
    for log, tables in source.logs("radio"):
        if (radio := tables.get("radio")) is not None and np.isfinite(radio["modem_clock_s"]).any():
            yield from _one(log.host, "modem", partial(_of_modem, radio), refused)


def _one(
    host: str, domain: str, estimator: Callable[[], list[Estimate]], refused: list[str]
) -> Iterator[Relation]:
    try:
        estimates = tuple(replace(estimate, points=None) for estimate in estimator())
    except ClockError as error:
        refused.append(f"{host} and {host}:{domain}: {error}")
    else:
        yield Relation(Clock(host), Clock(host, domain), estimates)


def _own_flow(capture: Capture, *, is_sender: bool) -> int | None:
    """Return the flow of the largest connection that the host itself sent; None if it has no timestamps."""
    segments = capture.segments
    if not len(segments):
        return None
    bulk = int(np.argmax(np.bincount(segments["flow"], weights=segments["payload_bytes"])))
    flow = bulk if is_sender else bulk ^ 1
    stamped = (segments["flow"] == flow) & (segments["marks"] & Mark.HAS_TIMESTAMPS > 0)
    return flow if np.count_nonzero(stamped) > LEAST_STAMPS else None


def _of_modem(radio: Table) -> list[Estimate]:
    known = np.isfinite(radio["modem_clock_s"])
    stamps_ns = np.round(radio["modem_clock_s"][known] * NS_PER_S).astype(np.int64)
    waited_ns = radio["answered_ns"][known] - radio["asked_ns"][known]
    delay_ns = float(np.median(waited_ns)) if len(waited_ns) else 0.0
    return [
        one_way_estimate(
            radio["time_ns"][known], stamps_ns, method=_MODEM, delay_ns=delay_ns, tick_ns=NS_PER_S
        )
    ]
