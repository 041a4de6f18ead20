"""docs/architecture.md is what the code says: its diagram, its folders, the way of a value."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from docs import draw_architecture as drawing
from herdspec.protocols.contract.properties import CONTRACT
from properties.rules.test_house_rules import JUDGES, TRIALS

PAGE = drawing.PAGE.read_text(encoding="utf-8")
ROOM = drawing.TOPS["herdproof"] / "protocols" / "central_coordinator"
PRODUCTION = (
    "herdproof.consumer",
    "herdproof.protocols.central_coordinator.server.server",
    "herdproof.protocols.election.shell",
)


def section(title: str) -> str:
    """The text under a heading of the page."""
    found = re.search(rf"^## {title}\n(.*?)(?=^## |\Z)", PAGE, re.MULTILINE | re.DOTALL)
    assert found, f"docs/architecture.md has no section {title!r}"
    return found[1]


def test_the_drawn_parts_are_as_the_code_is() -> None:
    """The page is what `python docs/draw_architecture.py` makes of it now."""
    assert drawing.drawn(PAGE) == PAGE, "run: python docs/draw_architecture.py"


def test_an_outdated_page_is_found() -> None:
    """Another arrow, or another word in a folder's line, is a difference."""
    arrow = PAGE.replace("herdspec_check --> herdspec_engine\n", "")
    line = PAGE.replace("Trace validation: finds", "Finds")

    assert arrow != PAGE
    assert drawing.drawn(arrow) == PAGE
    assert line != PAGE
    assert drawing.drawn(line) == PAGE


def test_a_page_without_a_place_for_a_drawing_is_refused() -> None:
    """Markers that were deleted are told, not passed over."""
    with pytest.raises(ValueError, match="no place for its imports"):
        drawing.drawn(PAGE.replace("<!-- imports: drawn -->", ""))


def test_every_package_is_a_node_and_few_enough_are_to_be_read() -> None:
    """The layers are the packages that import each other, each once."""
    nodes = {name for edge in drawing.edges() for name in edge}

    assert nodes == set(drawing.LAYERS)
    assert len(drawing.LAYERS) == len(nodes) <= 18


def test_the_parts_of_a_room_are_those_of_the_house_rules() -> None:
    """What sees both sides in a protocol's folder is the same here and there."""
    assert set(drawing.JUDGED) == {Path(name).stem for name in JUDGES}
    assert set(drawing.SIMULATED) == {Path(name).stem for name in TRIALS}


def test_what_follows_from_other_arrows_is_left_out() -> None:
    """Of a → b → c and a → c, only the first two are drawn."""
    assert drawing.reduced({("a", "b"), ("b", "c"), ("a", "c")}) == [("a", "b"), ("b", "c")]


def test_the_files_on_the_way_of_a_value_are_where_the_page_says() -> None:
    """Each path stands below the root, or below the central coordinator's room."""
    paths = re.findall(r"`([\w/]+\.py)`", section("The way of one value"))

    assert len(paths) > 15
    assert not [
        path
        for path in paths
        if not (drawing.ROOT / path).is_file()
        and not (ROOM / path).is_file()
        and path != "refinement.py"  # beside the spec, as the sentence says
    ]


def test_the_answers_to_where_are_true() -> None:
    """The property is in the contract, and the Stop is sent where the page says."""
    answers = section("Where is …")

    assert "`exclusive`" in answers
    assert "exclusive" in {promise.name for promise in CONTRACT.properties}
    assert "coordinator/rebalancing/rebalance.py`" in answers
    assert "Stop()" in (ROOM / "coordinator" / "rebalancing" / "rebalance.py").read_text(
        encoding="utf-8"
    )


def test_what_runs_in_production_loads_nothing_of_the_spec() -> None:
    """Neither the shells nor the consumer bring any module of the spec along, however far away."""
    code = (
        f"import sys, {', '.join(PRODUCTION)}; print([m for m in sys.modules if 'herdspec' in m])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert done.stdout.strip() == "[]"
