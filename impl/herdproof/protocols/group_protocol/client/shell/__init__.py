"""Shell of the client's core: its thread, its connections, and the wire of Kafka."""
