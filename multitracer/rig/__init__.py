"""A measurement with both its ends over a modelled link; and the radio joined to its transactions.

Read `radio_join.py` for what a measurement in the field uses too, `virtual.py` for one in virtual time.
"""

from __future__ import annotations

from multitracer.rig.radio_join import join_radio
from multitracer.rig.virtual import run_virtual

__all__ = ["join_radio", "run_virtual"]
