"""Specs as files of somebody's own, for the tests of the command line, and the command line."""

from __future__ import annotations

import linecache
import sys
from pathlib import Path
from tempfile import gettempdir

from typer.testing import CliRunner, Result

from herdproof.cli import app
from herdproof.cli.code.stories import _found
from herdproof.cli.loading import OWN

ROOT = Path(__file__).parents[2]

LAMPS = '''
"""Lamps, and a fuse."""
from herdspec import *

class Lamp(Sort):
    """A lamp."""

class Lamps(Spec):
    """Lamps are switched on, and a fuse blows."""
    on: dict[Lamp, bool] = each(False)
    blown: bool = False

    @action
    def switch_on(self, l: Lamp) -> None:
        """{l} is switched on."""
        require(not self.blown)
        require(not self.on[l])
        self.on[l] = True

    @action(kind=fault)
    def blow(self) -> None:
        """The fuse blows."""
        self.blown = True
        for l in Lamp:
            self.on[l] = False

@always
def never_all(s: Lamps) -> bool:
    """Never are all lamps on."""
    return not all(s.on[l] for l in Lamp)

@step
def what_is_on_stays_on(before: Lamps, after: Lamps) -> bool:
    """A lamp that is on stays on."""
    return all(not before.on[l] or after.on[l] for l in Lamp)
'''

TALLY = '''
from herdspec import *

class Tally(Spec):
    """It counts."""
    count: Nat = 0

    @action
    def more(self) -> None:
        """One more."""
        self.count = self.count + 1
'''

POST = '''
"""A post office."""
from dataclasses import dataclass
from typing import Annotated
from herdspec import *

class Box(Sort):
    """A box."""

@dataclass(frozen=True)
class Letter:
    to: Box
    express: bool

class Post(Spec):
    """Letters are posted and delivered."""
    queue: Annotated[list[Letter], Capacity(1)] = empty()
    got: dict[Box, bool] = each(False)
    opened: bool = False
    last: Letter | None = None

    @initial
    def start(self, o: bool) -> None:
        """It is open or not."""
        self.opened = o

    @action
    def send(self, b: Box, e: bool) -> None:
        """A letter is sent to {b}."""
        require(self.opened)
        if not self.opened:
            self.got[b] = False
        self.queue.append(Letter(to=b, express=e))

    @action
    def deliver(self, b: Box) -> None:
        """{b} gets its letter."""
        require(len(self.queue) > 0)
        require(self.queue[0].to == b)
        self.last = self.queue[0]
        self.queue.pop(0)
        self.got[b] = True

    @action
    def look(self) -> None:
        """Somebody looks at the last letter."""
        require(self.opened)
        if self.last.express:
            self.opened = False
'''
AT_MOST_ONE = '''
@always
def at_most_one(s: Lamps) -> bool:
    """At most one lamp is on."""
    return all(not (s.on[a] and s.on[b]) for a in Lamp for b in Lamp if a != b)
'''

WITNESS = '''
@sometimes
def blown_at_last(s: Lamps) -> bool:
    """The fuse has blown."""
    return s.blown
'''

GLOWS = '''
@eventually
def it_glows_at_last(s: Lamps) -> bool:
    """At last a lamp is on."""
    return any(s.on[l] for l in Lamp)
'''
"""Several initial states, messages in a channel, and a step that may have no meaning."""


def run(*arguments: str | Path, answers: str = "") -> Result:
    """Run a command in this process; it reads these lines."""
    return CliRunner().invoke(app, [str(a) for a in arguments], input=answers)


def run_alone(*arguments: str | Path) -> Result:
    """Run a command as in a new process: temporary files that were imported are read again."""
    _found.cache_clear()
    for name, module in list(sys.modules.items()):
        file = getattr(module, "__file__", None) or ""
        # Ours may lie among temporary files, too, where somebody tries a clone.
        ours = file.startswith(str(ROOT)) or name.startswith((OWN, "__main__"))
        if file.startswith(gettempdir()) and not ours:
            del sys.modules[name]
            linecache.cache.pop(file, None)
    return run(*arguments)
