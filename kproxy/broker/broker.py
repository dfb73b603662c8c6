"""Broker: a Kafka cluster in this process."""

from __future__ import annotations

import asyncio
import errno
import os
import socket
import ssl
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack
from typing import Any, Self, TypeVar

from dissectors import schemas
from kproxy.broker.auto_creation import AutoCreation
from kproxy.broker.cluster import BrokerNode, Cluster
from kproxy.broker.configs.checks import check_static
from kproxy.broker.connection import ClientConnection
from kproxy.broker.errors import ApiError
from kproxy.broker.log.logs import Logs
from kproxy.broker.options import BrokerOptions, with_settings
from kproxy.broker.quirks.engine import Quirks
from kproxy.broker.registry import served_apis
from kproxy.broker.request import ClientSession, ConnectingClient
from kproxy.broker.security.listener import BrokerListener, check_mechanisms, listeners_of, new_session, tls_context
from kproxy.broker.storage import DataDirectoryError, FileJournal
from kproxy.broker.storage_health import StorageHealth
from kproxy.broker.topics import Topics
from kproxy.broker.transactions import Transactions
from kproxy.broker.versions import apis_of_release

T = TypeVar("T")
Report = Callable[[str], None]


class NodeListener:
    """One listener of one node. While it is open, clients in this process can `connect` to it without a port."""

    def __init__(
        self,
        cluster: Cluster,
        node: BrokerNode,
        listener: BrokerListener,
        tasks: asyncio.TaskGroup,
        report: Report,
        tls: ssl.SSLContext | None,
    ) -> None:
        self.cluster = cluster
        self.node = node
        self._listener = listener
        self.tasks = tasks
        self._tls = tls if listener.tls else None
        self.report = report
        self.connections: set[ClientConnection] = set()
        self._server: asyncio.Server | None = None
        self._is_open = False

    def session(self, client: ConnectingClient) -> ClientSession:
        """Return the session of a new connection."""
        return new_session(self.cluster, self._listener, client)

    async def start(self, sock: socket.socket | None) -> None:
        """Accept connections, including those to a bound socket if there is one."""
        self._is_open = True
        if sock is not None:
            loop = asyncio.get_running_loop()
            self._server = await loop.create_server(lambda: ClientConnection(self), sock=sock, ssl=self._tls)

    async def connect(self, client: ConnectingClient) -> socket.socket:
        """See `Broker.connect`."""
        if not self._is_open:
            raise ConnectionRefusedError(errno.ECONNREFUSED, os.strerror(errno.ECONNREFUSED))
        broker_sock, client_sock = socket.socketpair()
        try:
            for sock in (broker_sock, client_sock):
                sock.setblocking(False)
            loop = asyncio.get_running_loop()
            await loop.connect_accepted_socket(lambda: ClientConnection(self, client), broker_sock)
        except BaseException:
            broker_sock.close()
            client_sock.close()
            raise
        return client_sock

    def stop(self) -> None:
        """Stop accepting connections, and close all open ones."""
        self._is_open = False
        if self._server is not None:
            self._server.close()
            self._server = None
        for connection in list(self.connections):
            connection.abort()


