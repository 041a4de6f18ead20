"""The shell of a connector's core: its thread, its session with ZooKeeper, its fetchers."""
