"""Bluetooth 1.1: PPP over RFCOMM between a mobile, the slave, and an access point, the master.

In come IP packets at two sides, `config.py`, a script and a seed; out come packets, events and readings of
the modem. Read `link.py` first: it draws the way of a packet. `rfcomm.py` puts octets into frames, under
credits; `piconet.py` takes turns and repeats each baseband packet until it arrives; `bit_errors.py` says how
often bits are wrong, how likely a packet then fails, and which link quality the modem reports.

What must hold: nothing is lost but by a full queue or a lost connection, and order is kept. Everything
happens in order of one scheduler, in whole slots of 625 µs, at times that do not depend on how often the
driver calls. What the model leaves out is in docs/links.md, where each number comes from in `config.py`.
"""
