"""Specs of who may have what others want, too: locks, tickets, resources."""
