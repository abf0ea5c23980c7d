"""What was counted of each connection of a capture, before anything is concluded."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from multitracer.analysis.connections import Partition
    from multitracer.capture import Capture
    from multitracer.tables import Table


@dataclass
class Counted:
    """The connections of a capture.

    Attributes
    ----------
    capture : Capture
    connections : Table
        CONNECTIONS; row n - 1 is connection n.
    directions : Table
        DIRECTIONS; rows 2 (n - 1) and 2 (n - 1) + 1 are those of connection n.
    """

    capture: Capture
    partition: Partition
    connections: Table
    directions: Table
