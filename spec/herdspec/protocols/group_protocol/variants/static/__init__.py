"""Static membership: lives of one member."""
