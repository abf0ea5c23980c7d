"""What a modem on a modelled link says: the link's reading, in the words of the modems that are rehearsed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from multitracer.lab.channel.bluetooth.config import BluetoothConfig
from multitracer.lab.channel.capacity.config import CapacityConfig
from multitracer.lab.channel.cdma2000.config import Cdma2000Config
from multitracer.lab.channel.cdpd.config import CdpdConfig
from multitracer.lab.channel.switched.config import SwitchedConfig

if TYPE_CHECKING:
    from multitracer.lab.channel.links import AnyLinkConfig
    from multitracer.lab.channel.shared.packet_link import RadioReading

_REGISTERED = ("registered", "connected")
_RAT: dict[type, str] = {
    BluetoothConfig: "BT",
    CdpdConfig: "CDPD",
    Cdma2000Config: "CDMA",
    CapacityConfig: "",
    SwitchedConfig: "",
}
"""A capacity trace and a switched link do not tell of which technology they are."""


def modem_profile(config: AnyLinkConfig) -> str:
    """Return the profile, and the voice, of a modem on such a link: for CDPD that of a real one."""
    return "rehearsal_cdpd" if isinstance(config, CdpdConfig) else "rehearsal_link"


def modem_values(reading: RadioReading, config: AnyLinkConfig) -> dict[str, object]:
    """Return what `multitracer.lab.rehearsal.modem` is told: columns of RADIO, None for what is not known."""
    return {
        "rat": _RAT.get(type(config), "GSM"),
        "rssi_dbm": reading.rssi_dbm,
        "bler_pct": reading.bler_percent,
        "cell_busy_pct": reading.cell_busy_percent,
        "channel": reading.channel,
        "ecio_db": reading.ecio_db,
        "registration": int(reading.state in _REGISTERED),
    }
