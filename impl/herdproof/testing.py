"""
Holds code to its spec in tests: the public names, and the pytest plugin that collects stories.

`from herdproof.testing import Adapter, stateful` and so on: see `PUBLIC`, and docs/conformance.md.
Names are imported when they are asked for.

The plugin collects every `*.story.json` in a test folder as a regression test. A story file (see
`herdproof replay`) says what is expected of it: that its property `fails` along it, that it `holds`
now, or that the story is `impossible` now. The test replays the story on the spec, and on the code
if there is some (the adapter that the file names as its `code`, else the one beside the spec), and
fails where either does something else; where the code cannot follow, it is skipped, and says so. A
fixed bug is kept by saving its story, fixing it, and `herdproof replay --accept FILE`.

The plugin comes with the package; nothing of the checkers is imported before it is needed.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from contextlib import AbstractContextManager, ExitStack
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import pytest

if TYPE_CHECKING:
    from herdproof.conformance.adapter import Adapter as Adapter
    from herdproof.conformance.adapter import AdapterError as AdapterError
    from herdproof.conformance.adapter import CannotLoad as CannotLoad
    from herdproof.conformance.adapter import Refused as Refused
    from herdproof.conformance.graphs.edges import Coverage as Coverage
    from herdproof.conformance.graphs.edges import cover as cover
    from herdproof.conformance.holding.held import Differs as Differs
    from herdproof.conformance.holding.held import Hangs as Hangs
    from herdproof.conformance.holding.held import Held as Held
    from herdproof.conformance.holding.held import TooManyStates as TooManyStates
    from herdproof.conformance.solver.solved import solved as solved
    from herdproof.conformance.solver.state_tests import states as states
    from herdproof.conformance.story_tests import stories as stories
    from herdproof.conformance.suites import edges as edges
    from herdproof.conformance.suites import suite as suite
    from herdproof.conformance.traces.mapping import TraceMap as TraceMap
    from herdproof.conformance.traces.tracer import Tracer as Tracer
    from herdproof.conformance.walks.stateful import stateful as stateful
    from herdproof.conformance.walks.walk import walk as walk
    from herdproof.protocols.group_protocol.judged.delivered import (
        ContractBroken as ContractBroken,
    )
    from herdproof.protocols.group_protocol.testing.broker import LocalBroker as LocalBroker
    from herdproof.protocols.group_protocol.testing.errors import BadBrokerUse as BadBrokerUse
    from herdproof.protocols.group_protocol.testing.errors import FaultNeverCame as FaultNeverCame
    from herdproof.protocols.group_protocol.testing.scenarios import SCENARIOS as SCENARIOS
    from herdproof.protocols.group_protocol.testing.scenarios import (
        ScenarioConsumers as ScenarioConsumers,
    )
    from herdproof.protocols.group_protocol.testing.scenarios import play as play
    from herdproof.services import KafkaService as KafkaService
    from herdproof.services import ZooKeeperService as ZooKeeperService

_S = TypeVar("_S")

PUBLIC = {
    "Adapter": "herdproof.conformance.adapter",
    "AdapterError": "herdproof.conformance.adapter",
    "BadBrokerUse": "herdproof.protocols.group_protocol.testing.errors",
    "CannotLoad": "herdproof.conformance.adapter",
    "ContractBroken": "herdproof.protocols.group_protocol.judged.delivered",
    "Coverage": "herdproof.conformance.graphs.edges",
    "Differs": "herdproof.conformance.holding.held",
    "FaultNeverCame": "herdproof.protocols.group_protocol.testing.errors",
    "Hangs": "herdproof.conformance.holding.held",
    "Held": "herdproof.conformance.holding.held",
    "KafkaService": "herdproof.services",
    "LocalBroker": "herdproof.protocols.group_protocol.testing.broker",
    "Refused": "herdproof.conformance.adapter",
    "SCENARIOS": "herdproof.protocols.group_protocol.testing.scenarios",
    "ScenarioConsumers": "herdproof.protocols.group_protocol.testing.scenarios",
    "TooManyStates": "herdproof.conformance.holding.held",
    "TraceMap": "herdproof.conformance.traces.mapping",
    "Tracer": "herdproof.conformance.traces.tracer",
    "ZooKeeperService": "herdproof.services",
    "cover": "herdproof.conformance.graphs.edges",
    "edges": "herdproof.conformance.suites",
    "play": "herdproof.protocols.group_protocol.testing.scenarios",
    "solved": "herdproof.conformance.solver.solved",
    "stateful": "herdproof.conformance.walks.stateful",
    "states": "herdproof.conformance.solver.state_tests",
    "stories": "herdproof.conformance.story_tests",
    "suite": "herdproof.conformance.suites",
    "walk": "herdproof.conformance.walks.walk",
}
"""
The public names, each with the module that it is imported from when it is asked for.

