"""Lemmas of the group protocol: with these its properties are inductive."""

from __future__ import annotations

LEMMAS = ()
