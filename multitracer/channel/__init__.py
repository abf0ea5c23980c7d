"""Radio and link models: what destroys frames, what queues packets, and the whole data call.

Read `gsm/link.py` first: it joins two `gsm/end.py` by a radio (`shared/frame_errors.py`) and plays a script.
A model does no I/O and reads no clock; the simulator and the testbed drive the same objects.
"""
