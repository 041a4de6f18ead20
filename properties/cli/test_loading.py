"""Files of the user's own that fail while they are imported: what is said, and of which line."""

from __future__ import annotations

from pathlib import Path

import pytest

from properties.cli.files import run

NOT_ASKED = 2


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("\nraise RuntimeError('no')", "RuntimeError: no (broken.py, line 2)"),
        ("\n\nimport not_there_at_all", "'not_there_at_all' (broken.py, line 3)"),
        ("\nfrom neighbour import x", "neighbours (neighbour.py, line 3)"),
        ("\nimport json\njson.loads('{')", "(char 1) (broken.py, line 3)"),
        ("\nclass A(:", "SyntaxError: invalid syntax (broken.py, line 2)"),
    ],
)
def test_what_fails_on_import_is_told_with_its_line(tmp_path: Path, text: str, said: str) -> None:
    """The last line of the user's own, wherever below it was raised."""
    (tmp_path / "neighbour.py").write_text("\n\nraise ValueError('neighbours')")
    broken = tmp_path / "broken.py"
    broken.write_text(text)

    done = run("explore", broken)

    assert done.exit_code == NOT_ASKED
    assert done.stderr.strip().endswith(said)
