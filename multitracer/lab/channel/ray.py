"""A radio channel from geometry: the rays that arrive at an antenna, and their sum over time.

Input: walls, boxes (buildings, cars), the ground and two nodes that move (`ray_scene.py`). Output: the received power
of every step, and the fades (times below a threshold). Rays are found by images of the transmitter.

What must hold: equation (1) of paper 002. No I/O and no clock; the same seed gives the same bytes. Lengths
are metres, the third axis is height, times of arrays are seconds since the start.
"""

from __future__ import annotations

from functools import lru_cache
from random import Random
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from multitracer.lab.channel.ray_scene import ON_IT_M, Scene, check_places, lengths
from multitracer.units import NS_PER_S

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from multitracer.lab.channel.ray_scene import NodeConfig, RayConfig, RayRadioConfig, Surface
    from multitracer.tables import Array, Mask, Numbers

# Where a node is at each step.


def positions(node: NodeConfig, times_s: Array, *, luck: Random) -> Array:
    """Return the positions of a node's antenna.

    Parameters
    ----------
    node : NodeConfig
    times_s : (n,) float64
        Seconds since the begin, evenly spaced from 0 on.
    luck : Random
        Random generator for random speeds.

    Returns
    -------
    (n, 3) float64, or (1, 3) of a node that stands still
        x, y and height, m.
    """
    gone_m = _gone(node, times_s, luck)
    if not gone_m.any():
        gone_m = gone_m[:1]
    heading = np.deg2rad(node.heading_deg)
    if node.radius_m > 0:
        angle = heading + gone_m / node.radius_m
        x_m, y_m = node.radius_m * np.cos(angle), node.radius_m * np.sin(angle)
    else:
        x_m, y_m = gone_m * np.cos(heading), gone_m * np.sin(heading)
    return np.column_stack([node.x_m + x_m, node.y_m + y_m, np.full(len(gone_m), node.height_m)])


