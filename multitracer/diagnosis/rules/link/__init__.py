"""What the link under the transfer did: it needs the log of the link, or the host's own word."""
