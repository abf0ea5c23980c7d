"""Rules about delays and queues."""
