"""One rule for each limit that slowed a transfer for a considerable part of its time."""
