"""The colours of a figure stay apart for readers with each of the three kinds of colour blindness."""

from __future__ import annotations

from itertools import combinations
from typing import TYPE_CHECKING

import numpy as np
import pytest

from multitracer.diagnosis.limits.names import Limit
from multitracer.figures.palette import LIMITS, LOOKS, MISSING, ThemeName

if TYPE_CHECKING:
    from collections.abc import Mapping

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


def near(colours: Mapping[str, str], kind: str) -> dict[tuple[str, str], float]:
    seen = {name: lab(np.array(_SEEN[kind]) @ linear(colour)) for name, colour in colours.items()}
    return {
        pair: distance
        for pair in combinations(seen, 2)
        if (distance := float(np.linalg.norm(seen[pair[0]] - seen[pair[1]]))) < _APART
    }


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("kind", _SEEN)
def test_no_two_colours_become_one(kind: str, theme: ThemeName) -> None:
    assert near({role: LOOKS[role].colour(theme) for role in _ROLES}, kind) == {}


@pytest.mark.parametrize("kind", _SEEN)
def test_no_two_limits_of_a_route_become_one(kind: str) -> None:
    assert near({limit.name: LIMITS[limit] for limit in Limit} | {"no value": MISSING}, kind) == {}


def test_a_limit_has_the_hue_of_its_layer() -> None:
    layers = {Limit.LINK: "link_data", Limit.RECOVERY: "retransmission", Limit.RECEIVER_WINDOW: "sack"}
    for limit, role in layers.items():
        assert LIMITS[limit] in (LOOKS[role].light, LOOKS[role].dark)
