"""What somebody writes who writes an adapter for the first time, and what it says then."""

from __future__ import annotations

import re

import pytest

from herdproof.conformance.adapter import AdapterError
from herdproof.conformance.holding.held import Held
from properties.conformance.leases import LEASE, Client, Leases


def test_a_coroutine_is_told_to_be_run() -> None:
    """A method that is `async` did nothing yet: it is no step, and no refusal."""

    class Awaited(Leases):
        """Its writes are awaited by nobody."""

        async def write(self, c: Client) -> None:  # type: ignore[override]
            """A client writes."""

    said = r"Awaited\.write is `async`, and nobody awaits it: write `def write`"
    with Held(LEASE, Awaited, Client=1) as held, pytest.raises(AdapterError, match=said):
        held.offer("write", Client(0))


@pytest.mark.parametrize(
    ("name", "table", "said"),
    [
        ("offered", "write", "offered is 'write', a text: write a tuple, ('write',)"),
        ("silent", "grant", "silent is 'grant', a text: write a tuple, ('grant',)"),
        ("chosen", {"ask": "c"}, "chosen['ask'] is 'c', a text: write a tuple, ('c',)"),
        (
            "disturbed",
            {"restart": "expire"},
            "disturbed['restart'] is 'expire', a text: write a tuple, ('expire',)",
        ),
    ],
)
def test_a_text_where_several_names_stand_is_told_to_be_a_tuple(
    name: str, table: object, said: str
) -> None:
    """Its letters are not taken for names."""
    odd = type("Odd", (Leases,), {name: table})

    with pytest.raises(AdapterError, match=re.escape(f"Odd.{said}")):
        Held(LEASE, odd, Client=1)
