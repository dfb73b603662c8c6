"""A broker for code that is not asynchronous: it runs in its own thread."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine
from typing import Any, Self, TypeVar

from kproxy.broker.broker import Broker

T = TypeVar("T")


class BrokerThread:
    """A Kafka cluster on loopback that runs for the duration of a `with` block.

    ::

        with BrokerThread(brokers=3) as broker:
            producer = confluent_kafka.Producer({"bootstrap.servers": broker.bootstrap})

    Args:
        settings: See `Broker`.
    """

    def __init__(self, **settings: Any) -> None:
        self._broker = Broker(**settings)
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="kproxy broker", daemon=True)

    @property
    def bootstrap(self) -> str:
        """``host:port`` of every broker, comma-separated."""
        return self._broker.bootstrap

    def bootstrap_of(self, listener: str) -> str:
        """Return ``host:port`` of every broker for clients of a listener."""
        return self._broker.bootstrap_of(listener)

    def create_topic(self, name: str, partitions: int = 1) -> None:
        """See `Broker.create_topic`."""
        self._call(self._broker.create_topic, name, partitions)

    def stop_node(self, number: int) -> None:
        """See `Broker.stop_node`."""
        self._run(self._broker.stop_node(number))

    def start_node(self, number: int) -> None:
        """See `Broker.start_node`."""
        self._run(self._broker.start_node(number))

    def move_leader(self, topic: str, partition: int, node: int) -> None:
        """See `Broker.move_leader`."""
        self._call(self._broker.move_leader, topic, partition, node)

    def __enter__(self) -> Self:
        self._thread.start()
        try:
            self._run(self._broker.__aenter__())
        except BaseException:
            self._end()
            raise
        return self

    def __exit__(self, *exc: object) -> None:
        try:
            self._run(self._broker.__aexit__(None, None, None))
        finally:
            self._end()

    def _run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop).result()

    def _call(self, function: Any, *args: Any) -> None:
        async def call() -> None:
            function(*args)

        self._run(call())

    def _end(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()
