"""A corpus of known causes: real kernel TCP over a path whose every packet's fate is known.

`python -m tests.causes record FOLDER --seeds 1-24` records, `judge` compares what the program says with the
truth, which is made of the path's log, the applications' journals and the kernel's variables alone.

- `kinds` lists what there is (docs/contributing/causes.md), `scenario` draws what happens from a seed,
- `record` makes it happen: `lay` puts `path.c` between two namespaces, `app` runs at both, tcpdump and
  `collectors.tcp_info` beside it; `ticks` coarsens timestamps and sets clocks apart,
- `truth` splits the time of each transfer by what limited it, `group` that of several; `judge` holds the
  program's answer against them.
"""
