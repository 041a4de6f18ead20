"""A group that somebody administers: deletions, and commits from outside."""
