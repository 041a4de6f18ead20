"""The base image of the suite's images: there already, pulled, or made here with debootstrap."""

import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable
from pathlib import Path

from integration.docker.engine import DockerUnavailableError, docker

BASE = "debian:bookworm-slim"
BASE_SUITE = "bookworm"


def exists(tag: str) -> bool:
    """Whether the engine has this image."""
    return bool(docker("image", "ls", "--quiet", tag))


def ensure_base(announce: Callable[[str], None]) -> None:
    """Have the base image; `announce` gets a line before anything that takes long."""
    if exists(BASE):
        return
    try:
        docker("pull", "--quiet", BASE)
    except DockerUnavailableError as refusal:
        announce(f"{BASE} cannot be pulled, so it is made with debootstrap (half a minute)")
        make_base(refusal)


def make_base(refusal: DockerUnavailableError) -> None:
    """Make the base image from this machine's own Debian mirror; `refusal` is the pull's."""
    if shutil.which("debootstrap") is None or os.geteuid() != 0:
        raise DockerUnavailableError(
            f"{BASE} can neither be pulled nor made here: let Docker reach a registry, or run as "
            f"root on Debian with debootstrap installed ({refusal})"
        )
    with tempfile.TemporaryDirectory() as folder:
        root, archive = Path(folder) / "root", Path(folder) / "root.tar"
        run("debootstrap", "--variant=minbase", BASE_SUITE, str(root), debian_mirror())
        run("tar", "--create", f"--file={archive}", f"--directory={root}", ".")
        docker("import", "--change", 'CMD ["bash"]', str(archive), BASE)


def debian_mirror() -> str:
    """The address of the Debian mirror that this machine's apt is set up to use."""
    release = run("sh", "-c", '. /etc/os-release; echo "$VERSION_CODENAME"')
    targets = run(
        "apt-get", "indextargets", "--format", "$(REPO_URI) $(RELEASE)", "Created-By: Packages"
    )
    for target in targets.splitlines():
        address, suite = target.split()
        if suite == release:
            return address
    raise DockerUnavailableError(
        f"apt knows no mirror of Debian {release}, from which {BASE} could be made: run "
        "'apt-get update', or let Docker reach a registry"
    )


def run(*command: str, at: Path | None = None) -> str:
    """What a command prints, run in that folder; its last words are the error's when it fails."""
    done = subprocess.run(
        command, cwd=at, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False
    )
    if done.returncode != 0:
        words = (done.stderr or done.stdout).strip().splitlines()[-5:]
        raise DockerUnavailableError(f"'{' '.join(command)}' failed: {' / '.join(words)}")
    return done.stdout.strip()
