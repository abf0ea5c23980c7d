"""Live sources become raw logs; a collector runs alone (`python -m collectors.NAME`) or under `capture`.

Read first: `_collector.py` (what a collector is), then `tcp_info.py`. A collector only ever
appends to the one log it made, writes each record at once, so that killing it costs at most the record it
was writing, and ends on SIGTERM, SIGINT, after `--duration`, or when the process that started it ends.
"""

from collectors._collector import Collector, collectors

__all__ = ["Collector", "collectors"]
