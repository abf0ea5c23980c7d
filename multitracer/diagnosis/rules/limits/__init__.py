"""One rule for each limit that held a transfer back for a considerable part of its time."""
