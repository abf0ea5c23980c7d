"""Reads small damaged captures by both paths: `python -m tests.native.mutated --inputs 1000000 --seed 1`.

Each capture follows from its seed alone; seeds are consecutive, so a run that was interrupted is continued by
the seed that its last line names; with --jobs, by that of each process. One whose answers differ is written
to out/fuzz. Compared are what is read, what all its segments tell (once, where damage leaves them as they
are), what is counted while it is read, and connections that are read alone. With --packets, damaged packets
of one link are the inputs, thousands of them in a sane capture, and what is read is compared: faster.
"""

from __future__ import annotations

import argparse
import atexit
import io
import os
import random
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import time
from contextlib import contextmanager
from functools import lru_cache
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

from multitracer.capture import CaptureTables
from multitracer.native import kernel, state
from multitracer.recording.inputs import UNREADABLE
from multitracer.recording.read import analysis_of
from multitracer.recording.recording import look_inside
from parsers._capture.window import WINDOW_BYTES, StreamWindow
from tests.fuzz.captures import LINKS, any_capture, broken, link_frame, overwritten, parser_of
from tests.fuzz.run import samples
from tests.native.both import (
    analyse_by_both,
    analysed_before,
    assert_same,
    counted,
    counted_alike,
    kept_alike,
    read_alone,
    read_by_both,
    what_is_analysed,
)
from tests.parsers.frames import Packet, pcap_file

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from multitracer.analysis import Analysis
    from multitracer.native import Kernel

MOST_BYTES = 4096
"""Of an input: small ones are read fast, and damage meets every kind of header in them."""
_WINDOW_BYTES = 8192
"""Holds a small input whole: to fill the usual 4 MiB with zeros takes longer than to read it."""
_LONGEST_S = 60
"""CPU time. An input that takes longer has met a loop without an end: one takes 6 ms."""
_PACKETS = 5000
"""Inputs of one capture with --packets."""
_MOST_ROWS = 4
"""Of a piece: the largest input has some twenty segments."""
_FILE_IN = 4
"""One input in so many is counted as a file: to open it and to start threads takes longer than the rest."""
_FAMILY = 50
"""Inputs of one parent: to make one by grammar takes longer than to read it by both paths."""
_IN_MEMORY = "/dev/shm"  # a folder of its own is made in it
"""There a file is written in 13 µs of CPU; on a disk in 100, and the machine waits for it."""
_TOLD_EVERY_S = 60.0
_IN_PLACE = 0.5
"""Of the parents are captures as they were recorded, of the others keep their records: what else the kernel
leaves to Python as damaged, it would hardly ever read by itself."""
_ORDERS = {struct.pack(order + "I", magic): order for order in "<>" for magic in (0xA1B2C3D4, 0xA1B23C4D)}
_OUT = Path("out") / "fuzz"
_MOST_MET = 200
"""Captures of a few families: in others the segments are others."""
_MET: dict[bytes, Analysis] = {}
"""What was analysed, by what it follows from."""


def mutated(seed: int) -> bytes:
    """Return the input of a seed: every fiftieth is a capture, made or recorded, the rest is its damage."""
    parent, rng = _parent(seed - seed % _FAMILY), random.Random(seed)
    if not seed % _FAMILY:
        return parent
    return overwritten(rng, parent) if rng.random() < _IN_PLACE else broken(rng, parent)[:MOST_BYTES]


