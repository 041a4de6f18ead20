"""A choice among protocols: members list what they support."""
