"""A measurement with both its ends over a modelled link; and the radio joined to its transactions.

Read `radio_join.py` for what a measurement in the field uses too.
"""

from __future__ import annotations

from multitracer.rig.radio_join import join_radio

__all__ = ["join_radio"]
