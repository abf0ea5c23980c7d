"""Collectors record live sources in raw logs, alone (`python -m collectors.NAME`) or under `capture`.

The input is a source (sockets of the kernel, a modem, a GPS receiver, a network interface); the output is one
log, which a module of `parsers` reads. Collectors do not analyse data. Read `_collector.py` (the interface of
a collector) first, then `tcp_info.py`.

Invariants: a collector only appends to its own log, and writes each record immediately: if the collector is
killed, at most the last record is incomplete. Readings have monotonic times; the log contains pairs of
monotonic and wall-clock times. Missed readings are counted. A collector ends on SIGTERM, SIGINT or SIGHUP,
after `--duration`, or when its parent process ends.

Plug-ins build their own collectors with the names that this package exports (docs/collectors.md).
"""

from collectors._collector import Collector, collectors, installed
from collectors._log import Log
from collectors._options import header, parser, run
from collectors._ready import ready
from collectors._stop import Stop

__all__ = ["Collector", "Log", "Stop", "collectors", "header", "installed", "parser", "ready", "run"]
