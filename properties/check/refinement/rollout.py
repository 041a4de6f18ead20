"""
A change that is right, and cannot be rolled out: what a field means is changed.

A server hands out leases, each with a token that fences the writes of earlier holders. Old clients
take `epoch` as the last token that was given, new ones as the next one to give. Each version by
itself gives no token twice; an old client and a new one do, one after the other.
"""

from __future__ import annotations

from herdspec import Nat, Sort, Spec, action, always, each, require, sometimes, specification


class Client(Sort):
    """Whoever wants the lease."""


class Lease(Spec):
    """One lease at a time, each with a token of its own; `epoch` is the last one given."""

    holder: Client | None = None
    epoch: Nat = 1
    token: dict[Client, Nat] = each(0)

    @action
    def grant(self, c: Client) -> None:
        """{c} takes the lease, and counts the epoch up for its token."""
        require(self.holder is None)
        self.holder = c
        self.epoch += 1
        self.token[c] = self.epoch

    @action(disturbs=True)
    def release(self, c: Client) -> None:
        """{c} gives the lease back."""
        require(self.holder == c)
        self.holder = None


def grant(self: Lease, c: Client) -> None:
    """{c} takes the lease and the epoch as its token, and counts up for the next."""
    require(self.holder is None)
    self.holder = c
    self.token[c] = self.epoch
    self.epoch += 1


@always
def no_token_is_given_twice(s: Lease) -> bool:
    """No two clients ever have the same token."""
    return all(
        s.token[a] == 0 or s.token[a] != s.token[b] for a in Client for b in Client if a != b
    )


@sometimes
def two_clients_have_had_it(s: Lease) -> bool:
    """Two clients have had the lease."""
    return any(s.token[a] != 0 and s.token[b] != 0 for a in Client for b in Client if a != b)


LAST_GIVEN = specification(Lease, no_token_is_given_twice, two_clients_have_had_it)
NEXT_TO_GIVE = LAST_GIVEN.replace("LeaseOfNext", grant=grant)
