"""The command line: one module for each command; modules with an underscore hold shared code.

A command module defines `command`, a click command whose docstring shows an example. A command passes its
arguments to a lower package (`recording`, `diagnosis`, `report`, `recorder`, ...) and prints the result; it
computes nothing. Read `_program.py` first (how a command runs, how errors end it), then `analyze.py`.

Invariants: a command imports modules only when it runs, so that `multitracer --help` loads neither NumPy nor
pandas. Data goes to standard output, warnings and progress to standard error. Exit status: 0 success, 1 error
(one line), 2 wrong usage, 130 interrupted. Option names, JSON keys and column names are stable.
"""

from __future__ import annotations

_YOUNG_OBJECTS = 100_000
"""Number of new objects after which Python's garbage collector runs: twice the number that the summary of a
small capture makes. The default, 700, causes seventy useless runs while modules are loaded."""


def main() -> None:
    """Run the command line with the process's arguments and exit.

    SIGTERM and SIGHUP cause a normal exit, which removes unfinished files.
    """
    import gc
    import signal
    import sys

    gc.set_threshold(_YOUNG_OBJECTS)

    def end(number: int, _: object) -> None:
        signal.signal(number, signal.SIG_IGN)  # a second one must not end the removal
        sys.exit(128 + number)

    try:
        for number in (signal.SIGTERM, getattr(signal, "SIGHUP", signal.SIGTERM)):  # Windows has no SIGHUP
            if signal.getsignal(number) is signal.SIG_DFL:  # not under nohup
                signal.signal(number, end)
        from multitracer.cli._program import run

        status = run(sys.argv[1:])
    except KeyboardInterrupt:  # while the program was being loaded, or while it ended
        status = 130
    if status == 130:  # a Ctrl-C that is held would end the interpreter in its last breath, by the signal
        signal.signal(signal.SIGINT, signal.SIG_IGN)
    gc.freeze()  # the process ends: nobody needs what a last search for cycles would free
    sys.exit(status)
