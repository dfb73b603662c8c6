"""A broker for code that is not asynchronous: it runs in its own thread."""

from __future__ import annotations

from typing import Any, Self

from kproxy.broker.broker import Broker
from kproxy.io.loop_thread import LoopThread


class BrokerThread:
    """A Kafka cluster on loopback that runs for the duration of a `with` block.

    ::

        with BrokerThread(brokers=3) as broker:
            producer = confluent_kafka.Producer({"bootstrap.servers": broker.bootstrap})

    Args:
        broker: The broker to run; by default, a `Broker` with the settings.
        settings: See `Broker`.
    """

    def __init__(self, broker: Broker | None = None, **settings: Any) -> None:
        self._broker = Broker(**settings) if broker is None else broker
        self._thread = LoopThread("kproxy broker", self._broker)

    @property
    def bootstrap(self) -> str:
        """``host:port`` of every broker, comma-separated."""
        return self._broker.bootstrap

    def bootstrap_of(self, listener: str) -> str:
        """Return ``host:port`` of every broker for clients of a listener."""
        return self._broker.bootstrap_of(listener)

    def create_topic(self, name: str, partitions: int = 1) -> None:
        """See `Broker.create_topic`."""
        self._thread.call(self._broker.create_topic, name, partitions)

    def stop_node(self, number: int) -> None:
        """See `Broker.stop_node`."""
        self._thread.run(self._broker.stop_node(number))

    def start_node(self, number: int) -> None:
        """See `Broker.start_node`."""
        self._thread.run(self._broker.start_node(number))

    def move_leader(self, topic: str, partition: int, node: int) -> None:
        """See `Broker.move_leader`."""
        self._thread.call(self._broker.move_leader, topic, partition, node)

    def __enter__(self) -> Self:
        self._thread.enter()
        return self

    def __exit__(self, *exc: object) -> None:
        self._thread.exit()