`dir` does not list them: pytest asks a plugin for whatever is listed, at its start.
"""


if not TYPE_CHECKING:  # type checkers would else take every name for one of ours

    def __getattr__(name: str) -> Any:
        """A public name, imported now."""
        if name not in PUBLIC:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        module, _, attribute = PUBLIC[name].partition(":")
        return getattr(import_module(module), attribute or name)


# ── The plugin ──────────────────────────────────────────────────────────────────────────────

SUFFIX = ".story.json"


def pytest_configure(config: pytest.Config) -> None:
    """Keep warnings about how kafka-python loads its schemas from those of a user's tests."""
    config.addinivalue_line(
        "filterwarnings", "ignore:(open|read)_text is deprecated:DeprecationWarning"
    )


def pytest_collect_file(file_path: Path, parent: pytest.Collector) -> StoryModule | None:
    """Collect a story file."""
    if not file_path.name.endswith(SUFFIX):
        return None
    return StoryModule.from_parent(parent, path=file_path)


class StoryModule(pytest.File):
    """A story file, which holds one test."""

    def collect(self) -> Iterator[pytest.Item]:
        """The test, named after the property."""
        _, _, name = self.path.name.removesuffix(SUFFIX).rpartition(".")
        yield StoryItem.from_parent(self, name=name)


