"""Parts of a client that joins by the group protocol: its arguments, its core, its session."""

from __future__ import annotations

import secrets
import socket
from collections.abc import Mapping, Sequence

from herdproof.consuming.fetching.streams import Streams
from herdproof.consuming.listener import ListenerThread
from herdproof.consuming.membership import BadArgument, ConsumerArguments, Observe, both
from herdproof.consuming.stored_groups import AskAll, GroupsAdmin
from herdproof.consuming.subscription import Subscription
from herdproof.protocols.group_protocol.client.assignors.assignor import (
    PartitionAssignor,
    RebalanceProtocol,
)
from herdproof.protocols.group_protocol.client.assignors.named import ASSIGNORS
from herdproof.protocols.group_protocol.client.core.consumer import GroupConsumer
from herdproof.protocols.group_protocol.client.core.events import AssignTo, Node, SubscribeTo
from herdproof.protocols.group_protocol.client.core.settings import ClientSettings
from herdproof.protocols.group_protocol.client.shell.security import security_of
from herdproof.protocols.group_protocol.client.shell.session import GroupSession
from herdproof.protocols.group_protocol.effects import TopicPartition
from herdproof.protocols.group_protocol.tracing import CONSUMER, GROUP_PROTOCOL, GroupTracer


class GroupProtocolConsumer:
    """Who may join; raises `BadArgument` or `BadClientSettings`."""

    core_class: type[GroupConsumer] = GroupConsumer
    max_poll_interval_s: float | None = None

    def __init__(self, arguments: ConsumerArguments) -> None:
        options = arguments.options_for(
            "the group protocol",
            assignors=("range", "roundrobin"), heartbeat_interval_s=None, max_poll_interval_s=300.0,
            auto_commit_interval_s=5.0, request_timeout_s=30.0, metadata_max_age_s=300.0, tls=None,
            group_instance_id=None,
        )  # fmt: skip
        timeout_s = 45.0 if arguments.session_timeout_s is None else arguments.session_timeout_s
        beats_s = options["heartbeat_interval_s"] or min(3.0, timeout_s / 4)
        self.consumer_id = arguments.consumer_id or f"{socket.gethostname()}-{secrets.token_hex(4)}"
        self._settings = ClientSettings(
            group_id=arguments.group, client_id=self.consumer_id,
            session_timeout_ms=round(timeout_s * 1000),
            heartbeat_interval_ms=round(beats_s * 1000),
            max_poll_interval_ms=round(options["max_poll_interval_s"] * 1000),
            request_timeout_ms=round(options["request_timeout_s"] * 1000),
            auto_commit=arguments.auto_commit,
            auto_commit_interval_ms=round(options["auto_commit_interval_s"] * 1000),
            metadata_max_age_ms=round(options["metadata_max_age_s"] * 1000),
            auto_offset_reset=arguments.auto_offset_reset, listens=arguments.listens,
            group_instance_id=options["group_instance_id"],
        )  # fmt: skip
        self._assignors = assignors_of(options["assignors"])
        # Until they have told their own ids: no broker has one below zero.
        self._nodes = [
            Node(-1 - place, host, port) for place, (host, port) in enumerate(arguments.bootstrap)
        ]
        self._trace, self._run = arguments.trace, arguments.run or GROUP_PROTOCOL
        if (
            self._trace is not None
            and options["group_instance_id"] is not None
            and any(each.protocol is RebalanceProtocol.COOPERATIVE for each in self._assignors)
        ):
            raise BadArgument(
                "trace: the spec has no static members that keep their partitions while they join: "
                "leave out the trace, group_instance_id, or the cooperative assignor"
            )
        self._security = security_of(arguments.kafka, options["tls"])

    @staticmethod
    def groups(ask_all: AskAll, kafka: Mapping[str, str]) -> GroupsAdmin:
        """The groups of this protocol, for operators."""
        from herdproof.protocols.group_protocol.admin import AtCoordinator, GroupProtocolGroups

        return GroupProtocolGroups(ask_all, AtCoordinator(kafka))

    def begin(
        self, subscription: Subscription, streams: Streams, listener: ListenerThread | None,
        observe: Observe,
    ) -> GroupSession:  # fmt: skip
        """A session, to be started."""
        return self._begin(SubscribeTo(subscription), streams, listener, observe)

    def begin_by_hand(
        self, partitions: Sequence[TopicPartition], streams: Streams,
        listener: ListenerThread | None, observe: Observe,
    ) -> GroupSession:  # fmt: skip
        """A session that consumes these partitions, whoever else does."""
        if self._trace is not None:
            raise BadArgument("trace: who assigns partitions by hand takes no step of a group")
        return self._begin(AssignTo(tuple(partitions)), streams, listener, observe)

    def _begin(
        self, first: SubscribeTo | AssignTo, streams: Streams, listener: ListenerThread | None,
        observe: Observe,
    ) -> GroupSession:  # fmt: skip
        core = self.core_class(self._settings, self._nodes, self._assignors)
        if self._trace is not None:
            tracer = GroupTracer(self.consumer_id, self._run, self._trace, role=CONSUMER)
            observe = both(lambda core, _event, effects: tracer(core, effects), observe)
        return GroupSession(
            core, first, streams, security=self._security, listener=listener, observe=observe
        )  # fmt: skip


def assignors_of(given: Sequence[str | PartitionAssignor]) -> tuple[PartitionAssignor, ...]:
    """Assignors by their names, or as they are; raises `BadArgument`."""
    listed = [given] if isinstance(given, str) else list(given)
    for name in listed:
        if isinstance(name, str) and name not in ASSIGNORS:
            raise BadArgument(f"assignors: {name!r} is none of {', '.join(ASSIGNORS)}")
    found = tuple(ASSIGNORS[each]() if isinstance(each, str) else each for each in listed)
    if not found:
        raise BadArgument("assignors is empty: name at least one, as range")
    if len({assignor.name for assignor in found}) < len(found):
        raise BadArgument("assignors: two have the same name, by which members agree on one")
    if len({assignor.protocol for assignor in found} & set(RebalanceProtocol)) > 1:
        raise BadArgument(
            "assignors: cooperative ones and others do not go together; name either kind"
        )
    return found
