"""Variants of the central coordinator: members that say which registrations are over, or resume."""
