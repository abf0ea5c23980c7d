"""The colours of a figure stay apart for readers with each of the three kinds of colour blindness."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest

from multitracer.figures.palette import LOOKS, ThemeName

_SEEN = {
    "protanopia": ((0.152286, 1.052583, -0.204868), (0.114503, 0.786281, 0.099216),
                   (-0.003882, -0.048116, 1.051998)),
    "deuteranopia": ((0.367322, 0.860646, -0.227968), (0.280085, 0.672501, 0.047413),
                     (-0.011820, 0.042940, 0.968881)),
    "tritanopia": ((1.255528, -0.076749, -0.178779), (-0.078411, 0.930809, 0.147602),
                   (0.004733, 0.691367, 0.303900)),
}  # fmt: skip
"""What is left of linear red, green and blue (Machado, Oliveira and Fernandes, 2009, table 1, severity 1)."""

_XYZ = np.array(((0.4124, 0.3576, 0.1805), (0.2126, 0.7152, 0.0722), (0.0193, 0.1192, 0.9505)))
_WHITE = np.array((0.9505, 1.0, 1.089))
_ROLES = ("data", "ack", "link_data", "retransmission", "sack", "throughput", "srtt")
"""One of each colour: sent, acknowledged, link, lost, reported, capacity, the sender's own."""

_APART = 10.0
"""In CIELAB, where an eye just distinguishes 2.3 side by side; not measured for marks of 4 pixels."""


def linear(colour: str) -> np.ndarray:
    part = np.array([int(colour[at : at + 2], 16) for at in (1, 3, 5)]) / 255
    return np.where(part <= 0.04045, part / 12.92, ((part + 0.055) / 1.055) ** 2.4)


def lab(rgb: np.ndarray) -> np.ndarray:
    share = _XYZ @ np.clip(rgb, 0, 1) / _WHITE
    root = np.where(share > 0.008856, np.cbrt(share), 7.787 * share + 16 / 116)
    return np.array((116 * root[1] - 16, 500 * (root[0] - root[1]), 200 * (root[1] - root[2])))


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("kind", _SEEN)
def test_no_two_colours_become_one(kind: str, theme: ThemeName) -> None:
    seen = {role: lab(np.array(_SEEN[kind]) @ linear(LOOKS[role].colour(theme))) for role in _ROLES}
    near = {
        pair: distance
        for pair in combinations(_ROLES, 2)
        if (distance := float(np.linalg.norm(seen[pair[0]] - seen[pair[1]]))) < _APART
    }
    assert near == {}
