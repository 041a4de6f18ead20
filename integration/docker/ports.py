"""Ports of containers that are published on loopback alone, whatever the engine's default is."""

from typing import Any, cast

from testcontainers.core.container import DockerContainer

LOOPBACK = "127.0.0.1"


def publish_on_loopback(container: DockerContainer, *ports: int) -> DockerContainer:
    """Publish TCP ports of a container that is not started yet on free ports of loopback."""
    # docker-py takes (address, port); testcontainers passes it on, though it declares a plain port.
    published = cast(dict[str, Any], container.ports)
    published.update({f"{port}/tcp": (LOOPBACK, None) for port in ports})
    return container


def publish_on(container: DockerContainer, port: int, here: int) -> DockerContainer:
    """Publish a TCP port on a port of loopback that was chosen before, for who must be told it."""
    published = cast(dict[str, Any], container.ports)
    published[f"{port}/tcp"] = (LOOPBACK, here)
    return container


def address(container: DockerContainer, port: int) -> str:
    """Where a published port of a started container is reached from here, as `host:port`.

    (`container.get_container_host_ip()` would name the bridge's gateway on machines that are
    themselves containers, where nothing listens.)
    """
    return f"{LOOPBACK}:{container.get_exposed_port(port)}"
