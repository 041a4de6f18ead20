#!/bin/sh
# One Kafka broker. It is told who it is by its environment:
#   KAFKA_ID          this broker's id (default 1)
#   KAFKA_ZOOKEEPER   the ZooKeeper, as this container reaches it, such as zk1:2181 (required)
#   KAFKA_ADVERTISED  where clients outside reach port 9092, such as 127.0.0.1:20000 (required)
#   KAFKA_HOST        where other brokers reach port 9093 (default: this container's name for itself)
#   KAFKA_SESSION_MS  how long its id outlives it in ZooKeeper (default 4000)
# Or, as Kafka's own image (apache/kafka) has it, by all of its settings, without a ZooKeeper, if
# there is KAFKA_PROCESS_ROLES: KAFKA_NODE_ID is node.id; of underscores, two stand for one, three
# for a dash. CLUSTER_ID is that of the storage, which is formatted if it is new.
set -eu
mkdir -p /data
# Small heap, quick start: brokers share a machine with the tests. The log goes to `docker logs`.
kafka() {
  exec java -Xms32m -Xmx256m -XX:+UseSerialGC -XX:TieredStopAtLevel=1 \
    -Djava.net.preferIPv4Stack=true -Dorg.slf4j.simpleLogger.showDateTime=true \
    -Dorg.slf4j.simpleLogger.log.kafka.server.KafkaConfig=warn \
    -cp "/opt/kafka/jars/*" "$@"
}
if [ -n "${KAFKA_PROCESS_ROLES:-}" ]; then
  : "${KAFKA_LOG_DIRS:=/data/logs}"
  export KAFKA_LOG_DIRS
  env | grep '^KAFKA_' | while IFS='=' read -r name value; do
    key=$(echo "${name#KAFKA_}" | tr 'A-Z' 'a-z' | sed 's/___/-/g; s/__/\n/g; s/_/./g; s/\n/_/g')
    echo "$key=$value"
  done >/data/server.properties
  (kafka kafka.tools.StorageTool format --ignore-formatted \
    --cluster-id "${CLUSTER_ID:-5L6g3nShT-eMCtK--X86sw}" --config /data/server.properties)
  kafka kafka.Kafka /data/server.properties
fi
# The first listener is the one whose address ZooKeeper's /brokers/ids shows as host and port.
cat >/data/server.properties <<SETTINGS
broker.id=${KAFKA_ID:=1}
zookeeper.connect=$KAFKA_ZOOKEEPER
zookeeper.session.timeout.ms=${KAFKA_SESSION_MS:-4000}
listeners=CLIENTS://:9092,BROKERS://:9093
advertised.listeners=CLIENTS://$KAFKA_ADVERTISED,BROKERS://${KAFKA_HOST:-$(hostname)}:9093
listener.security.protocol.map=CLIENTS:PLAINTEXT,BROKERS:PLAINTEXT
inter.broker.listener.name=BROKERS
log.dirs=/data/logs
auto.create.topics.enable=false
offsets.topic.num.partitions=4
offsets.topic.replication.factor=1
transaction.state.log.num.partitions=2
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
group.initial.rebalance.delay.ms=0
num.network.threads=1
num.io.threads=2
log.cleaner.dedupe.buffer.size=4194304
SETTINGS
kafka kafka.Kafka /data/server.properties
