"""What the modems of a sector said in a run, each second: a log of the radio, as the table `radio` in CSV.

Only a link with a pilot has one: the other links say nothing of a radio in a run of a scenario's traffic.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from multitracer.lab.channel.cdma2000.config import Cdma2000Config

if TYPE_CHECKING:
    from multitracer.lab.channel.shared.packet_link import RadioReading
    from multitracer.lab.scenario.model import Scenario

PILOT_LOG = "radio.csv"
"""In the folder of each mobile."""
PILOT_HEADER = "time_ns,source,rat,state,ecio_db,bler_pct\n"
_SOURCE, _RAT = "link", "CDMA"


def has_pilot(scenario: Scenario) -> bool:
    """Return whether the scenario's link has a pilot, whose Ec/Io its modems report."""
    return isinstance(scenario.link, Cdma2000Config)


def pilot_line(reading: RadioReading, *, time_ns: int) -> str:
    """Return the line of one reading; what the modem does not know is empty.

    Parameters
    ----------
    reading : RadioReading
    time_ns : int
        By the mobile's clock, ns since 1970.
    """
    numbers = ("" if value is None else f"{value:.2f}" for value in (reading.ecio_db, reading.bler_percent))
    return f"{time_ns},{_SOURCE},{_RAT},{reading.state},{','.join(numbers)}\n"
