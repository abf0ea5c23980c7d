"""What is measured once, however many ask for it."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, TypeVar, cast

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Self

Measured = TypeVar("Measured")


class Once:
    """Something of which much is measured, by functions that it does not know."""

    def once(self, measure: Callable[[Self], Measured]) -> Measured:
        """Return what a function measures of this; it is kept."""
        if measure not in self._measured:
            self._measured[measure] = measure(self)
        return cast("Measured", self._measured[measure])

    @cached_property
    def _measured(self) -> dict[object, object]:
        return {}
