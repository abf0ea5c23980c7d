"""What held a transfer back for a good part of its time: one finding for each limit that did."""
