"""Reads a Starlink dish: its state, latency and loss to the network, rates, obstruction, once a second.

The dish answers at 192.168.100.1:9200 (gRPC) to everybody in its network. `starlink-grpc-core` asks, by the
description that the dish itself gives. The history of the dish has one sample for each of its seconds: samples of a
second that this host missed come with the next answer, as long as the dish keeps them (15 minutes).

The log is JSON lines, times are those of this host's CLOCK_MONOTONIC. First a header, then in order of time:

- `status`: the two stamps around the answer, and what the dish says of itself now,
- `history`: the stamps, `counter` of the last sample (seconds since the dish started), and lists with one value for
  each sample since the answer before, the oldest first,
- `outage`: an outage that the dish reports, with its cause, begin (`start_ns`, as the dish gives it) and duration,
- `missed`: a round without an answer, and why; `clock`, each second, and `end`.
"""

from __future__ import annotations

import argparse
import importlib.util
import math
import socket
import time
from functools import partial
from operator import attrgetter
from typing import TYPE_CHECKING

from collectors._collector import Collector
from collectors._log import Log
from collectors._options import header, parser, rate_hz, run
from collectors._ready import ready
from collectors._stop import Stop
from collectors.modem import ModemLog, record
from multitracer.errors import PreflightError

if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import ModuleType

TARGET = "192.168.100.1:9200"
"""Address of the dish, the same in each network behind it."""
_TIMEOUT_S = 3
_CHECK_S = 2.0
_LISTS = ("pop_ping_drop_rate", "pop_ping_latency_ms", "downlink_throughput_bps", "uplink_throughput_bps")
_MOST_OUTAGES = 1000
_LONGEST_WHY = 60
_FIELDS, _CAUSE = attrgetter("DESCRIPTOR.fields_by_name"), attrgetter("cause")
"""Of an outage, whose message the dish describes itself."""


class Dish:
    """The dish; it has the methods of a SerialModem.

    Parameters
    ----------
    target : str
        Address and port.
    log, stop
        The log, and the condition that ends the run.
    """

    def __init__(self, target: str, *, log: ModemLog, stop: Stop) -> None:
        import starlink_grpc  # noqa: PLC0415  # of the extra `starlink`

        self._grpc: ModuleType = starlink_grpc
        self._grpc.REQUEST_TIMEOUT = _TIMEOUT_S
        self._context = starlink_grpc.ChannelContext(target=target)
        self._log = log
        self._stop = stop
        self._counter: int | None = None
        self._outages: set[int] | None = None
        """Begins of the outages in the answer before; None before the first."""

    def ask_all(self) -> str | None:
        """Ask the dish for state and history; return the reason if there was no answer, else None."""
        import grpc  # noqa: PLC0415  # a package that starlink_grpc brings

        try:
            asked_ns = time.monotonic_ns()
            status, obstruction, alerts = self._grpc.status_data(self._context)
            answered_ns = time.monotonic_ns()
            known = {**status, **obstruction, **{name: True for name, is_on in alerts.items() if is_on}}
            plain = {name: value for name, value in known.items() if _is_plain(value)}
            self._log.record("status", asked_ns=asked_ns, answered_ns=answered_ns, **plain)
            self._history()
        except self._grpc.GrpcError as error:
            return _reason(error.__cause__) or str(error)[:_LONGEST_WHY]
        except grpc.RpcError as error:
            return _reason(error) or "silent"
        except (AttributeError, TypeError, ValueError, IndexError):  # the dish describes its messages itself
            return "unintelligible"
        ready()
        return None

    def listen(self, until_ns: int) -> bool:
        """Wait until a time; return False if the collector must end."""
        return self._stop.wait(until_ns)

    def close(self) -> None:
        """End the connection."""
        self._context.close()

    def _history(self) -> None:
        """Write the samples since the last answer, and outages that are new."""
        asked_ns = time.monotonic_ns()
        history = self._grpc.get_history(self._context)
        answered_ns = time.monotonic_ns()
        most = -1 if self._counter is not None else 1  # what was before the recording is none of its seconds
        general, bulk = self._grpc.history_bulk_data(most, start=self._counter, history=history)
        counter = general["end_counter"]
        if general["samples"] and counter is not None:
            lists = {name: [_number(value) for value in bulk[name]] for name in _LISTS}
            stamps = {"asked_ns": asked_ns, "answered_ns": answered_ns}
            self._log.record("history", **stamps, counter=counter, samples=general["samples"], **lists)
            self._counter = counter
        outages = list(getattr(history, "outages", []))[-_MOST_OUTAGES:]
        durations = {int(each.start_timestamp_ns): (int(each.duration_ns), _cause(each)) for each in outages}
        for start_ns, (duration_ns, cause) in durations.items():  # those of the first answer were before the recording
            if self._outages is not None and start_ns not in self._outages:
                at_ns = time.monotonic_ns()
                self._log.record("outage", at_ns=at_ns, cause=cause, start_ns=start_ns, duration_ns=duration_ns)
        self._outages = set(durations)


