"""Commands about code and its traces."""
