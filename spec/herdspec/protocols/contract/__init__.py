"""The contract: what every group coordination protocol owes its users; their specs refine it."""

from herdspec.protocols.contract.spec import GroupContract

__all__ = ["GroupContract"]
