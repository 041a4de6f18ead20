"""The demonstration, and its page in a real browser."""
