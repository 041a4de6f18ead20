"""Who coordinates a group, and whatever concerns groups: answered by their coordinator."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, TypeAlias

from kafka.protocol.api_key import ApiKey
from kafka.protocol.api_message import ApiMessage
from kafka.protocol.metadata import FindCoordinatorResponse

from herdproof.broker.answering import BrokerNode, GroupApis, Handler, Handlers, at_once
from herdproof.broker.codec import KafkaError, KafkaRequest

GROUP_KEYS = 0
"""Kafka's other keys are of transactions (1) and of share groups (2)."""
SEVERAL_KEYS_FROM = 4
"""The version from which FindCoordinator asks for several at once."""

Here: TypeAlias = Callable[[], BrokerNode | None]
"""The broker as clients of this port know it, if that is known."""


def group_handlers(groups: GroupApis, here: Here) -> Handlers:
    """Who answers FindCoordinator, and the requests about groups."""
    found = Handler((0, 6), at_once(partial(find_coordinator, groups, here)))
    asked = {api: Handler(versions, groups.ask) for api, versions in groups.versions.items()}
    return {ApiKey.FindCoordinator: found, **asked}


def find_coordinator(groups: GroupApis, here: Here, request: KafkaRequest) -> ApiMessage:
    """Who coordinates groups; it is the same one for all."""
    version, body = request.head.version, request.body
    known = here()
    node = None if known is None else groups.coordinator(known)
    fields: dict[str, Any]
    if body.key_type != GROUP_KEYS:
        fields = {
            "error_code": KafkaError.INVALID_REQUEST,
            "error_message": "there are coordinators of consumer groups alone",
        }
    elif node is None:
        fields = {
            "error_code": KafkaError.COORDINATOR_NOT_AVAILABLE,
            "error_message": "no coordinator is elected, or known",
        }
    else:
        fields = {"node_id": node.node_id, "host": node.host, "port": node.port}
    fields = {"node_id": -1, "host": "", "port": -1, "error_message": None, **fields}
    if version < SEVERAL_KEYS_FROM:
        return FindCoordinatorResponse(version=version, **fields)
    made = FindCoordinatorResponse.Coordinator
    return FindCoordinatorResponse(
        version=version, coordinators=[made(key=key, **fields) for key in body.coordinator_keys]
    )
