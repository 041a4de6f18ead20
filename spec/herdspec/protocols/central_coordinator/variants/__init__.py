"""Variants of the central coordinator: members that say which of their registrations are over."""
