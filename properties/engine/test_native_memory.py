"""The native engine's memory: reserved as a whole, taken where it is touched."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

FORK = """
import os, sys
import numpy as np
from herdspec.engine.native import reserve

tables = [reserve(int(sys.argv[1]), np.uint8) for _ in range(4)]
tables[0][0] = 1
child = os.fork()
if child == 0:
    os._exit(int(tables[0][0] != 1))
sys.exit(os.waitpid(child, 0)[1])
"""


@pytest.mark.skipif(sys.platform != "linux", reason="others do not count what is reserved")
def test_a_process_with_many_tables_can_be_forked() -> None:
    """The tables of several searches, more than all memory together, are no reason to refuse it."""
    memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    command = [sys.executable, "-c", FORK, str(memory // 2)]

    done = subprocess.run(command, capture_output=True, text=True)

    assert done.returncode == 0, done.stderr
