"""The radio and the road, drawn: panels over time, and the scales of colours of a map."""