def _gone(node: NodeConfig, times_s: Array, luck: Random) -> Array:
    """Return the distance in m that a node has moved at each time, (n,) float64."""
    if node.fastest_m_per_s == 0:
        return np.asarray(node.speed_m_per_s * times_s)
    count = int(times_s[-1] // node.speed_every_s) + 1
    drawn = [luck.uniform(node.slowest_m_per_s, node.fastest_m_per_s) for _ in range(count)]
    edges_s = node.speed_every_s * np.arange(count + 1)
    edges_m = np.concatenate([[0.0], np.cumsum(drawn) * node.speed_every_s])
    return np.asarray(np.interp(times_s, edges_s, edges_m))


# What a reflection leaves of a wave: a constant, or Fresnel's coefficient for upright antennas.


_OHM = 60.0
"""Factor from conductivity (S/m) times wavelength (m) to imaginary permittivity: 1/(2 pi c eps0)."""


def coefficient(radio: RayRadioConfig, surface: Surface, sine: Array) -> Array | float:
    """Return the factor by which a reflection multiplies the field.

    Parameters
    ----------
    radio : RayRadioConfig
    surface : Surface
        The reflecting surface; for vertical antennas the polarization is parallel for the ground,
        perpendicular for a wall.
    sine : (n,) float64
        Sine of the grazing angle: 0 along the surface, 1 perpendicular to it.

    Returns
    -------
    (n,) complex128, or float
        The complex factor; -1 at grazing incidence for both polarizations.
    """
    if radio.reflection == "constant":
        return radio.coefficient
    is_ground = surface.kind == "ground"
    permittivity = radio.ground_permittivity if is_ground else radio.wall_permittivity
    conductivity = radio.ground_conductivity if is_ground else radio.wall_conductivity
    complex_permittivity = permittivity - 1j * _OHM * conductivity * radio.wavelength_m
    root = np.sqrt(complex_permittivity - 1 + sine**2)
    straight = complex_permittivity * sine if is_ground else sine
    return np.asarray((straight - root) / (straight + root))


# The rays from one antenna to another, found by images of the transmitter.
#
# An image is the transmitter mirrored in a surface, and again in the next one. The straight line from the
# receiver to the last image is as long as the ray; followed back from surface to surface it gives the points
# of reflection. A ray exists at the steps where each of these points lies on its surface, and nothing is in
# the way. A ray into an edge where two surfaces meet can be followed in two orders, and counts once. Arrays
# have a line for each step, or one line if nothing moves.


_SAME_M = 1e-6
"""Images closer than this are the same: far above rounding errors at 100 km, a millionth of a wavelength."""


class Ray(NamedTuple):
    """One path from transmitter to receiver, at the steps where it exists."""

    surfaces: tuple[Surface, ...]
    """Reflecting surfaces in order; empty for the direct ray."""
    rows: Array
    """Indices of the steps at which the ray exists, (n,) int64."""
    length_m: Array
    """Length of the ray in m, (n,) float64, or (1,) if it is the same at all steps."""
    gain: Array | complex
    """Product of the reflection coefficients."""


class _Chain(NamedTuple):
    """Surfaces in the order in which a ray meets them, and the mirror images of the transmitter."""

    surfaces: tuple[Surface, ...]
    images: tuple[Array, ...]
    """Images of the transmitter: the transmitter itself, then one for each surface except possibly the last one."""
    distance: Array
    """Distance from the last surface to the previous image, m."""

    def image(self, number: int, rows: Array) -> Array:
        """Return the positions of mirror image `number` (0: the transmitter) at the steps `rows`, (n, 3) m.

        The last image is computed only when this method asks for it.
        """
        if number < len(self.images):
            return _at(self.images[number], rows)
        image, distance = _at(self.images[-1], rows), _at(self.distance, rows)
        return _mirrored(image, distance, self.surfaces[-1])


def rays_between(scene: Scene, source: Array, target: Array, radio: RayRadioConfig) -> Iterator[Ray]:
    """Yield every ray with at most `radio.order` reflections, the direct one first.

    Parameters
    ----------
    scene : Scene
        Reflecting surfaces and obstacles.
    source, target : (n, 3) or (1, 3) float64
        The antennas at each step, m.
    radio : RayRadioConfig
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
    """Yield a chain, and all chains that extend it by 1 to `left` surfaces."""
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
    """Return the points of a ray and the steps at which the ray exists.

    The points are a list of (n, 3) arrays, from the receiver over each reflection to the
    transmitter; the steps are (n,) int64.
    """
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
    """Return the rows of each array that the mask marks.

    An array with a single row is valid for all steps; it stays as it is if the mask marks any step.
    """
    if mask.all():
        return arrays
    if len(mask) == 1:
        return [array[:0] for array in arrays]
    none = not mask.any()
    return [array[mask] if len(array) == len(mask) else array[:0] if none else array for array in arrays]


def _at(array: Array, rows: Array) -> Array:
    return array if len(array) in (1, len(rows)) else array[rows]  # as many rows as lines are all of them


def _gain(chain: _Chain, points: list[Array], rows: Array, radio: RayRadioConfig) -> Array | complex:
    """Return the product of the complex reflection coefficients of a ray.

    `points` are those of `_way`: the first is the receiver.
    """
    gain: Array | complex = 1.0 + 0.0j
    last = len(chain.surfaces)
    for number, point in zip(range(last, 0, -1), points, strict=False):
        surface, way = chain.surfaces[number - 1], chain.image(number, rows) - point
        gain = gain * coefficient(radio, surface, np.abs(way @ surface.normal) / lengths(way))
    return gain


def _first_time(chain: _Chain, rows: Array, seen: dict[tuple[int, ...], list[tuple[_Chain, Array]]]) -> Mask:
    """Return a mask of the steps at which this ray is new, and add the ray to `seen`.

    The same surfaces in another order can give the same ray; such a ray is counted once.

    Parameters
    ----------
    seen : dict
        Chains and steps of each ray found so far, by the set of its surfaces.
    """
    last, new = len(chain.surfaces), np.ones(len(rows), dtype=np.bool_)
    known = seen.setdefault(tuple(sorted(map(id, chain.surfaces))), [])
    for other, steps in known:
        same = np.abs(other.image(last, rows) - chain.image(last, rows)).max(axis=1) < _SAME_M
        new &= ~(same & np.isin(rows, steps, assume_unique=True))
    known.append((chain, rows))
    return new


# When received power is below a threshold: the fades of a channel, and paper 002's numbers of them.


class Fades(NamedTuple):
    """Statistics of the intervals in which the power is below a threshold (Table I of paper 002)."""

    down_share: float
    """T_d: share of the time in which the link is down, 0 to 1."""
    number: int
    """N_f: number of fades, including those at the start and at the end."""
    mean_s: float | None
    """T_f: mean duration of a fade in s; None if there is none."""


def switches(power_dbm: Array, threshold_dbm: float) -> tuple[bool, Numbers]:
    """Return whether the power is above the threshold at the start, and the steps at which this changes."""
    is_up = power_dbm >= threshold_dbm
    return bool(is_up[0]), np.flatnonzero(is_up[1:] != is_up[:-1]) + 1


def fades_of(power_dbm: Array, threshold_dbm: float, *, step_s: float) -> Fades:
    """Return the fades of a channel with samples every `step_s` seconds.

    Examples
    --------
    >>> fades_of(np.array([-70.0, -80.0, -80.0, -70.0]), -75.0, step_s=0.5)
    Fades(down_share=0.5, number=1, mean_s=1.0)
    """
    down = power_dbm < threshold_dbm
    begins = int(down[0]) + int(np.count_nonzero(down[1:] & ~down[:-1]))
    steps = int(np.count_nonzero(down))
    return Fades(steps / len(down), begins, steps * step_s / begins if begins else None)


# The received power of a ray-traced channel over time: equation (1) of paper 002.


NO_POWER_DBM = -300.0
"""Power in dBm if no ray arrives or all cancel: 1e-30 mW, far below any noise."""


class Channel(NamedTuple):
    """Received power of each time step."""

    step_ns: int
    power_dbm: Array
    """Received power in dBm, (n,) float64; -300 where nothing arrives."""

    @property
    def time_ns(self) -> Numbers:
        """Start of each step since the start of the channel, (n,) int64 ns."""
        return np.arange(len(self.power_dbm), dtype=np.int64) * self.step_ns

    def fades(self, threshold_dbm: float) -> Fades:
        """Return the statistics of the intervals in which the power is below a threshold in dBm."""
        return fades_of(self.power_dbm, threshold_dbm, step_s=self.step_ns / NS_PER_S)


@lru_cache(maxsize=8)
def channel_of(config: RayConfig, *, seed: int) -> Channel:
    """Return the received power of a ray-traced radio.

    The last eight results are cached; callers must not change the result.

    Parameters
    ----------
    config : RayConfig
    seed : int
        Random seed of speeds and of passing cars.

    Raises
    ------
    LocalProtocolError
        If a node is inside a building or a car, goes through a wall, leaves its street, or the nodes are
        less than a wavelength apart.
    """
    times_s = np.arange(config.radio.steps) * (config.radio.step_ns / NS_PER_S)
    mobile = positions(config.mobile, times_s, luck=Random(f"{seed} speed of mobile"))
    fixed = positions(config.fixed, times_s, luck=Random(f"{seed} speed of fixed"))
    scene = Scene(config, times_s, luck=Random(f"{seed} road"))
    check_places({"mobile": mobile, "fixed": fixed}, scene, config, times_s)
    rays = rays_between(scene, mobile, fixed, config.radio)
    power_dbm = received_dbm(rays, config.radio)
    power_dbm.flags.writeable = False
    return Channel(config.radio.step_ns, power_dbm)


def received_dbm(rays: Iterable[Ray], radio: RayRadioConfig) -> Array:
    """Return the power of the sum of all rays at the antenna, (n,) float64 dBm.

    Source: paper 002, equation (1).
    """
    wavelength_m = radio.wavelength_m
    field = np.zeros(radio.steps, dtype=np.complex128)
    for ray in rays:
        wave = ray.gain * np.exp(-2j * np.pi / wavelength_m * ray.length_m) / ray.length_m
        if len(ray.rows) == radio.steps:
            field += wave
        else:
            field[ray.rows] += wave
    amplitude = np.abs(field) * wavelength_m / (4 * np.pi)
    floor = 10 ** ((NO_POWER_DBM - radio.power_dbm) / 20)
    return np.asarray(radio.power_dbm + 20 * np.log10(np.maximum(amplitude, floor)))
