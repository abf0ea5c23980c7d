"""Common parts of all links: the interface of a link, its queue, and the radio that destroys frames.

In come packets with their times, the configurations of queues and errors, a script, and a seed. Out come
packets, events and readings of a modem, as `packet_link.py` promises drivers: read it first. On the way a
packet waits in the queue of an `interface.py` (`queue.py`); whether the radio destroys
a frame is decided by `frame_errors.py` (chance, or a recorded trace), and where power counts by
`outages.py`, which says, too, when there is no channel at all. A link that is driven by events keeps them
and a scenario's script in a `scheduler.py`.

What must hold: no I/O, no clock but the time that is passed in, which never goes back. The same seed gives
the same radio, whatever is sent over it and however often it is asked. Nothing here knows GSM, CDPD or
Bluetooth; the modules beside this folder import it, never the other way.
"""
