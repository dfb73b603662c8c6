"""Cluster: several brokers that advertise their own addresses; they know nothing of a proxy."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from tests.peers.kafka import Kafka


class Cluster:
    """Brokers with consecutive node ids; the first is the controller too.

    Args:
        release: As Maven knows it, e.g. ``4.3.1``.
        directory: For their data and logs; empty or new.
        nodes: How many to start with.
        properties: Lines of server.properties that all have.
        first: The node id of the first.
    """

    def __init__(
        self, release: str, directory: Path, nodes: int, properties: Mapping[str, str], *, first: int = 1
    ) -> None:
        self._release = release
        self._directory = directory
        self._properties = properties
        self.nodes: dict[int, Kafka] = {}
        self._first = first
        for number in range(first, first + nodes):
            self.add(number)

    @property
    def first(self) -> Kafka:
        """The first broker."""
        return self.nodes[self._first]

    def add(self, number: int) -> None:
        """Start one more broker."""
        properties = {"broker.rack": f"r{number}", **self._properties, "node.id": str(number)}
        directory = self._directory / f"node{number}"
        self.nodes[number] = Kafka(self._release, directory, {}, properties, self.nodes.get(self._first))

    def kill(self) -> None:
        """Kill all brokers."""
        for node in self.nodes.values():
            node.kill()
