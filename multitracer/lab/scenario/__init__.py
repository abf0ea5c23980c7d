"""Scenarios (TOML): hosts, link, traffic and script of a run; and the summary and the truth that it writes.

A bundled name or a path comes in (`library.py`); out comes a `Scenario` (`model.py`), checked: unknown keys
are refused by name (`toml.py`). The bundled scenarios are the files in `bundled/`. When a run ends,
`session_folder.py` lays out its folder, `summary.py` counts, and `truth.py` writes what happened to each
segment and frame.

What must hold: the simulator (virtual time) and the testbed (real kernels) run the same scenarios and write
the same files. A scenario holds everything that a run depends on, and the folder of a run holds its scenario,
with the traces that it names.
The truth is for judging an analysis; no analysis reads it.
"""
