"""Connections that opened and closed without being announced: only their totals are sent."""

from __future__ import annotations

from kproxy.proxy.tap_messages import Missed


class MissedConnections:
    """Totals that are not sent yet, kept separately for the times with and without an inspector."""

    def __init__(self) -> None:
        self._unsent = {restarted: Missed(0, 0, 0, 0, restarted) for restarted in (False, True)}
        self._sent = (0, 0, 0)  # connections, bytes and frames, in all messages

    def add(self, connections: int, size: int, frames: int, *, restarted: bool) -> None:
        """Add connections with their bytes and frames; `restarted` is true if no inspector was running."""
        unsent = self._unsent[restarted]
        self._unsent[restarted] = unsent._replace(
            connections=unsent.connections + connections, size=unsent.size + size, frames=unsent.frames + frames
        )

    def take(self, at: int) -> list[Missed]:
        """Return the messages to send at `at`; their totals count as sent."""
        messages = [missed._replace(at=at) for missed in self._unsent.values() if missed.connections]
        for message in messages:
            connections, size, frames = self._sent
            self._sent = connections + message.connections, size + message.size, frames + message.frames
            self._unsent[message.restarted] = Missed(0, 0, 0, 0, message.restarted)
        return messages

    def take_back(self, confirmed: tuple[int, int, int]) -> Missed:
        """Queue what a lost inspector has not confirmed to be sent again. Return the totals to send."""
        connections, size, frames = (sent - reported for sent, reported in zip(self._sent, confirmed, strict=True))
        self.add(connections, size, frames, restarted=True)
        self._sent = confirmed
        return self._unsent[True]