_PASSED = pytest.StashKey[bool]()
"""True once a test's own part has passed, for fixtures that end after it."""
NOT_SHOWN = "herdproof: not shown"
"""Under which name a test's report carries what the test does not show."""


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item,
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Put what a generated test does not show into its report; workers of xdist send it on."""
    report = yield
    gaps = getattr(getattr(item, "cls", None), "gaps", None)
    if report.when == "call":
        item.stash[_PASSED] = report.passed
    if report.when == "call" and callable(gaps):
        report.user_properties.extend((NOT_SHOWN, gap) for gap in gaps())
    return report


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """Say at the end what was not shown by what passed: a test that sees little shows little."""
    lines = [
        f"{test.nodeid}: {value}"
        for test in terminalreporter.getreports("passed")
        for name, value in getattr(test, "user_properties", ())
        if name == NOT_SHOWN
    ]
    if lines:
        terminalreporter.section("held to a spec, but not shown")
        terminalreporter.write_line("\n".join(lines))


class Unexpected(Exception):
    """A story did not come as its file expects, or the code went elsewhere; lines tell how."""


class StoryItem(pytest.Item):
    """The replay of one story."""

    def runtest(self) -> None:
        """Replay it."""
        from herdproof.cli.code.stories import judged

        verdict = judged(self.path)
        if not verdict.as_expected:
            raise Unexpected("\n".join(verdict.lines))
        if verdict.not_shown:
            pytest.skip(verdict.not_shown)

    def repr_failure(self, excinfo: pytest.ExceptionInfo[BaseException], *_: Any) -> Any:
        """The story without a traceback; what is wrong with a file in one sentence."""
        expected = type(excinfo.value).__name__ in (
            "AdapterError", "SpecError", "Unexpected", "UsageError",
        )  # fmt: skip
        return str(excinfo.value) if expected else super().repr_failure(excinfo)

    def reportinfo(self) -> tuple[Path, None, str]:
        """Where it stands, and what it is called."""
        return self.path, None, f"story: {self.name}"


# ── Services ────────────────────────────────────────────────────────────────────────────────


def pytest_addoption(parser: pytest.Parser) -> None:
    """Where `herdproof_zookeeper` and `herdproof_kafka` run, by the command line or a file."""
    parser.addini("herdproof_services", "where the services run: embedded, or docker", default="")
    parser.addini("herdproof_zookeeper_image", "the image of herdproof_zookeeper in Docker")
    parser.addini("herdproof_kafka_image", "the image of herdproof_kafka in Docker")
    parser.getgroup("herdproof").addoption(
        "--herdproof-services", choices=["embedded", "docker"], default=None,
        help="where herdproof_zookeeper and herdproof_kafka run (instead of herdproof_services)",
    )  # fmt: skip


@pytest.fixture(scope="session")
def _herdproof_zookeeper(pytestconfig: pytest.Config) -> Iterator[ZooKeeperService]:
    from herdproof.services import ZOOKEEPER_IMAGE, zookeeper_service

    image = pytestconfig.getini("herdproof_zookeeper_image") or ZOOKEEPER_IMAGE
    yield from _served(zookeeper_service(_where(pytestconfig), image))


@pytest.fixture(scope="session")
def _herdproof_kafka(pytestconfig: pytest.Config) -> Iterator[KafkaService]:
    from herdproof.services import KAFKA_IMAGE, kafka_service

    image = pytestconfig.getini("herdproof_kafka_image") or KAFKA_IMAGE
    yield from _served(kafka_service(_where(pytestconfig), image))


@pytest.fixture
def herdproof_zookeeper(_herdproof_zookeeper: ZooKeeperService) -> Iterator[ZooKeeperService]:
    """A real ZooKeeper without nodes, and a network to it: `hosts`, `proxy`, `kill`, and more."""
    yield _herdproof_zookeeper
    _herdproof_zookeeper.mend()


@pytest.fixture
def herdproof_kafka(_herdproof_kafka: KafkaService) -> Iterator[KafkaService]:
    """A real Kafka of one broker, and a network to it: `bootstrap`, `proxy`, `create_topic`."""
    yield _herdproof_kafka
    _herdproof_kafka.mend()


@pytest.fixture
def herdproof_brokers(request: pytest.FixtureRequest) -> Iterator[Callable[..., LocalBroker]]:
    """Makes brokers in this process, as `LocalBroker` does; each ends with the test."""
    from herdproof.errors import HerdError
    from herdproof.protocols.group_protocol.judged.delivered import (
        ContractBroken as ContractBroken,
    )
    from herdproof.protocols.group_protocol.testing.broker import LocalBroker

    with ExitStack() as stack:
        made: list[LocalBroker] = []

        def make(*args: Any, **more: Any) -> LocalBroker:
            broker = LocalBroker(*args, **more).start()
            stack.callback(broker.close)
            made.append(broker)
            return broker

        yield make
        stack.close()
        try:
            for broker in made if request.node.stash.get(_PASSED, False) else ():
                broker.check_faults()
        except HerdError as error:
            pytest.fail(str(error), pytrace=False)


@pytest.fixture
def herdproof_broker(
    request: pytest.FixtureRequest, herdproof_brokers: Callable[..., LocalBroker]
) -> LocalBroker:
    """A broker in this process; an indirect parameter is a mapping of `LocalBroker`'s options."""
    return herdproof_brokers(**getattr(request, "param", {}))


def _where(config: pytest.Config) -> str:
    """Where services are to run."""
    said = config.getoption("herdproof_services") or config.getini("herdproof_services")
    return str(said or "embedded")


def _served(service: AbstractContextManager[_S]) -> Iterator[_S]:
    """A service; one that cannot be had fails its tests in one sentence."""
    from herdproof.errors import HerdError

    with ExitStack() as stack:
        try:
            made = stack.enter_context(service)
        except HerdError as error:
            pytest.fail(str(error), pytrace=False)
        yield made
