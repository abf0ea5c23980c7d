"""What receivers of satellite navigation say: NMEA 0183 sentences, and the reports of gpsd."""

from multitracer.protocols.position.gpsd import report
from multitracer.protocols.position.nmea import Dates, Epochs, NmeaError, sentence

__all__ = ["Dates", "Epochs", "NmeaError", "report", "sentence"]
