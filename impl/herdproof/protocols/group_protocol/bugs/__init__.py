"""Historical bugs of Kafka's coordinator, each a replaced part of the core: for tests alone."""
