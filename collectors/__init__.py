"""Live sources become raw logs; a collector runs alone (`python -m collectors.NAME`) or under `capture`.

Read first: `_collector.py` (what a collector is), then `tcp_info.py`. A collector only ever
appends to the one log it made, writes each record at once, so that killing it costs at most the record it
was writing, and ends on SIGTERM, SIGINT, SIGHUP, after `--duration`, or when the process that started it
ends.
What is exported here is what a collector of another package is made of (docs/collectors.md).
"""

from collectors._collector import Collector, collectors, installed
from collectors._log import Log
from collectors._options import header, parser, run
from collectors._ready import ready
from collectors._stop import Stop

__all__ = ["Collector", "Log", "Stop", "collectors", "header", "installed", "parser", "ready", "run"]
