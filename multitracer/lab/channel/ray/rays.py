"""The rays from one antenna to another, found by images of the transmitter.

An image is the transmitter mirrored in a surface, and again in the next one. The straight line from the
receiver to the last image is as long as the ray; followed back from surface to surface it gives the
points of reflection. A ray exists at the steps where each of these points lies on its surface, and
nothing is in the way. A ray into an edge where two surfaces meet can be followed in two orders, and counts
once. Arrays have a line for each step, or one line if nothing moves.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from multitracer.lab.channel.ray.reflection import coefficient
from multitracer.lab.channel.ray.surfaces import ON_IT_M, lengths

if TYPE_CHECKING:
    from collections.abc import Iterator

    from multitracer.lab.channel.ray.config import RadioConfig
    from multitracer.lab.channel.ray.scene import Scene
    from multitracer.lab.channel.ray.surfaces import Surface
    from multitracer.tables import Array, Mask


_SAME_M = 1e-6
"""Images nearer than this are one: far above rounding at 100 km, a millionth of a wavelength."""


class Ray(NamedTuple):
    """One way from transmitter to receiver, at the steps where it exists."""

    surfaces: tuple[Surface, ...]
    """Where it is reflected, in order; none for the direct ray."""
    rows: Array
    """The steps, (n,) int64."""
    length_m: Array
    """(n,) float64, or (1,) if it is the same at all steps."""
    gain: Array | complex
    """Product of the reflection coefficients."""


class _Chain(NamedTuple):
    """Surfaces in the order in which a ray meets them, and the images of the transmitter."""

    surfaces: tuple[Surface, ...]
    images: tuple[Array, ...]
    """The transmitter first; one for each surface, or without the last one."""
    distance: Array
    """From the last surface to the image before it."""

    def image(self, number: int, rows: Array) -> Array:
        """Return an image at some steps; the last one is computed where a ray may be, which is rare."""
        if number < len(self.images):
            return _at(self.images[number], rows)
        image, distance = _at(self.images[-1], rows), _at(self.distance, rows)
        return _mirrored(image, distance, self.surfaces[-1])


def rays_between(scene: Scene, source: Array, target: Array, radio: RadioConfig) -> Iterator[Ray]:
    """Yield every ray with at most `radio.order` reflections, the direct one first.

    Parameters
    ----------
    scene : Scene
        What reflects and what is in the way.
    source, target : (n, 3) or (1, 3) float64
        The antennas at each step, m.
    radio : RadioConfig
    """
    rows = np.arange(scene.steps)
    seen: dict[tuple[int, ...], list[tuple[_Chain, Array]]] = {}
    for chain in _chains(scene, _Chain((), (source,), np.zeros(1)), rows, radio.order):
        points, held = _way(chain, target, rows)
        if len(chain.surfaces) > 1 and held.size:
            new = _first_time(chain, held, seen)
            *points, held = _kept(new, [*points, held])
        if held.size:
            *points, held = _kept(~scene.blocked(points, held), [*points, held])
        if held.size:
            length_m = lengths(points[0] - chain.image(len(chain.surfaces), held))
            yield Ray(chain.surfaces, held, length_m, _gain(chain, points, held, radio))


def _chains(scene: Scene, chain: _Chain, rows: Array, left: int) -> Iterator[_Chain]:
    """Yield a chain, and all those that go on from it with as many more surfaces as are `left`."""
    yield chain
    if left == 0:
        return
    for surface in scene.surfaces:
        if chain.surfaces and surface is chain.surfaces[-1]:
            continue
        distance = surface.distance(chain.images[-1], rows)
        if surface.both_sides or (distance > 0).any():
            images = chain.images
            if left > 1:
                images = (*images, _mirrored(images[-1], distance, surface))
            longer = _Chain((*chain.surfaces, surface), images, distance)
            yield from _chains(scene, longer, rows, left - 1)


def _mirrored(image: Array, distance: Array, surface: Surface) -> Array:
    mirrored = np.empty((max(len(image), len(distance)), 3))
    for axis, part in enumerate(surface.normal):  # rows of three at once took twelve times as long
        mirrored[:, axis] = image[:, axis] - 2 * distance * part
    return mirrored


def _way(chain: _Chain, target: Array, rows: Array) -> tuple[list[Array], Array]:
    """Return the points of a ray from the receiver back to the transmitter, and the steps that have it."""
    points, held = [target], rows
    for number in reversed(range(len(chain.surfaces))):
        surface, last = chain.surfaces[number], points[-1]
        near, far = surface.distance(last, held), surface.distance(chain.image(number, held), held)
        towards = np.sign(far) * near if surface.both_sides else np.where(far > 0, near, -1.0)
        sees = (towards > -ON_IT_M) & (far != 0)  # a point on the edge to the surface before it counts
        *points, near, far, held = _kept(sees, [*points, near, far, held])
        if not held.size:
            break
        image, share = chain.image(number + 1, held), near / (near + far)
        inside = surface.holds(points[-1], image, share, held)
        *points, image, share, held = _kept(inside, [*points, image, share, held])
        if not held.size:
            break
        points.append(points[-1] + share[:, None] * (image - points[-1]))
    return [*points, chain.image(0, held)], held


def _kept(mask: Mask, arrays: list[Array]) -> list[Array]:
    """Return the marked lines of arrays; one line alone stands for all, and goes only if none is marked."""
    if mask.all():
        return arrays
    if len(mask) == 1:
        return [array[:0] for array in arrays]
    none = not mask.any()
    return [array[mask] if len(array) == len(mask) else array[:0] if none else array for array in arrays]


def _at(array: Array, rows: Array) -> Array:
    return array if len(array) in (1, len(rows)) else array[rows]  # as many rows as lines are all of them


def _gain(chain: _Chain, points: list[Array], rows: Array, radio: RadioConfig) -> Array | complex:
    """Return the product of the reflection coefficients; points go from the receiver back."""
    gain: Array | complex = 1.0 + 0.0j
    last = len(chain.surfaces)
    for number, point in zip(range(last, 0, -1), points, strict=False):
        surface, way = chain.surfaces[number - 1], chain.image(number, rows) - point
        gain = gain * coefficient(radio, surface, np.abs(way @ surface.normal) / lengths(way))
    return gain


def _first_time(chain: _Chain, rows: Array, seen: dict[tuple[int, ...], list[tuple[_Chain, Array]]]) -> Mask:
    """Return at which steps no other order of the same surfaces gave the same ray; remember this one.

    Parameters
    ----------
    seen : dict
        Surfaces without their order -> the chain and the steps of each ray by them.
    """
    last, new = len(chain.surfaces), np.ones(len(rows), dtype=np.bool_)
    known = seen.setdefault(tuple(sorted(map(id, chain.surfaces))), [])
    for other, steps in known:
        same = np.abs(other.image(last, rows) - chain.image(last, rows)).max(axis=1) < _SAME_M
        new &= ~(same & np.isin(rows, steps, assume_unique=True))
    known.append((chain, rows))
    return new
