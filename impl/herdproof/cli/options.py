"""Arguments that commands share: which spec, and at which size it is looked at."""

from __future__ import annotations

from typing import Annotated

import typer

SpecArgument = Annotated[
    str,
    typer.Argument(
        metavar="SPEC",
        help="election, election-drafted, election/FLAW, or path/to/file.py:ClassName.",
    ),
]
SizeOption = Annotated[
    list[str] | None,
    typer.Option("--size", metavar="SORT=N", help="Elements of a sort (2 where not said)."),
]
FaultsOption = Annotated[int, typer.Option(min=0, help="How many faults may happen.")]
BoundOption = Annotated[
    int | None, typer.Option(min=1, help="The largest natural (faults + 1 where not said).")
]
MayEndOption = Annotated[
    bool, typer.Option("--may-end", help="A state without a next step is no failure.")
]
