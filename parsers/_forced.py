"""How the user wants captures to be read, whatever their files say: options such as --time-unit and --no-decap.

A choice holds for the whole process, because threads of a reading need it, too. A worker in another process gets it
with its task.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

FORCED: list[dict[str, object]] = []
"""The choices by name; the last entry holds, and contains those before it. Without an entry, the files decide."""


@contextmanager
def force_reading(**choices: object) -> Iterator[None]:
    """Read captures in this way during the `with` block.

    Parameters
    ----------
    **choices
        ``time_unit``: unit of the time stamps of pcap and pcapng, one of "s", "ms", "us", "ns"; ``decap``: False
        counts the packets of tunnels as they are, and does not read what is inside them; ``keep_duplicates``: True
        keeps the copies of packets that were captured more than once.
    """
    held = forced_reading() | choices
    FORCED.append(held)
    try:
        yield
    finally:
        del FORCED[next(at for at, each in enumerate(FORCED) if each is held)]  # other threads may force, too


def forced_reading() -> dict[str, object]:
    """Return the choices that hold now, by name."""
    return dict(FORCED[-1]) if FORCED else {}
