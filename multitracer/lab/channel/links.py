"""Makes the link that a configuration describes."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from multitracer.lab.channel.bluetooth import BluetoothLink
from multitracer.lab.channel.bluetooth_piconet import BluetoothConfig
from multitracer.lab.channel.capacity import CapacityConfig, CapacityLink
from multitracer.lab.channel.cdma2000 import Cdma2000Link
from multitracer.lab.channel.cdma2000_radio import Cdma2000Config
from multitracer.lab.channel.cdpd import CdpdLink
from multitracer.lab.channel.cdpd_config import CdpdConfig
from multitracer.lab.channel.gsm import GsmLink, LinkConfig
from multitracer.lab.channel.switched import SwitchedConfig, SwitchedLink

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from multitracer.lab.channel.gsm import OnAir
    from multitracer.lab.channel.shared.packet_link import PacketLink
    from multitracer.lab.channel.shared.scheduler import ScriptEvent

AnyLinkConfig: TypeAlias = LinkConfig | CdpdConfig | BluetoothConfig | CapacityConfig | SwitchedConfig | Cdma2000Config
LINK_KINDS: dict[str, type[AnyLinkConfig]] = {
    "gsm": LinkConfig,
    "cdpd": CdpdConfig,
    "bluetooth": BluetoothConfig,
    "capacity": CapacityConfig,
    "switched": SwitchedConfig,
    "cdma2000": Cdma2000Config,
}
"""Configuration classes by the `kind` in a scenario's [link]."""


def link_of(
    config: AnyLinkConfig,
    *,
    seed: int,
    script: Sequence[ScriptEvent] = (),
    on_air: Callable[[OnAir], None] | None = None,
) -> PacketLink:
    """Return the link that `config` describes.

    Parameters
    ----------
    config : LinkConfig, CdpdConfig, BluetoothConfig, CapacityConfig, SwitchedConfig or Cdma2000Config
        Configuration; its type decides the kind of link.
    seed : int
        The same seed gives the same radio, whatever is sent over it.
    script : sequence of ScriptEvent
        Scripted events of the link.
    on_air : callable, optional
        Called with each frame of a GSM data call; other links do not use it.
    """
    if isinstance(config, CdpdConfig):
        return CdpdLink(config, seed=seed, script=script)
    if isinstance(config, BluetoothConfig):
        return BluetoothLink(config, seed=seed, script=script)
    if isinstance(config, CapacityConfig):
        return CapacityLink(config, seed=seed, script=script)
    if isinstance(config, SwitchedConfig):
        return SwitchedLink(config, seed=seed, script=script)
    if isinstance(config, Cdma2000Config):
        return Cdma2000Link(config, seed=seed, script=script)
    return GsmLink(config, seed=seed, script=script, on_air=on_air)