def packets(seed: int) -> bytes:
    """Return a capture of damaged packets of one link."""
    rng = random.Random(seed)
    link_type, order = rng.choice((1, 1, 1, *LINKS)), rng.choice("<>")
    parents = [link_frame(rng, link_type)[:MOST_BYTES] for _ in range(_PACKETS // _FAMILY)]
    inputs = []
    for number in range(_PACKETS):
        data = broken(rng, parents[number // _FAMILY])
        kept = data[: rng.choice((None, None, 96, 54))]
        inputs.append(Packet(kept, None, max(len(data), 1)))  # a packet of nothing makes its record strange
    return pcap_file(inputs, link_type=link_type, order=order)


@lru_cache(1)
def _parent(seed: int) -> bytes:
    rng = random.Random(seed)
    if rng.random() < _IN_PLACE:
        return whole_records(rng.choice(_known()))
    return any_capture(rng, _known())[:MOST_BYTES]


def whole_records(data: bytes) -> bytes:
    """Return the first bytes of a capture; of plain pcap without a record that would be cut."""
    order, at, behind = _ORDERS.get(data[:4]), 24, 24
    while order and behind <= min(len(data), MOST_BYTES):
        at, behind = behind, behind + 16 + int(struct.unpack(order + "I", data[behind + 8 :][:4].ljust(4))[0])
    return data[: at if order else MOST_BYTES]


@lru_cache(1)
def _known() -> list[bytes]:
    return samples()


def difference(data: bytes, *, is_analysed: bool = True) -> str | None:
    """Return how the answers to an input differ; None if they are equal."""
    signal.signal(signal.SIGVTALRM, _too_long)
    signal.setitimer(signal.ITIMER_VIRTUAL, _LONGEST_S)
    try:
        capture = read_by_both(lambda: _read(data))
        if is_analysed and isinstance(capture, CaptureTables):
            _analyse(capture, data)
    except Exception as error:  # noqa: BLE001 - what no capture may raise is a difference, too
        return f"{type(error).__name__}: {error}"
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
    return None


def _too_long(*_: object) -> NoReturn:
    raise TimeoutError(f"it takes longer than {_LONGEST_S} s")


def _read(data: bytes) -> CaptureTables:
    with _window_for(data):
        return parser_of(data)(io.BytesIO(data), path=str(_file()))


@contextmanager
def _window_for(data: bytes) -> Iterator[None]:
    defaults = StreamWindow.__init__.__kwdefaults__
    assert defaults
    defaults["size"] = _WINDOW_BYTES if len(data) <= MOST_BYTES else WINDOW_BYTES
    try:
        yield
    finally:
        defaults["size"] = WINDOW_BYTES  # in a small one, the search behind damage never ends


def _analyse(capture: CaptureTables, data: bytes) -> None:
    """Compare what all segments tell with what is counted of pieces of them, or of the file as it is read."""
    native = kernel()
    assert native is not None
    is_file = not len(data) % _FILE_IN
    if is_file:
        _file().write_bytes(data)
        look_inside(capture.files)
    complete = _analysed(capture)
    running = _counted_of_file(native, data) if is_file else counted(capture, 1 + data[-1] % _MOST_ROWS)
    if is_file:
        capture.files[0].bytes = len(data)
        counted_alike(str(_file()), capture, complete)
        kept_alike(str(_file()), capture)
    if running is not None and is_file:
        look_inside(running.capture.files)
    if running is not None:  # else it asks for all segments, and the answer is theirs
        assert_same(running, complete)
        if is_file:
            with _window_for(data):
                read_alone(running, complete)


def _analysed(capture: CaptureTables) -> Analysis:
    """Return the analysis by both paths: most damage leaves the segments as they were, or no segment."""
    met = what_is_analysed(capture)
    if met in _MET:
        return analysed_before(capture, _MET[met])
    if len(_MET) >= _MOST_MET:
        _MET.clear()
    return _MET.setdefault(met, analyse_by_both(capture))


def _counted_of_file(native: Kernel, data: bytes) -> Analysis | None:
    _file().write_bytes(data)
    try:
        with _window_for(data):
            return analysis_of(native, str(_file()))
    except UNREADABLE:
        return None


@lru_cache(1)
def _file() -> Path:
    in_memory = _IN_MEMORY if os.access(_IN_MEMORY, os.W_OK) else None
    folder = tempfile.mkdtemp(prefix="multitracer-", dir=in_memory)
    atexit.register(shutil.rmtree, folder)
    return Path(folder) / "mutated"


def run(first_seed: int, captures: int, make: Callable[[int], bytes]) -> tuple[int, list[int]]:
    """Read the captures of consecutive seeds; return the next seed, and the seeds of those that differ."""
    differ, told_s = [], time.monotonic()
    seed = first_seed
    try:
        for seed in range(first_seed, first_seed + captures):
            data = make(seed)
            if (words := difference(data, is_analysed=make is mutated)) is not None:
                differ.append(seed)
                _keep(seed, data, words)
            if time.monotonic() - told_s > _TOLD_EVERY_S:
                told_s = time.monotonic()
                sys.stderr.write(f"{len(differ)} differ; next seed {seed + 1}\n")
    except KeyboardInterrupt:
        return seed, differ
    return first_seed + captures, differ


def _keep(seed: int, data: bytes, words: str) -> None:
    _OUT.mkdir(parents=True, exist_ok=True)
    path = _OUT / f"differs-{seed}.bin"
    path.write_bytes(data)
    sys.stderr.write(f"{path}: seed {seed}: {words}\n")


def ranges(first_seed: int, captures: int, jobs: int) -> list[tuple[int, int]]:
    """Return first seed and number of captures of each process; none is without any."""
    ends = [first_seed + captures * job // jobs for job in range(jobs + 1)]
    return [(begin, end - begin) for begin, end in pairwise(ends) if end > begin]


def by_processes(seeds: list[tuple[int, int]], each: int, flags: list[str]) -> int:
    """Read ranges of seeds at a time, each in a process that tells of its own; return 1 if one failed."""
    commands = [_command(first, captures * each, flags) for first, captures in seeds]
    processes = [subprocess.Popen(command) for command in commands]
    statuses = [_status(process) for process in processes]
    for (first, captures), status in zip(seeds, statuses, strict=True):
        if status not in (0, 1):
            sys.stdout.write(f"seeds {first} to {first + captures - 1}: the process died, status {status}\n")
    return int(any(statuses))


def _command(first_seed: int, inputs: int, flags: list[str]) -> list[str]:
    numbers = ["--inputs", str(inputs), "--seed", str(first_seed)]
    return [sys.executable, "-m", "tests.native.mutated", *numbers, *flags]


def _status(process: subprocess.Popen[bytes]) -> int:
    while True:
        try:
            return process.wait()
        except KeyboardInterrupt:  # it has got that, too, and says how far it came
            continue


def main() -> int:
    """Run from the command line; exit status 1 if any differ, or if there is no kernel to compare."""
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--inputs", type=int, default=1_000_000)
    arguments.add_argument("--seed", type=int, default=1)
    arguments.add_argument("--packets", action="store_true")
    arguments.add_argument("--jobs", type=int, default=1, help="processes, each for consecutive seeds")
    chosen = arguments.parse_args()
    if kernel() is None:
        sys.stderr.write(f"captures are read by {state()}: make native\n")
        return 1
    make, each, what = (packets, _PACKETS, "packets") if chosen.packets else (mutated, 1, "captures")
    captures = -(-chosen.inputs // each)
    if chosen.jobs > 1:
        flags = ["--packets"] if chosen.packets else []
        return by_processes(ranges(chosen.seed, captures, chosen.jobs), each, flags)
    following, differ = run(chosen.seed, captures, make)
    tried = (following - chosen.seed) * each
    words = f"{tried:,} {what} from seed {chosen.seed} on, {len(differ)} differ; next seed {following}"
    sys.stdout.write(f"{state()}: {words}\n")
    return bool(differ)


if __name__ == "__main__":
    sys.exit(main())
