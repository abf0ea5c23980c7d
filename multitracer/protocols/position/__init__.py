"""What receivers of satellite navigation say: NMEA 0183 sentences, and the reports of gpsd."""

from multitracer.protocols.position.gpsd import report
from multitracer.protocols.position.nmea import Epochs, NmeaError, dated, sentence

__all__ = ["Epochs", "NmeaError", "dated", "report", "sentence"]
