"""Rules about the handshake and the end of a connection."""
