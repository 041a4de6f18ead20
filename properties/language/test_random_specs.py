"""The random specs of the other suites: well typed, and every construct of the language in them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

from hypothesis import HealthCheck, Phase, given, settings

from herdspec import from_source
from properties.language.random_specs import NAMES, sources, used

SPECS = 400


def test_random_specs_show_every_construct(report: Callable[[str], None]) -> None:
    """Each construct of docs/language.md occurs in at least one of a hundred random specs."""
    shown: Counter[str] = Counter()
    written = 0

    @settings(
        max_examples=SPECS, database=None, derandomize=True, deadline=None,
        phases=[Phase.generate], suppress_health_check=list(HealthCheck),
    )  # fmt: skip
    @given(sources())
    def count(text: str) -> None:
        nonlocal written
        written += 1
        from_source(text, "Random")
        shown.update(used(text))

    count()

    rates = sorted((shown[name] / written, name) for name in NAMES)
    for k in range(0, len(rates), 6):
        line = ", ".join(f"{name} {rate:.0%}" for rate, name in rates[k : k + 6])
        report(f"random specs show: {line}")
    assert rates[0][0] >= 0.01, rates[:5]
