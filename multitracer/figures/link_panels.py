"""The data link in the stacked figure: which of its series are drawn, and how they are called there."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from multitracer.figures.series import Series, in_order

if TYPE_CHECKING:
    from collections.abc import Mapping

    from multitracer.tables import Table

_ROLES = {
    "RlpRcv_data": "link_received",
    "RlpRcv_lost": "link_lost",
    "RlpRcv_dup": "link_lost",
    "RlpRcv_srej": "link_request",
    "RlpRcv_xoff": "link_stop",
    "RlpRcv_xon": "link_go",
    "RlpRcv_rst": "link_reset",
    "RlpSnd_data": "link_data",
    "RlpSnd_srej": "link_request",
    "RlpSnd_xoff": "link_stop",
    "RlpSnd_xon": "link_go",
    "RlpSnd_rexmt": "link_again",
    "RlpSnd_rst": "link_reset",
}
"""The look of each label, in the order of drawing: what must be seen comes last."""
_ONLY_IF_ASKED = frozenset({"RlpRcv_dup", "RlpRcv_srej", "RlpRcv_xoff", "RlpRcv_xon", "RlpRcv_rst"})
"""They happen a moment before or after what the sender's side shows of them."""
_COMMON = frozenset({"RlpSnd_data", "RlpRcv_data"})


def link_panel_series(link: Mapping[str, Table], *, offset_bytes: int, everything: bool) -> list[Series]:
    """Return the link's series for the time/sequence panel.

    Parameters
    ----------
    link : mapping of str to Table
        SERIES by label, as `Layers.link` has them.
    offset_bytes : int
        How much higher they are drawn, so that they stand apart from TCP's.
    everything : bool
        Also what the receiver's side shows of things that the sender's side shows.
    """
    lifted = f"; drawn {offset_bytes:,} bytes higher" if offset_bytes else ""
    drawn = []
    for label, role in _ROLES.items():
        if label not in link or (label in _ONLY_IF_ASKED and not everything):
            continue
        table = link[label]
        value = np.rint(table["value"]).astype(np.int64) + offset_bytes
        doc = f"{table.provenance['doc']} (rlpdump){lifted}"
        drawn.append(
            in_order(Series(label, role, table["time_ns"], value, rare=label not in _COMMON, doc=doc))
        )
    return drawn
