"""Rules about losses, delays of data, and needless retransmissions."""
