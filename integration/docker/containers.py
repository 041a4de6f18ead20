"""Containers as scenarios break them: killed, paused, started again; and what they say."""

import shutil
from pathlib import Path

from testcontainers.core.container import DockerContainer

from herdproof.supervisor import Supervisor
from integration.docker.engine import docker


def container_id(container: DockerContainer) -> str:
    """The id of a container that was started."""
    return str(container.get_wrapped_container().id)


def kill(container: DockerContainer) -> None:
    """End it by SIGKILL; its files stay."""
    docker("kill", container_id(container))


def kill_if_it_runs(container: DockerContainer) -> None:
    """End it by SIGKILL, paused or not, if it has not ended."""
    container.get_wrapped_container().reload()
    if container.status == "paused":
        resume(container)
    if container.status in ("running", "paused"):
        kill(container)


def ask_to_end(container: DockerContainer) -> None:
    """End it by SIGTERM, and do not wait."""
    docker("kill", "--signal", "TERM", container_id(container))


def pause(container: DockerContainer) -> None:
    """Stop it in its tracks."""
    docker("pause", container_id(container))


def resume(container: DockerContainer) -> None:
    """Let a paused one go on."""
    docker("unpause", container_id(container))


def start_again(container: DockerContainer) -> None:
    """Start a dead one with its command, on its files; a port that was chosen for it stays."""
    docker("start", container_id(container))


def follow(container: DockerContainer, minder: Supervisor, name: str, log: Path) -> None:
    """Append what it says from its start on to a file, until it ends; `name` is the minder's."""
    client = shutil.which("docker") or "docker"
    minder.start(name, [client, "logs", "--follow", container_id(container)], log)


def copy_out(container: DockerContainer, folder: str, to: Path) -> None:
    """Copy the files of a folder in the container, which may be dead, into one that is here."""
    docker("cp", "--quiet", f"{container_id(container)}:{folder}/.", str(to))
