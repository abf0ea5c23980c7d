"""Further panels of the stacked figure; each file of this folder defines a panel.

A module defines `panel(transfer)`, which returns a `Panel`, or None if the transfer has no data for the
panel. Times are recorded times of the sender's clock, as in `transfer.sender` and `transfer.logged`; the
caller converts them to link time and cuts the view. (Panels must not use `transfer.series`, which is already
in link time.) The roles "reading" (a line) and "event" (points) are for series without a style of their own.
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
    """Return the panels of this folder that have data, in the order of their file names."""
    names = sorted(module.name for module in pkgutil.iter_modules(__path__))
    modules = (cast("PanelModule", importlib.import_module(f"{__name__}.{name}")) for name in names)
    panels = (module.panel(transfer) for module in modules)
    return [panel for panel in panels if panel is not None and panel.drawn]