class Broker:
    """A Kafka cluster on loopback that runs for the duration of an `async with` block.

    ::

        async with Broker(brokers=3) as broker:
            producer = AIOKafkaProducer(bootstrap_servers=broker.bootstrap)

    Args:
        options: All options; or pass each by name, see `BrokerOptions`.
        ports: Ports to listen on, one per broker, by listener; a single listener needs no name. By default, free ones;
            with None, there are no ports, and `connect` is the only way in.
        report: Called with one sentence when a connection is closed because of an error.
    """

    def __init__(
        self,
        options: BrokerOptions | None = None,
        *,
        ports: Sequence[int] | Mapping[str, Sequence[int]] | None = (),
        report: Report = lambda sentence: None,
        **settings: object,
    ) -> None:
        self.options = with_settings(options or BrokerOptions(), settings)
        self._requested_ports = ports
        self._advertised: Mapping[str, Sequence[tuple[str, int]]] = {}
        self._report = report
        self._servers: dict[tuple[str, int], NodeListener] = {}  # by listener and node
        self._bound_ports: dict[tuple[str, int], int] = {}  # the port of each listener
        self._stack = AsyncExitStack()

    cluster: Cluster

    @property
    def bootstrap(self) -> str:
        """``host:port`` of every broker, comma-separated; of the first listener if there are several."""
        if not self.listeners:
            raise RuntimeError("the broker has no address yet: use it in a with block")
        return self.bootstrap_of(self.listeners[0])

    def bootstrap_of(self, listener: str) -> str:
        """Return ``host:port`` of every broker for clients of a listener."""
        return ",".join(f"127.0.0.1:{port}" for port in self.ports_of(listener))

    @property
    def listeners(self) -> tuple[str, ...]:
        """The names of each broker's listeners."""
        return tuple(dict.fromkeys(listener for listener, _ in self._servers))

    @property
    def release(self) -> str:
        """The Kafka release that the cluster emulates."""
        return self.options.release or schemas.releases()[-1]

    @property
    def ports(self) -> tuple[int, ...]:
        """The brokers' ports; of the first listener if there are several."""
        return self.ports_of(self.listeners[0])

    def ports_of(self, listener: str) -> tuple[int, ...]:
        """Return the brokers' ports for a listener."""
        return tuple(port for (name, _), port in self._bound_ports.items() if name == listener)

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
        """Stop a broker: its connections close, and its partitions with other replicas get new leaders."""
        self.cluster.nodes[number].up = False
        for (_, node), server in self._servers.items():
            if node == number:
                server.stop()
        self.cluster.part(Topics).update_leaders()

    async def start_node(self, number: int) -> None:
        """Restart a stopped broker at the same address."""
        if self.cluster.nodes[number].up:
            return
        for (listener, node), server in self._servers.items():
            if node == number:
                port = self._bound_ports.get((listener, node))
                await server.start(None if port is None else self._listen(port))
        self.cluster.nodes[number].up = True
        self.cluster.part(Topics).update_leaders()

    async def connect(
        self, listener: str, node: int, client_host: str, certificate: Mapping[str, Any] | None = None
    ) -> socket.socket:
        """Connect to a node from within this process, in plaintext whatever the listener's protocol.

        Args:
            listener: The name of the listener, which determines whether the client must log in.
            node: The broker's id.
            client_host: The IP address of the client on whose behalf to connect.
            certificate: The client's, from `ssl.SSLSocket.getpeercert`: without SASL, its subject is the principal.

        Returns:
            The client's end of the connection, a non-blocking socket.

        Raises:
            ConnectionRefusedError: The node is stopped.
        """
        return await self._servers[listener, node].connect(ConnectingClient(client_host, certificate))

    def protocol(self, listener: str) -> str:
        """Return the security protocol of a listener."""
        return next(
            broker_listener.protocol
            for broker_listener in listeners_of(self.options)
            if broker_listener.name == listener
        )

    def advertise(self, listener: str, node: int, host: str, port: int) -> None:
        """Advertise this address to a listener's clients from now on, unless `BrokerOptions.advertised` sets one."""
        if listener not in self._advertised:
            self.cluster.nodes[node].addresses[listener] = (host, port)

    def create_topic(self, name: str, partitions: int = 1) -> None:
        """Create a topic with ``default.replication.factor`` replicas.

        Raises:
            ApiError: The topic exists, or its name is invalid.
        """
        topics = self.cluster.part(Topics)
        topics.create(name, topics.choose_replicas(partitions, topics.default_replication))

    def has_partition(self, topic: str, partition: int) -> bool:
        """Whether the partition exists."""
        return self.cluster.part(Topics).partition(topic, partition) is not None

    def move_leader(self, topic: str, partition: int, node: int) -> None:
        """Make another broker the leader of a partition, adding it to the replicas if necessary.

        Raises:
            KeyError: Unknown partition or broker.
        """
        topics = self.cluster.part(Topics)
        moved_partition = topics.partition(topic, partition)
        if moved_partition is None or node not in self.cluster.nodes:
            raise KeyError(
                f"unknown partition {topic}-{partition}" if moved_partition is None else f"unknown broker {node}"
            )
        if node not in moved_partition.replicas:
            topics.replace(moved_partition, [*moved_partition.replicas, node])
        topics.set_leader(moved_partition, node)

    async def _start(self) -> None:
        journal, storage = None, StorageHealth(self.options.data, self._report)
        if self.options.data is not None:
            journal = FileJournal(self.options.data, fsync=self.options.fsync, failed=storage.record_failure)
            storage.retry_with(journal.catch_up)
            self._stack.callback(journal.close)
        self._stack.callback(storage.close)
        apis = apis_of_release(served_apis(), self.options.release)
        cluster = self.cluster = Cluster(self.options, apis, journal=journal, storage=storage)
        self._stack.callback(cluster.part(Logs).close)
        cluster.part(Quirks)  # report invalid quirks before anything starts
        tasks = await self._stack.enter_async_context(asyncio.TaskGroup())
        check_static(self.options.configs, cluster.line)
        check_mechanisms(self.options)
        listeners = listeners_of(self.options)
        tls = None if self._requested_ports is None else tls_context(self.options)
        sockets: list[socket.socket | None] = []
        for listener, number, port, advertised in self._planned_listeners(listeners):
            sock = None if port is None else self._stack.enter_context(self._listen(port))
            sockets.append(sock)
            if sock is not None:
                self._bound_ports[listener.name, number] = sock.getsockname()[1]
            node = cluster.nodes.setdefault(number, BrokerNode(number, {}))
            node.addresses[listener.name] = advertised or (
                "127.0.0.1",
                self._bound_ports.get((listener.name, number), 0),
            )
            self._servers[listener.name, number] = NodeListener(cluster, node, listener, tasks, self._report, tls)
        self._stack.callback(self._stop)
        try:
            cluster.part(Topics)  # load stored state before clients connect
        except ApiError as api_error:
            raise DataDirectoryError(str(api_error)) from None
        cluster.part(Logs).start()
        self._stack.callback(cluster.part(Transactions).close)
        self._stack.callback(cluster.part(AutoCreation).close)
        for server, sock in zip(self._servers.values(), sockets, strict=True):
            await server.start(sock)

    def _planned_listeners(
        self, listeners: Sequence[BrokerListener]
    ) -> Iterator[tuple[BrokerListener, int, int | None, tuple[str, int] | None]]:
        """Yield each listener of each node, with its port (0 for any, None for none) and its advertised address."""
        names, node_indexes = [listener.name for listener in listeners], range(self.options.brokers)
        ports = by_listener(names, "ports", self._requested_ports or (), len(node_indexes))
        advertised = self._advertised = by_listener(names, "advertised", self.options.advertised, len(node_indexes))
        for listener in listeners:
            for index in node_indexes:
                address = advertised[listener.name][index] if listener.name in advertised else None
                port = ports[listener.name][index] if listener.name in ports else 0
                yield listener, self.options.first_id + index, None if self._requested_ports is None else port, address

    def _listen(self, port: int) -> socket.socket:
        return socket.create_server(("127.0.0.1", port), backlog=1024)

    def _stop(self) -> None:
        for server in self._servers.values():
            server.stop()


def by_listener(
    listeners: Sequence[str], option: str, values: Sequence[T] | Mapping[str, Sequence[T]], brokers: int
) -> Mapping[str, Sequence[T]]:
    """Group per-broker values by the listener that they are meant for.

    Raises:
        ValueError: Unknown listener, ambiguous listener, or not one value per broker.
    """
    if not isinstance(values, Mapping):
        if values and len(listeners) > 1:
            raise ValueError(f"{option}: name the listener, one of {', '.join(listeners)}")
        values = {listeners[0]: values} if values else {}
    for name, listener_values in values.items():
        if name not in listeners:
            raise ValueError(f"{option}: unknown listener {name}; listeners: {', '.join(listeners)}")
        if len(listener_values) != brokers:
            raise ValueError(
                f"{option}: {len(listener_values)} for listener {name} of {brokers} brokers; pass one per broker"
            )
    return values
