"""Commands about specs."""
