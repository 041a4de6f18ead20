"""Compares two specs: one that refines the other, or two versions of one."""
