"""
Names of nodes, for names that people choose; and what lies above a node.

What no node's name can hold ("/", control characters) is percent-quoted, and so is the "%" itself.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from urllib.parse import quote, unquote

_PLAIN = " !$&'()*+,;=:@~"
"""Characters that stand for themselves beside letters, digits and _.- (no "/" and no "%")."""


@lru_cache(maxsize=65_536)
def quoted(name: str) -> str:
    """
    A name as a node's name; different names are different nodes.

    >>> quoted("orders"), quoted("a/b"), quoted(".."), quoted("50%")
    ('orders', 'a%2Fb', '%2E%2E', '50%25')
    """
    return name.replace(".", "%2E") if name in (".", "..") else quote(name, safe=_PLAIN)


def unquoted(node: str) -> str:
    """The name that `quoted` made a node's name of."""
    return unquote(node)


def lineage(path: str) -> Iterator[str]:
    """
    A path, and what is above it, up to but without the root.

    >>> list(lineage("/a/b/c"))
    ['/a/b/c', '/a/b', '/a']
    """
    while path:
        yield path
        path = path.rpartition("/")[0]