def _cause(outage: object) -> str:
    try:
        return str(_FIELDS(outage)["cause"].enum_type.values_by_number[_CAUSE(outage)].name)
    except (AttributeError, KeyError):
        return "UNKNOWN"


def _is_plain(value: object) -> bool:
    return isinstance(value, str | bool | int) or (isinstance(value, float) and math.isfinite(value))


def _number(value: object) -> float | None:
    return float(value) if isinstance(value, int | float) and math.isfinite(value) else None


def _reason(error: object) -> str:
    """Return the reason of a gap for an error of gRPC; empty for others."""
    code = getattr(error, "code", lambda: None)()
    words = {"UNAVAILABLE": "unreachable", "DEADLINE_EXCEEDED": "silent", "UNIMPLEMENTED": "no Starlink dish"}
    return words.get(getattr(code, "name", ""), "")


def _target(text: str) -> str:
    host, _, port = text.rpartition(":")
    if not host or not port.isascii() or not port.isdigit() or not 0 < int(port) < 1 << 16:
        raise argparse.ArgumentTypeError(f"{text!r} must have the form HOST:PORT")
    return text


def _options(argv: Sequence[str]) -> argparse.Namespace:
    options = parser(__doc__, traffic=False)
    options.add_argument("--hz", type=rate_hz, default=1.0, help="number of rounds per second; default 1")
    options.add_argument(
        "--target", type=_target, default=TARGET, metavar="HOST:PORT", help=f"address of the dish; default {TARGET}"
    )
    return options.parse_args(argv)


def main(argv: Sequence[str]) -> None:
    """Record until stopped."""
    chosen = _options(argv)
    check_package()
    with (
        Stop(duration_ns=chosen.duration, outlive_parent=chosen.outlive_parent, tags=chosen.tags) as stop,
        Log(chosen.output) as log,
    ):
        log.record(**header("multitracer-starlink", chosen, hz=chosen.hz, target=chosen.target))
        stop.on_tag = log.sync_probe
        dish_log = ModemLog(log)
        dish_log.clock()
        dish = Dish(chosen.target, log=dish_log, stop=stop)
        stop.on_set = partial(dish_log.clock, at_once=True)
        try:
            record(dish, dish_log, stop, hz=chosen.hz)
        finally:
            dish.close()


def check_package() -> None:
    """Raise PreflightError if the package that asks the dish is not installed."""
    if importlib.util.find_spec("starlink_grpc") is None:
        raise PreflightError("starlink-grpc-core is not installed; run `pip install 'multitracer[starlink]'`")


def check() -> None:
    """Raise PreflightError without the package, or if no dish answers at its usual address."""
    check_package()
    host, _, port = TARGET.rpartition(":")
    try:
        socket.create_connection((host, int(port)), timeout=_CHECK_S).close()
    except OSError:
        raise PreflightError(f"no Starlink dish answers at {TARGET}; connect this machine to its network") from None


COLLECTOR = Collector(
    name="starlink",
    layer="radio",
    description="a Starlink dish: latency, loss, rates, obstruction, outages",
    log_format="starlink",
    suffix=".jsonl",
    check=check,
)

if __name__ == "__main__":
    run(main)
