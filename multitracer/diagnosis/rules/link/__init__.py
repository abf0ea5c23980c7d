"""Rules about the link below the transfer; they need the log of the link, or a report of the host."""
