"""Reports what runs of code beside its spec showed."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass
class HeldReport:
    """A report of what runs showed, and could not; it grows with each run of the same `Held`."""

    taken: dict[str, int] = field(default_factory=dict)
    """By action, how often the code took it when it was offered."""
    refused: dict[str, int] = field(default_factory=dict)
    """By action, how often the code refused it, as it must."""
    open: dict[str, int] = field(default_factory=dict)
    """By action, how often it was refused where nobody knows if some choice was possible."""
    disturbed: dict[str, int] = field(default_factory=dict)
    """By disturbance, how often it was brought about."""
    runs: int = 0
    """The number of times that the code was begun, and seen."""
    waits: int = 0
    """The number of waits for what is due."""
    largest: int = 1
    """The most states that the spec may have been in at once."""
    unseen: tuple[str, ...] = ()
    """Fields, and entries of maps, of which nothing was ever seen."""
    left: dict[str, int] = field(default_factory=dict)
    """Things left behind when the code had ended, and how often."""

    @property
    def steps(self) -> int:
        """The number of offered steps that the code took."""
        return sum(self.taken.values())
