"""What was lost, held up or sent in vain."""
