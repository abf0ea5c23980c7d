"""What a testbed run is told and what it tells: scenarios (TOML) and the summary of a run.

The simulator (virtual time) and the testbed (real kernels) run the same scenarios and write the same
summary. Read `model.py` first; the bundled scenarios are the files in `bundled/`.
"""

from __future__ import annotations

from multitracer.scenario.library import bundled_links, bundled_names, load_scenario, read_error_trace
from multitracer.scenario.model import HostClock, Scenario, Traffic

__all__ = [
    "HostClock",
    "Scenario",
    "Traffic",
    "bundled_links",
    "bundled_names",
    "load_scenario",
    "read_error_trace",
]
