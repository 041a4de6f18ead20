"""Subscriptions that change while their members consume."""
