"""Further panels of the stacked figure: one file each, found by its name.

A module binds `panel(transfer)`, which returns a `Panel` of what a transfer holds, or None where
there is nothing to show. Times are those of the sender's clock as recorded, as in `transfer.sender` and
`transfer.logged`: link time and cutting come later. (`transfer.series` is in link time already, so it is not
what a panel is made of.) The roles "reading" (a line) and "event" (points) are for series without a style
of their own.
"""

from __future__ import annotations

import importlib
import pkgutil
from typing import TYPE_CHECKING, Protocol, cast

if TYPE_CHECKING:
    from multitracer.figures.stack import Panel
    from multitracer.recording.transfer import Transfer


class PanelModule(Protocol):
    """Interface of the modules of this folder."""

    def panel(self, transfer: Transfer, /) -> Panel | None:
        """Return the panel; None if it would be empty."""


def further_panels(transfer: Transfer) -> list[Panel]:
    """Return the panels of this folder that have something to show, by the names of their files."""
    names = sorted(module.name for module in pkgutil.iter_modules(__path__))
    modules = (cast("PanelModule", importlib.import_module(f"{__name__}.{name}")) for name in names)
    panels = (module.panel(transfer) for module in modules)
    return [panel for panel in panels if panel is not None and panel.drawn]
