"""A cluster of brokers that advertise their own addresses and know nothing about a proxy."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from tests.peers.kafka import Kafka


class Cluster:
    """Brokers with consecutive node ids; the first is also the controller.

    Args:
        release: The release as Maven names it, e.g. ``4.3.1``.
        directory: An empty or new directory for data and logs.
        nodes: The number of brokers at the start.
        properties: Lines of server.properties for all brokers.
        first: The node id of the first broker.
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
        """Start another broker with this node id."""
        properties = {"broker.rack": f"r{number}", **self._properties, "node.id": str(number)}
        directory = self._directory / f"node{number}"
        self.nodes[number] = Kafka(self._release, directory, {}, properties, self.nodes.get(self._first))

    def kill(self) -> None:
        """Kill all brokers."""
        for node in self.nodes.values():
            node.kill()
