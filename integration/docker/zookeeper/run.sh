#!/bin/sh
# One ZooKeeper server. It is told who it is by its environment:
#   ZOO_ID       this server's number in the ensemble (default 1)
#   ZOO_SERVERS  the ensemble, as lines of zoo.cfg split by blanks, such as
#                "server.1=zk1:2888:3888;2181 server.2=zk2:2888:3888;2181" (default: alone)
#   ZOO_TICK_MS  length of a tick in milliseconds (default 500; sessions last 2 to 20 ticks)
set -eu
mkdir -p /data
echo "${ZOO_ID:=1}" >/data/myid
{
  echo "tickTime=${ZOO_TICK_MS:-500}"
  echo "initLimit=20"
  echo "syncLimit=8"
  echo "dataDir=/data"
  echo "admin.enableServer=false"
  echo "4lw.commands.whitelist=*"
  echo "maxClientCnxns=0"
  echo "skipACL=no"
  # A server of an ensemble must listen on the address that its peers resolve, whatever comes first.
  echo "quorumListenOnAllIPs=true"
  if [ -n "${ZOO_SERVERS:-}" ]; then
    echo "standaloneEnabled=false"
    echo "reconfigEnabled=false"
    for server in $ZOO_SERVERS; do echo "$server"; done
  else
    echo "clientPort=2181"
  fi
} >/data/zoo.cfg
# Small heap, quick start: three servers share a machine with the tests. ZooKeeper's JMX beans for
# log4j want log4j 1, which is not here.
exec java -Xms32m -Xmx128m -XX:+UseSerialGC -XX:TieredStopAtLevel=1 \
  -Dzookeeper.jmx.log4j.disable=true -Dlog4j2.configurationFile=/opt/zookeeper/log4j2.properties \
  -Djava.net.preferIPv4Stack=true \
  -cp "/opt/zookeeper/jars/*" org.apache.zookeeper.server.quorum.QuorumPeerMain /data/zoo.cfg
