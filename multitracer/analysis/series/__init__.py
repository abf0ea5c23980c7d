"""Time series of a connection: RTT, RTO, throughput, and the labelled series that are exported."""
