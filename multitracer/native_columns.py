"""What the native kernel does with columns of numbers, whatever they are about; see `native`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from multitracer.tables import Array


class Columns(Protocol):
    """`native/src/matching.rs`, `partners.rs`, `placed.rs`, `search.rs`, `spans.rs` and `bucket.rs`."""

    def identities(self, columns: list[Array], rows: Array | None, /) -> Array:
        """Return a hash of some columns of each row, or of some rows."""

    def copies(self, key: Array, /) -> tuple[Array, Array]:
        """Return how many equal keys came before each one, and how many there are."""

    def copy_numbers(self, key: Array, /) -> Array:
        """Return how many equal keys came before each one."""

    def among(self, key: Array, wanted: Array, /) -> Array:
        """Return the indexes of the keys that are among some wanted ones."""

    def shared(self, key: Array, others: list[Array], /) -> list[int]:
        """Return how many distinct keys others hold, of each of these in turn."""

    def join(
        self, near_key: Array, near_copy: Array, far_key: Array, far_copy: Array, /
    ) -> tuple[Array, Array]:
        """Return the indexes of equal (key, copy) at both points, in order of the near one."""

    def same_packets(
        self,
        near: tuple[list[Array], Array | None],
        far: tuple[list[Array], Array | None],
        only: Array | None,
        /,
    ) -> tuple[tuple[Array, Array], tuple[Array, Array, Array]]:
        """Return the indexes of packets that are the same, and which are first, equally many, and alone."""

    def place_segments(
        self, *columns: Array | tuple[Array, ...], missing: int, with_acked: bool
    ) -> dict[str, Array]:
        """Return columns of TCP_SEGMENTS by row, and the highest ACK of both sides if that is asked for."""

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
