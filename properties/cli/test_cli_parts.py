"""Files with a composed spec, or a bound of their own, as commands take them."""

from __future__ import annotations

from pathlib import Path

from typer.testing import CliRunner

from herdproof.cli import app

PARTS = '''
from herdspec import *

class Lamp(Spec):
    """A lamp."""
    on: bool = False

    @action
    def switch(self) -> None:
        """It is switched."""
        self.on = not self.on

class Hall(Spec):
    """A hall with two lamps."""
    near: Lamp
    far: Lamp

@sometimes
def it_is_bright(s: Hall) -> bool:
    """Both are on."""
    return s.near.on and s.far.on

'''


def test_a_part_of_which_nothing_is_promised_is_no_spec_by_itself(tmp_path: Path) -> None:
    """A file with a composed spec holds that one; a part has a column if something is its own."""
    own = tmp_path / "parts.py"
    own.write_text(PARTS)
    whole = CliRunner().invoke(app, ["verify", str(own), "--no-cache", "--no-prove"])
    own.write_text(PARTS + "@always\ndef own(s: Lamp) -> bool:\n    return s.on or not s.on\n")
    both = CliRunner().invoke(app, ["explore", str(own)])

    assert whole.exit_code == 0, whole.stdout
    assert f"holds 2 specs; say which: {own}:Lamp, {own}:Hall" in both.stderr


def test_walks_keep_to_the_bound_that_the_file_says(tmp_path: Path) -> None:
    """`BOUND` is the largest natural of `simulate`, too, where the command says none."""
    own = tmp_path / "parts.py"
    own.write_text(PARTS + "BOUND = 7\n")

    said = CliRunner().invoke(app, ["simulate", str(own), "--steps", "500"])

    assert "naturals up to 7" in said.stdout
