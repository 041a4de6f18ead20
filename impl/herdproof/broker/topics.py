"""
Topics of the log in memory: Metadata, DescribeCluster, CreateTopics and the like.

There is one broker, this one. It leads every partition, has the only replica, and knows no ACLs.
"""

from __future__ import annotations

from typing import Any

from kafka.protocol.admin import (
    CreatePartitionsResponse,
    CreateTopicsResponse,
    DeleteTopicsResponse,
    DescribeClusterResponse,
    DescribeConfigsResponse,
)
from kafka.protocol.api_key import ApiKey
from kafka.protocol.api_message import ApiMessage
from kafka.protocol.metadata import MetadataResponse

from herdproof.broker.answering import BrokerNode, Handler, Handlers, at_once
from herdproof.broker.codec import KafkaError, KafkaRequest
from herdproof.broker.log import LEADER_EPOCH, LoggedTopic, LogRefused, MemoryLog
from herdproof.broker.settings import RecordLimits

CLUSTER_ID = "herdproof"
DEFAULT_PARTITIONS = 1
"""Of a topic that is created with -1."""
TOPIC_RESOURCE, BROKER_RESOURCE = 2, 4
DEFAULT_CONFIG = 5
"""Where a configuration's value comes from: nobody set it."""
BY_DEFAULT = -1
BROKERS_ENDPOINT = 1


