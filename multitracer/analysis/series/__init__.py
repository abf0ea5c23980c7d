"""What changes while a connection runs: RTT, RTO, throughput, and the labelled series that are exported."""
