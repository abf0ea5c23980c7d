"""What is measured once, however many ask for it."""

from __future__ import annotations

from functools import cached_property
from threading import RLock
from typing import TYPE_CHECKING, TypeVar, cast

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Self

Measured = TypeVar("Measured")


class kept(cached_property[Measured]):  # noqa: N801  # it is used as `cached_property` is
    """A cached property for which the second of two threads waits; from Python 3.12 on, no other does."""

    def __init__(self, measure: Callable[..., Measured]) -> None:
        super().__init__(measure)
        self._measuring = RLock()

    def __get__(self, instance: object, owner: type | None = None) -> Measured:  # type: ignore[override]
        """Return what is kept, or measure it; class and instance as for any descriptor."""
        with self._measuring:
            return super().__get__(instance, owner)


class Once:
    """Something of which much is measured, by functions that it does not know."""

    def once(self, measure: Callable[[Self], Measured]) -> Measured:
        """Return what a function measures of this; it is kept."""
        with self._measuring.setdefault(measure, RLock()):  # the second of two threads waits
            if measure not in self._measured:
                self._measured[measure] = measure(self)
        return cast("Measured", self._measured[measure])

    @kept
    def _measured(self) -> dict[object, object]:
        return {}

    @kept
    def _measuring(self) -> dict[object, RLock]:
        return {}
