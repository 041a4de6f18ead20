"""A simulated process with a session in ZooKeeper, which lives and pauses with it."""

from __future__ import annotations

from herdproof.simulator.process import Process
from herdproof.simulator.session import SimulatedClient


class SessionProcess(Process):
    """A process that has a session through its `client`."""

    client: SimulatedClient

    @property
    def speaks(self) -> bool:
        """Its client speaks to ZooKeeper while the process runs."""
        return self.alive

    def kill(self) -> None:
        """The process is no more; its session lives on for a while."""
        if self.alive:
            super().kill()
            self.client.abandon()

    def pause(self) -> None:
        """It handles nothing, and ZooKeeper hears nothing of it."""
        super().pause()
        self.client.paused()

    def resume(self) -> None:
        """It goes on, and is heard again."""
        was_paused = self.paused
        super().resume()
        if was_paused and self.speaks:
            self.client.resumed()
