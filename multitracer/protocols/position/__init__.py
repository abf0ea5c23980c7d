"""Output of satellite receivers: NMEA 0183 sentences, and the reports of gpsd.

A line comes in; a fix or a part of one comes out (`nmea.sentence`, `gpsd.report`), with time, place, height,
speed and accuracy, as far as it says so. `Epochs` joins the sentences of one instant, `Dates` gives times of
day their date.

What must hold: a line that cannot be used raises only `NmeaError` or `ReportError`; what a receiver leaves
empty is NA. A time is that of the receiver (UTC), never that of arrival.
"""

from multitracer.protocols.position.gpsd import report
from multitracer.protocols.position.nmea import Dates, Epochs, NmeaError, sentence

__all__ = ["Dates", "Epochs", "NmeaError", "report", "sentence"]
