"""What the native kernel does with columns of numbers, whatever they are about; see `native`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from multitracer.tables import Array


class Columns(Protocol):
    """The part of the kernel that `native/src/search.rs`, `spans.rs` and `bucket.rs` are."""

    def places(self, ordered: Array, values: Array, right: bool, /) -> Array | None:
        """Return what `numpy.searchsorted` does; None if the first column is not sorted."""

    def bucket_levels(
        self, columns: list[Array], is_lost: Array, rate: float, least: float, /
    ) -> tuple[Array, int]:
        """Return the most tokens from each loss on, and how many packets passed with less than `least`."""

    def span_minimum(self, values: Array, low: Array, high: Array, /) -> Array | None:
        """Return the minimum of values[low[i]:high[i]]; None if the stretches are not in order."""

    def first_painters(self, left: Array, right: Array, cells: int, /) -> Array | None:
        """Return the first span that covers each cell, or their number; None if one covers no cell."""

    def ordered(self, values: Array, /) -> Array:
        """Return numbers in ascending order."""