class TopicApis:
    """The topics of the log in memory, as clients see them, and may change them."""

    def __init__(self, log: MemoryLog, limits: RecordLimits, here: BrokerNode) -> None:
        self._log = log
        self._limits = limits
        self._here = here

    def handlers(self) -> Handlers:
        """Who answers."""
        return {
            ApiKey.Metadata: Handler((0, 12), at_once(self._metadata)),
            ApiKey.DescribeCluster: Handler((0, 1), at_once(self._describe_cluster)),
            ApiKey.CreateTopics: Handler((2, 7), at_once(self._create)),
            ApiKey.DeleteTopics: Handler((1, 6), at_once(self._delete)),
            ApiKey.CreatePartitions: Handler((0, 3), at_once(self._extend)),
            ApiKey.DescribeConfigs: Handler((1, 4), at_once(self._describe_configs)),
        }

    # ── Who and what there is ───────────────────────────────────────────────────────────────

    def _metadata(self, request: KafkaRequest) -> ApiMessage:
        """The broker, and the topics that are asked for."""
        here, version = self._here, request.head.version
        asked = request.body.topics
        if asked is None or (version == 0 and not asked):
            topics = [self._topic(topic) for topic in self._log.topics.values()]
        else:
            topics = [self._asked_topic(each) for each in asked]
        broker = MetadataResponse.MetadataResponseBroker(
            node_id=here.node_id, host=here.host, port=here.port
        )
        return MetadataResponse(
            version=version, brokers=[broker], cluster_id=CLUSTER_ID,
            controller_id=here.node_id, topics=topics,
        )  # fmt: skip

    def _asked_topic(self, asked: Any) -> Any:
        """A topic that is asked for by its name, or by its id."""
        made = MetadataResponse.MetadataResponseTopic
        if asked.name is None:
            topic, unknown = self._log.by_id(asked.topic_id), KafkaError.UNKNOWN_TOPIC_ID
        else:
            topic = self._log.topics.get(asked.name)
            unknown = KafkaError.UNKNOWN_TOPIC_OR_PARTITION
        if topic is None:
            name = asked.name or ""
            return made(error_code=unknown, name=name, topic_id=asked.topic_id, partitions=[])
        return self._topic(topic)

    def _topic(self, topic: LoggedTopic) -> Any:
        """A topic and its partitions."""
        here = self._here.node_id
        made = MetadataResponse.MetadataResponseTopic
        part = made.MetadataResponsePartition
        partitions = [
            part(
                partition_index=number, leader_id=here, leader_epoch=LEADER_EPOCH,
                replica_nodes=[here], isr_nodes=[here],
            )
            for number in range(len(topic.partitions))
        ]  # fmt: skip
        return made(name=topic.name, topic_id=topic.id, partitions=partitions)

    def _describe_cluster(self, request: KafkaRequest) -> ApiMessage:
        """The broker."""
        here, version = self._here, request.head.version
        if request.body.endpoint_type != BROKERS_ENDPOINT:
            return DescribeClusterResponse(
                version=version, error_code=KafkaError.INVALID_REQUEST,
                error_message="there are no controllers here", cluster_id=CLUSTER_ID,
            )  # fmt: skip
        broker = DescribeClusterResponse.DescribeClusterBroker(
            broker_id=here.node_id, host=here.host, port=here.port
        )
        return DescribeClusterResponse(
            version=version, cluster_id=CLUSTER_ID, controller_id=here.node_id, brokers=[broker]
        )

    # ── What is done with topics ────────────────────────────────────────────────────────────

    def _create(self, request: KafkaRequest) -> ApiMessage:
        """Create topics."""
        names = [asked.name for asked in request.body.topics]
        return CreateTopicsResponse(
            version=request.head.version,
            topics=[
                self._created(asked, names.count(asked.name) > 1, request.body.validate_only)
                for asked in request.body.topics
            ],
        )

    def _created(self, asked: Any, is_double: bool, only_check: bool) -> Any:
        """The fate of one topic that was to be created."""
        made = CreateTopicsResponse.CreatableTopicResult
        try:
            if is_double:
                raise LogRefused(KafkaError.INVALID_REQUEST, f"{asked.name} is named twice")
            count = partitions_wanted(asked, self._here.node_id)
            topic = self._log.create(asked.name, count, only_check=only_check)
        except LogRefused as refused:
            return made(
                name=asked.name, error_code=refused.error, error_message=str(refused), configs=None
            )
        return made(
            name=topic.name, topic_id=topic.id, num_partitions=count, replication_factor=1,
            configs=[], error_message=None,
        )  # fmt: skip

    def _delete(self, request: KafkaRequest) -> ApiMessage:
        """Delete topics, by their names or ids."""
        body = request.body
        asked = [(name, None) for name in body.topic_names or ()]
        asked += [(each.name, each.topic_id) for each in body.topics or ()]
        return DeleteTopicsResponse(
            version=request.head.version, responses=[self._deleted(*each) for each in asked]
        )

    def _deleted(self, name: str | None, topic_id: Any) -> Any:
        """The fate of one topic that was to be deleted."""
        made = DeleteTopicsResponse.DeletableTopicResult
        topic = self._log.by_id(topic_id) if name is None else self._log.topics.get(name)
        if topic is None:
            by_name = KafkaError.UNKNOWN_TOPIC_OR_PARTITION
            error = KafkaError.UNKNOWN_TOPIC_ID if name is None else by_name
            return made(name=name, topic_id=topic_id, error_code=error)
        self._log.delete(topic)
        return made(name=topic.name, topic_id=topic.id)

    def _extend(self, request: KafkaRequest) -> ApiMessage:
        """Give topics more partitions."""
        made = CreatePartitionsResponse.CreatePartitionsTopicResult
        results = []
        for asked in request.body.topics:
            try:
                topic = self._log.topics.get(asked.name)
                if topic is None:
                    raise LogRefused(KafkaError.UNKNOWN_TOPIC_OR_PARTITION, "there is no such one")
                self._log.extend(topic, asked.count, only_check=request.body.validate_only)
                results.append(made(name=asked.name))
            except LogRefused as refused:
                results.append(
                    made(name=asked.name, error_code=refused.error, error_message=str(refused))
                )
        return CreatePartitionsResponse(version=request.head.version, results=results)

    # ── Configurations ──────────────────────────────────────────────────────────────────────

    def _describe_configs(self, request: KafkaRequest) -> ApiMessage:
        """The few configurations that there are; none can be changed."""
        return DescribeConfigsResponse(
            version=request.head.version,
            results=[self._described(asked) for asked in request.body.resources],
        )

    def _described(self, asked: Any) -> Any:
        """The configurations of one topic or broker."""
        made = DescribeConfigsResponse.DescribeConfigsResult
        error, why, values = KafkaError.NONE, None, self._values()
        if asked.resource_type == TOPIC_RESOURCE:
            if asked.resource_name not in self._log.topics:
                error = KafkaError.UNKNOWN_TOPIC_OR_PARTITION
        elif asked.resource_type != BROKER_RESOURCE or not self._is_here(asked.resource_name):
            error = KafkaError.INVALID_REQUEST
        if error:
            why, values = "there are the topics' and this broker's configurations", {}
        if asked.configuration_keys is not None:
            values = {key: values[key] for key in asked.configuration_keys if key in values}
        configs = [
            made.DescribeConfigsResourceResult(
                name=name, value=value, read_only=True, config_source=DEFAULT_CONFIG,
                is_default=True, documentation=None,
            )
            for name, value in values.items()
        ]  # fmt: skip
        return made(
            error_code=error, error_message=why, resource_type=asked.resource_type,
            resource_name=asked.resource_name, configs=configs,
        )  # fmt: skip

    def _is_here(self, name: str) -> bool:
        """Tells whether a broker's configuration is this one's, or what all have by default."""
        return name in ("", str(self._here.node_id))

    def _values(self) -> dict[str, str]:
        """The configurations of topics, and what the broker would give to new ones."""
        return {
            "cleanup.policy": "delete",
            "max.message.bytes": str(self._limits.max_batch_bytes),
            "message.timestamp.type": "CreateTime",
            "min.insync.replicas": "1",
            "retention.bytes": "-1",
            "retention.ms": "-1",
        }


def partitions_wanted(asked: Any, here: int) -> int:
    """The number of partitions that a topic is to have; raises `LogRefused` if it cannot."""
    if asked.configs:
        raise LogRefused(
            KafkaError.INVALID_CONFIG, "topics have no configuration here: leave it out"
        )
    if asked.assignments:
        numbers = [each.partition_index for each in asked.assignments]
        if sorted(numbers) != list(range(len(numbers))) or any(
            each.broker_ids != [here] for each in asked.assignments
        ):
            raise LogRefused(
                KafkaError.INVALID_REPLICA_ASSIGNMENT, f"each partition is broker {here}'s alone"
            )
        return len(numbers)
    if asked.replication_factor not in (BY_DEFAULT, 1):
        raise LogRefused(KafkaError.INVALID_REPLICATION_FACTOR, "there is one broker: 1 replica")
    count: int = asked.num_partitions
    return DEFAULT_PARTITIONS if count == BY_DEFAULT else count
