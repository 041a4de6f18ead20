"""A coordinator's process beside a Kafka broker: sockets, ZooKeeper session, TLS, metrics, logs."""
