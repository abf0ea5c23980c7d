"""What the sender's kernel logged of its TCP: whose reading it is, in bytes, and the phase it shows."""
