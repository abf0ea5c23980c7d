"""Collectors write live sources to raw logs; one runs alone (`python -m collectors.NAME`) or under `capture`.

A source comes in (a kernel's sockets, a modem, a GPS receiver, a network interface); one log goes out, which
a module of `parsers` reads. Nothing is analysed here. Read first: `_collector.py` (what a collector is), then
`tcp_info.py`.

What must hold: a collector only appends to the one log that it made, and writes each record at once, so that
killing it costs at most the record that it was writing. Readings carry monotonic times; the log holds pairs
of these with the wall clock. Missed readings are counted. It ends on SIGTERM, SIGINT, SIGHUP, after
`--duration`, or when the process that started it ends.

Other packages build collectors from the names that this package exports (docs/collectors.md).
"""

from collectors._collector import Collector, collectors, installed
from collectors._log import Log
from collectors._options import header, parser, run
from collectors._ready import ready
from collectors._stop import Stop

__all__ = ["Collector", "Log", "Stop", "collectors", "header", "installed", "parser", "ready", "run"]
