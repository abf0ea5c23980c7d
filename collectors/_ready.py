"""How a collector tells the recorder that its source is open: one line into a pipe.

The recorder names the pipe's descriptor in the environment, so that a collector that does not know of it
works as ever. One that runs alone has nobody to tell.
"""

from __future__ import annotations

import contextlib
import os

VARIABLE = "MULTITRACER_READY_FD"
"""Names the descriptor of the pipe; the recorder, which imports no collector, has the same word."""
_LINE = b"ready\n"


def ready() -> None:
    """State, once, that the source is open: everything from now on is recorded."""
    descriptor = os.environ.pop(VARIABLE, "")
    if not descriptor.isdecimal():
        return
    with contextlib.suppress(OSError):  # the recorder is gone: that is noticed elsewhere
        os.write(int(descriptor), _LINE)
        os.close(int(descriptor))
