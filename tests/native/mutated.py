"""Reads small damaged captures by both paths: `python -m tests.native.mutated --inputs 1000000 --seed 1`.

Each capture follows from its seed alone; seeds are consecutive, so a run that was interrupted is continued by
the seed that its last line names. One whose answers differ is written to out/fuzz. Compared are what is read,
what all its segments tell, what is counted while it is read, and connections that are read alone. With
--packets, damaged packets of one link are the inputs, thousands of them in a sane capture, and what is
read is compared: faster.
"""

from __future__ import annotations

import argparse
import atexit
import io
import random
import shutil
import signal
import sys
import tempfile
import time
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

from multitracer.capture import Capture
from multitracer.native import kernel, state
from multitracer.recording.inputs import UNREADABLE
from multitracer.recording.streaming.running import analysis_of
from parsers._capture.window import WINDOW_BYTES, Window
from tests.fuzz.captures import LINKS, any_capture, broken, link_frame, parser_of
from tests.fuzz.run import samples
from tests.native.both import analyse_by_both, assert_same, counted, counted_alike, read_alone, read_by_both
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
"""CPU time. An input that takes longer has met a loop without an end: one takes 3 ms."""
_PACKETS = 5000
"""Inputs of one capture with --packets."""
_MOST_ROWS = 4
"""Of a piece: the largest input has some twenty segments."""
_FILE_IN = 4
"""One input in so many is counted as a file: to open it and to start threads takes longer than the rest."""
_FAMILY = 50
"""Inputs of one parent: to make one by grammar takes longer than to read it by both paths."""
_TOLD_EVERY_S = 60.0
_OUT = Path("out") / "fuzz"


def mutated(seed: int) -> bytes:
    """Return the input of a seed: every fiftieth is a capture, made or recorded, the rest is its damage."""
    parent = _parent(seed - seed % _FAMILY)
    return broken(random.Random(seed), parent)[:MOST_BYTES] if seed % _FAMILY else parent


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
    return any_capture(random.Random(seed), _known())[:MOST_BYTES]


@lru_cache(1)
def _known() -> list[bytes]:
    return samples()


def difference(data: bytes, *, is_analysed: bool = True) -> str | None:
    """Return how the answers to an input differ; None if they are equal."""
    signal.signal(signal.SIGVTALRM, _too_long)
    signal.setitimer(signal.ITIMER_VIRTUAL, _LONGEST_S)
    try:
        capture = read_by_both(lambda: _read(data))
        if is_analysed and isinstance(capture, Capture):
            _analyse(capture, data)
    except Exception as error:  # noqa: BLE001 - what no capture may raise is a difference, too
        return f"{type(error).__name__}: {error}"
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
    return None


def _too_long(*_: object) -> NoReturn:
    raise TimeoutError(f"it takes longer than {_LONGEST_S} s")


def _read(data: bytes) -> Capture:
    with _window_for(data):
        return parser_of(data)(io.BytesIO(data), path=str(_file()))


@contextmanager
def _window_for(data: bytes) -> Iterator[None]:
    defaults = Window.__init__.__kwdefaults__
    assert defaults
    defaults["size"] = _WINDOW_BYTES if len(data) <= MOST_BYTES else WINDOW_BYTES
    try:
        yield
    finally:
        defaults["size"] = WINDOW_BYTES  # in a small one, the search behind damage never ends


def _analyse(capture: Capture, data: bytes) -> None:
    """Compare what all segments tell with what is counted of pieces of them, or of the file as it is read."""
    native = kernel()
    assert native is not None
    whole = analyse_by_both(capture)
    is_file = not len(data) % _FILE_IN
    running = _counted_of_file(native, data) if is_file else counted(capture, 1 + data[-1] % _MOST_ROWS)
    if is_file:
        capture.files[0].bytes = len(data)
        counted_alike(str(_file()), capture, whole)
    if running is not None:  # else it asks for all segments, and the answer is theirs
        assert_same(running, whole)
        if is_file:
            with _window_for(data):
                read_alone(running, whole)


def _counted_of_file(native: Kernel, data: bytes) -> Analysis | None:
    _file().write_bytes(data)
    try:
        with _window_for(data):
            return analysis_of(native, str(_file()))
    except UNREADABLE:
        return None


@lru_cache(1)
def _file() -> Path:
    folder = tempfile.mkdtemp(prefix="multitracer-")
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


def main() -> int:
    """Run from the command line; exit status 1 if any differ, or if there is no kernel to compare."""
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--inputs", type=int, default=1_000_000)
    arguments.add_argument("--seed", type=int, default=1)
    arguments.add_argument("--packets", action="store_true")
    chosen = arguments.parse_args()
    if kernel() is None:
        sys.stderr.write(f"captures are read by {state()}: make native\n")
        return 1
    make, each, what = (packets, _PACKETS, "packets") if chosen.packets else (mutated, 1, "captures")
    following, differ = run(chosen.seed, -(-chosen.inputs // each), make)
    tried = (following - chosen.seed) * each
    words = f"{tried:,} {what} from seed {chosen.seed} on, {len(differ)} differ; next seed {following}"
    sys.stdout.write(f"{state()}: {words}\n")
    return bool(differ)


if __name__ == "__main__":
    sys.exit(main())
