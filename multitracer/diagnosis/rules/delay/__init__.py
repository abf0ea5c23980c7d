"""What waited, and in which queue."""
