"""Scenarios (TOML): hosts, link, traffic and script of a run.

Also the summary and the truth that a run writes.

Input: the name of a bundled scenario or a path (`library.py`). Output: a `Scenario` (`model.py`), checked:
unknown keys raise an error with their name. The bundled scenarios are the files in `bundled/`.
`session_folder.py` creates the folder of a run and writes what happened to each segment and frame;
`summary.py` counts.

What must hold: the simulator (virtual time) and the testbed (real kernels) run the same scenarios and write
the same files. A scenario contains everything that a run depends on, and the folder of a run contains its
scenario with the traces that it names. The truth is for judging an analysis; no analysis reads it.
"""
