"""Common parts of all links: the interface of a link, its queue, and the radio that destroys frames.

Input: packets with their times, the configurations of queues and errors, a script, and a seed. Output:
packets, events and readings of a modem, through the interface in `packet_link.py`: read it first. A packet
waits in the queue (`queue.py`) of an interface (`interface.py`). `frame_errors.py` decides which frames the
radio destroys, by random numbers or a recorded trace; `outages.py` computes the received power and the times
without a channel. A link that is driven by events keeps them and a scenario's script in a `scheduler.py`.

What must hold: no I/O, and no clock; time is passed in and never decreases. The same seed gives the same
radio, whatever is sent over it and however often it is called. Nothing here depends on GSM, CDPD or
Bluetooth; the modules beside this package import it, never the reverse.
"""
