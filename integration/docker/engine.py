"""A Docker engine that answers: the one that is there, or one started here for as long as needed.

Where `docker info` answers, that engine is used. Where it does not, but this is root on a machine
with `dockerd`, the daemon is started, and stopped again by whoever started it; should that process
die first, the kernel ends the daemon (`PR_SET_PDEATHSIG`). Docker is asked through its own client,
so that contexts and `DOCKER_HOST` mean what they always mean.
"""

import ctypes
import os
import shutil
import signal
import subprocess
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

READY_WITHIN_SECONDS = 60
PR_SET_PDEATHSIG = 1  # <linux/prctl.h>


class DockerUnavailableError(Exception):
    """Docker cannot be used here; the message is one sentence on what is missing and what to do."""


@dataclass(frozen=True, kw_only=True)
class Engine:
    """An engine that answers: its version and, if it was started here, its process and log."""

    version: str
    daemon: subprocess.Popen[bytes] | None = None
    log: Path | None = None

    def stop(self) -> None:
        """End the engine if it was started here; any other is left as it was found."""
        if self.daemon is not None:
            self.daemon.terminate()
            self.daemon.wait(timeout=READY_WITHIN_SECONDS)
        if self.log is not None:
            shutil.rmtree(self.log.parent, ignore_errors=True)


def docker(*arguments: str, stdin: int | None = None) -> str:
    """What `docker ARGUMENTS` prints; its own words are the error's when it fails."""
    if shutil.which("docker") is None:
        raise DockerUnavailableError(
            "the docker command is missing: install it (Debian: docker.io)"
        )
    done = subprocess.run(["docker", *arguments], stdin=stdin, capture_output=True, text=True)
    if done.returncode != 0:
        words = "\n".join(done.stderr.strip().splitlines()[-20:])
        raise DockerUnavailableError(f"'docker {' '.join(arguments)}' failed: {words}")
    return done.stdout.strip()


def running_engine() -> Engine | None:
    """The engine that answers now, if any."""
    try:
        return Engine(version=docker("info", "--format", "{{.ServerVersion}}"))
    except DockerUnavailableError:
        return None


def ensure_engine() -> Engine:
    """The engine that answers; if none does and one can be started here, that one."""
    if engine := running_engine():
        return engine
    for missing in ("docker", "dockerd"):
        if shutil.which(missing) is None:
            raise DockerUnavailableError(
                f"no Docker engine answers and there is no {missing} to start one: install Docker "
                "(Debian: apt-get install docker.io iptables)"
            )
    if os.geteuid() != 0:
        raise DockerUnavailableError(
            "no Docker engine answers and only root may start one: start Docker, or let this user "
            "use it (group docker)"
        )
    return started_engine()


def started_engine() -> Engine:
    """Start `dockerd` and wait until it answers; its log is named if it does not."""
    log = Path(tempfile.mkdtemp(prefix="herdproof-dockerd-")) / "dockerd.log"
    with log.open("wb") as out:
        daemon = subprocess.Popen(
            ["dockerd"],
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=subprocess.STDOUT,
            start_new_session=True,  # a Ctrl-C at the tests is not for the daemon
            preexec_fn=_die_with_parent,
        )
    deadline = time.monotonic() + READY_WITHIN_SECONDS
    while daemon.poll() is None and time.monotonic() < deadline:
        if engine := running_engine():
            return Engine(version=engine.version, daemon=daemon, log=log)
        time.sleep(0.2)
    daemon.terminate()
    daemon.wait(timeout=READY_WITHIN_SECONDS)
    said = log.read_text(errors="replace").splitlines()
    why = (
        [line for line in said if line.startswith("failed to start")] or said or ["it said nothing"]
    )
    raise DockerUnavailableError(f"dockerd was started but does not answer ({log}): {why[-1]}")


def _die_with_parent() -> None:
    """Run in the child: ask the kernel for SIGTERM when the starting thread's process ends."""
    ctypes.CDLL(None, use_errno=True).prctl(PR_SET_PDEATHSIG, signal.SIGTERM)
