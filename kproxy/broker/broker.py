"""Broker: a Kafka cluster in this process."""

from __future__ import annotations

import asyncio
import dataclasses
import socket
import ssl
from collections.abc import Callable
from contextlib import AsyncExitStack
from typing import Any, Self

from dissectors import schemas
from kproxy.broker.auto_creation import AutoCreation
from kproxy.broker.cluster import Cluster, Node
from kproxy.broker.configs.checks import check_static
from kproxy.broker.connection import Connection
from kproxy.broker.errors import Refused
from kproxy.broker.log.logs import Logs
from kproxy.broker.options import Options
from kproxy.broker.quirks.engine import Quirks
from kproxy.broker.registry import served
from kproxy.broker.request import Session
from kproxy.broker.security.listener import check_mechanisms, new_session, tls_context
from kproxy.broker.storage import FileJournal, Unusable
from kproxy.broker.topics import Topics
from kproxy.broker.transactions import Transactions
from kproxy.broker.versions import of_release

Report = Callable[[str], None]


class Server:
    """The listener of one node."""

    def __init__(
        self, cluster: Cluster, node: Node, tasks: asyncio.TaskGroup, report: Report, tls: ssl.SSLContext | None
    ) -> None:
        self.cluster = cluster
        self.node = node
        self.tasks = tasks
        self._tls = tls
        self.report = report
        self.connections: set[Connection] = set()
        self._server: asyncio.Server | None = None

    def session(self, client_host: str, certificate: dict[str, Any] | None) -> Session:
        """What a new connection begins with."""
        return new_session(self.cluster, client_host, certificate)

    async def start(self, sock: socket.socket) -> None:
        """Accept clients on a bound socket."""
        loop = asyncio.get_running_loop()
        self._server = await loop.create_server(lambda: Connection(self), sock=sock, ssl=self._tls)

    def stop(self) -> None:
        """Accept nobody and close every connection."""
        if self._server is not None:
            self._server.close()
            self._server = None
        for connection in list(self.connections):
            connection.abort()


class Broker:
    """A Kafka cluster on loopback, for as long as an `async with` block lasts.

    ::

        async with Broker(brokers=3) as broker:
            producer = AIOKafkaProducer(bootstrap_servers=broker.bootstrap)

    Args:
        options: All of them at once; else each by its name, see `Options`.
        ports: To listen on, one a broker; free ones by default.
        advertised: ``(host, port)`` that clients are told for each broker, if not where it listens.
        report: Told in one sentence why a connection was closed.
    """

    def __init__(
        self,
        options: Options | None = None,
        *,
        ports: tuple[int, ...] = (),
        advertised: tuple[tuple[str, int], ...] = (),
        report: Report = lambda sentence: None,
        **settings: object,
    ) -> None:
        self.options = dataclasses.replace(options or Options(), **settings)  # type: ignore[arg-type]
        self._ports = ports or (0,) * self.options.brokers
        self._advertised = advertised
        self._report = report
        self._servers: dict[int, Server] = {}
        self._bound: dict[int, int] = {}  # node -> port that it listens on
        self._stack = AsyncExitStack()

    cluster: Cluster

    @property
    def bootstrap(self) -> str:
        """``host:port`` of every broker, as clients take it."""
        return ",".join(f"127.0.0.1:{port}" for port in self._bound.values())

    @property
    def release(self) -> str:
        """The Kafka release that it stands in for."""
        return self.options.release or schemas.releases()[-1]

    @property
    def ports(self) -> tuple[int, ...]:
        """Where the brokers listen."""
        return tuple(self._bound.values())

    async def __aenter__(self) -> Self:
        try:
            await self._start()
        except BaseException:
            await self._stack.aclose()
            raise
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self._stack.aclose()

    async def stop_node(self, number: int) -> None:
        """A broker goes down: its connections break, its partitions get other leaders where there are replicas."""
        self.cluster.nodes[number].up = False
        self._servers[number].stop()
        self.cluster.part(Topics).nodes_changed()

    async def start_node(self, number: int) -> None:
        """A broker that was stopped is there again, at its address."""
        if self.cluster.nodes[number].up:
            return
        sock = socket.create_server(("127.0.0.1", self._bound[number]), backlog=1024)
        await self._servers[number].start(sock)
        self.cluster.nodes[number].up = True
        self.cluster.part(Topics).nodes_changed()

    def create_topic(self, name: str, partitions: int = 1) -> None:
        """Make a topic, with as many replicas as ``default.replication.factor`` says.

        Raises:
            Refused: There is one of that name, or the name is none.
        """
        topics = self.cluster.part(Topics)
        topics.create(name, topics.spread(partitions, topics.default_replication))

    def has_partition(self, topic: str, partition: int) -> bool:
        """Whether there is such a partition."""
        return self.cluster.part(Topics).partition(topic, partition) is not None

    def move_leader(self, topic: str, partition: int, node: int) -> None:
        """Another replica leads a partition from now on; one that had none there becomes one.

        Raises:
            KeyError: No such partition, or node.
        """
        topics = self.cluster.part(Topics)
        found = topics.partition(topic, partition)
        if found is None or node not in self.cluster.nodes:
            raise KeyError(f"no partition {topic}-{partition}" if found is None else f"no broker {node}")
        if node not in found.replicas:
            topics.replace(found, [*found.replicas, node])
        topics.lead(found, node)

    async def _start(self) -> None:
        journal = None
        if self.options.data is not None:
            journal = FileJournal(self.options.data, fsync=self.options.fsync)
            self._stack.callback(journal.close)
        cluster = self.cluster = Cluster(self.options, of_release(served(), self.options.release), journal=journal)
        self._stack.callback(cluster.part(Logs).close)
        cluster.part(Quirks)  # what is wrong with them is said before anything starts
        tasks = await self._stack.enter_async_context(asyncio.TaskGroup())
        check_static(self.options.configs, cluster.line)
        check_mechanisms(self.options)
        tls = tls_context(self.options)
        sockets = []
        for number, port in enumerate(self._ports, self.options.first_id):
            sockets.append(self._stack.enter_context(socket.create_server(("127.0.0.1", port), backlog=1024)))
            self._bound[number] = sockets[-1].getsockname()[1]
            host, shown = self._advertised[len(sockets) - 1] if self._advertised else ("127.0.0.1", self._bound[number])
            cluster.nodes[number] = Node(number, host, shown)
            self._servers[number] = Server(cluster, cluster.nodes[number], tasks, self._report, tls)
        self._stack.callback(self._stop)
        try:
            cluster.part(Topics)  # what was kept is there before anybody asks
        except Refused as refused:
            raise Unusable(str(refused)) from None
        cluster.part(Logs).start()
        self._stack.callback(cluster.part(Transactions).close)
        self._stack.callback(cluster.part(AutoCreation).close)
        for server, sock in zip(self._servers.values(), sockets, strict=True):
            await server.start(sock)

    def _stop(self) -> None:
        for server in self._servers.values():
            server.stop()
