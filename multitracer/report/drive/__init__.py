"""What a report says of a drive: the map, the figure of radio and road, and the tables of cells."""
