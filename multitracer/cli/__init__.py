"""The command line: one module for each command; modules with an underscore hold shared code.

A command module binds `command`, a click command whose docstring shows an example. Arguments come in; the
command calls a lower package (`recording`, `diagnosis`, `report`, `recorder`, ...) and prints its result.
Nothing is computed here. Read `_program.py` first (how a command runs, how errors end it), then `analyze.py`.

What must hold: a command imports what it needs when it runs, so `multitracer --help` loads neither NumPy nor
pandas. Data goes to standard output, warnings and progress to standard error. Exit status: 0 fine, 1 an error
(one line), 2 wrong usage, 130 interrupted. Option names, JSON keys and column names are stable.
"""

from __future__ import annotations

_YOUNG_OBJECTS = 100_000
"""New objects after which Python looks for cycles of dead ones: twice what a small capture's summary makes.
By default it looks after each 700: seventy times while modules load, and finds next to nothing."""


def main() -> None:
    """Run the command line with the process's arguments and exit.

    SIGTERM and SIGHUP end it as an exit does, which removes unfinished files.
    """
    import gc
    import signal
    import sys

    gc.set_threshold(_YOUNG_OBJECTS)

    def end(number: int, _: object) -> None:
        signal.signal(number, signal.SIG_IGN)  # a second one must not end the removal
        sys.exit(128 + number)

    try:
        for number in (signal.SIGTERM, signal.SIGHUP):
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
