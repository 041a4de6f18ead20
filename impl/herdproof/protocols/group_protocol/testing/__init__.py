"""A broker for tests of one's own consumers: its clock, its faults and its bugs are the test's."""
