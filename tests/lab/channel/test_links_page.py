"""docs/links.md: its measured tables are what the links do, and every parameter stands in it."""

from __future__ import annotations

from dataclasses import fields, is_dataclass
from typing import TYPE_CHECKING

import pytest

from multitracer.lab.channel.bluetooth_piconet import BluetoothConfig
from multitracer.lab.channel.cdma2000_radio import Cdma2000Config
from multitracer.lab.channel.cdpd_config import CdpdConfig
from tests.lab.channel.link_table import PAGE, tables, written

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.mark.slow
def test_the_measured_tables_are_reproduced() -> None:
    assert tables() == written()


def _keys(config: object) -> Iterator[str]:
    """Yield the keys of a scenario's [link], as one writes them."""
    assert is_dataclass(config)
    for each in fields(config):
        value = getattr(config, each.name)
        if each.name in ("queue", "up", "down"):
            continue
        if is_dataclass(value):
            yield from _keys(value)
        else:
            yield each.name.removesuffix("_ns")


def test_every_parameter_is_told() -> None:
    page = PAGE.read_text("utf-8")
    configs = CdpdConfig(), BluetoothConfig(), Cdma2000Config()
    missing = [key for config in configs for key in _keys(config) if f"`{key}" not in page]
    assert not missing
