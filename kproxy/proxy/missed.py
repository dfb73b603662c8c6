"""Connections that came and went without being told of one by one: only their sums are."""

from __future__ import annotations

from kproxy.proxy.tap_messages import Missed


class MissedConnections:
    """Sums, until an inspector is told; kept apart by whether there was one at the time."""

    def __init__(self) -> None:
        self._untold = {restarted: Missed(0, 0, 0, 0, restarted) for restarted in (False, True)}
        self._told = (0, 0, 0)  # connections, bytes and frames, to all inspectors

    def add(self, connections: int, size: int, frames: int, *, restarted: bool) -> None:
        """So many connections, with so many bytes and frames; `restarted`: there was no inspector."""
        before = self._untold[restarted]
        self._untold[restarted] = before._replace(
            connections=before.connections + connections, size=before.size + size, frames=before.frames + frames
        )

    def take(self, at: int) -> list[Missed]:
        """What is to be told at `at`; it counts as told from now on."""
        messages = [missed._replace(at=at) for missed in self._untold.values() if missed.connections]
        for each in messages:
            connections, size, frames = self._told
            self._told = connections + each.connections, size + each.size, frames + each.frames
            self._untold[each.restarted] = Missed(0, 0, 0, 0, each.restarted)
        return messages

    def take_back(self, confirmed: tuple[int, int, int]) -> Missed:
        """The inspector is gone: what it was told and has not confirmed is untold again; the sum of what is now."""
        connections, size, frames = (told - known for told, known in zip(self._told, confirmed, strict=True))
        self.add(connections, size, frames, restarted=True)
        self._told = confirmed
        return self._untold[True]
