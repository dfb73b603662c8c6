"""What is behind the listeners of a live proxy: brokers, the built-in broker, or captured responses."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from kproxy.errors import UNREACHABLE, UserError
from kproxy.io.stdin import follow_stdin
from kproxy.live.reload import Change
from kproxy.outputs.stderr import print_message, warn
from kproxy.proxy.address import Address, TcpAddress
from kproxy.proxy.client_opening import check_upstream
from kproxy.proxy.listener import Listener
from kproxy.proxy.relay import Relay
from kproxy.proxy.sockets import reason
from kproxy.proxy.tls.failure import TlsError
from kproxy.proxy.tls.remedies import remedy

if TYPE_CHECKING:
    from kproxy.broker import Broker, BrokerOptions
    from kproxy.replay.answers import CapturedAnswers
    from kproxy.replay.server import ReplayServer


class Upstream:
    """What is behind the listeners."""

    async def start(self, stack: AsyncExitStack, listeners: Sequence[Listener]) -> Sequence[Listener]:
        """Start the upstream until the stack is closed; return the listeners, connected to it.

        Raises:
            UserError: The upstream cannot start.
        """
        return listeners

    def advertise(self, relay: Relay, listeners: Sequence[Listener]) -> None:
        """Direct clients to the relay, which is listening now."""

    async def check(self, listeners: Sequence[Listener]) -> None:
        """Check that the upstream answers.

        Raises:
            UserError: It does not answer.
        """

    def announce(self, relay: Relay, at_end_of_stdin: Callable[[], None] | None) -> None:
        """Print where clients connect. Call `at_end_of_stdin`, if given, at the end of standard input."""
        for listen_address, upstream in relay.pairs:
            print_message(f"listening on {listen_address} -> {self._display_name(upstream)}")
        if at_end_of_stdin is not None:
            loop = asyncio.get_running_loop()
            follow_stdin(lambda line: None, lambda: loop.call_soon_threadsafe(at_end_of_stdin))

    def change(self, relay: Relay) -> Change:
        """Return a function that applies the listeners of a reread configuration."""
        return relay.reconfigure

    def _display_name(self, address: str) -> str:
        return address


class RunningBrokers(Upstream):
    """The brokers that the listeners name. With `check`, the proxy starts only if each broker answers."""

    def __init__(self, *, check: bool) -> None:
        self._check = check

    async def check(self, listeners: Sequence[Listener]) -> None:
        for upstream, listener in {listener.upstream: listener for listener in listeners if self._check}.items():
            if (error := await check_upstream(listener)) is not None:
                raise UserError(
                    f"upstream {upstream} is unreachable: {reason(error)}; {_error_hint(error)}, "
                    "or use --no-check to start kproxy without it",
                    UNREACHABLE,
                )


class CapturedResponses(Upstream):
    """Captured responses that stand in for brokers."""

    _server: ReplayServer

    def __init__(self, answers: CapturedAnswers) -> None:
        self._answers = answers

    async def start(self, stack: AsyncExitStack, listeners: Sequence[Listener]) -> Sequence[Listener]:
        from kproxy.replay.server import ReplayServer

        self._server = await stack.enter_async_context(ReplayServer(self._answers, warn))
        connect = self._server.connect
        return [replace(listener, dial=partial(connect, number)) for number, listener in enumerate(listeners)]

    def advertise(self, relay: Relay, listeners: Sequence[Listener]) -> None:
        for number, listener in enumerate(listeners):
            self._server.advertise(number, *_client_address(listener, relay))

    def _display_name(self, address: str) -> str:
        return str(self._answers)


class BuiltInBroker(Upstream):
    """The built-in broker. It has no ports: everything that it receives passes through the relay.

    The relay's first listeners lead to the first listener of each node, the next ones to the second.

    Args:
        options: The options of the broker.
        registry: The address for its schema registry.
    """

    _broker: Broker

    def __init__(self, options: BrokerOptions, registry: Address | None = None) -> None:
        self._options = options
        self._registry = registry
        self._registry_addresses: list[str] = []

    async def start(self, stack: AsyncExitStack, listeners: Sequence[Listener]) -> Sequence[Listener]:
        # The broker has 200 modules of its own, which a proxy in front of another broker does not load.
        from kproxy.broker import Broker
        from kproxy.broker.schema_registry.errors import RestError
        from kproxy.broker.storage import DataDirectoryError
        from kproxy.live.registry_endpoint import serve_registry

        try:
            broker = self._broker = await stack.enter_async_context(Broker(self._options, ports=None, report=warn))
        except (DataDirectoryError, ValueError, OSError) as error:
            raise UserError(f"the built-in broker cannot start: {error}") from None
        if self._registry is not None:
            try:
                serving = serve_registry(self._registry, broker)
                self._registry_addresses = await stack.enter_async_context(serving)
            except RestError as error:
                raise UserError(f"the schema registry cannot start: {error}") from None
        names_and_nodes = zip(listeners, self._names_and_nodes(), strict=True)
        return [
            replace(listener, dial=partial(broker.connect, *name_and_node))
            for listener, name_and_node in names_and_nodes
        ]

    def _names_and_nodes(self) -> list[tuple[str, int]]:
        """Return the listener name and the node of each address that clients can connect to."""
        return [(name, node) for name in self._broker.listeners for node in self._broker.cluster.nodes]

    def advertise(self, relay: Relay, listeners: Sequence[Listener]) -> None:
        """Advertise the relay's addresses to clients, and use them as the names of the nodes."""
        for (name, node), listener in zip(self._names_and_nodes(), listeners, strict=True):
            address = _client_address(listener, relay)
            self._broker.advertise(name, node, *address)
            relay.listeners.retarget(relay.listeners.find(listener), replace(listener, upstream=TcpAddress(*address)))

    def announce(self, relay: Relay, at_end_of_stdin: Callable[[], None] | None) -> None:
        """Print how to connect, and take commands from standard input."""
        from kproxy.broker.console import HELP, listen_to_stdin
        from kproxy.broker.quirks.engine import Quirks

        broker = self._broker
        for name in broker.listeners:
            servers = ",".join(str(TcpAddress(*node.addresses[name])) for node in broker.cluster.nodes.values())
            protocol = f" security.protocol={broker.protocol(name)}" if len(broker.listeners) > 1 else ""
            print_message(
                f"built-in Kafka {broker.release}: connect clients with bootstrap.servers={servers}{protocol}"
            )
        for quirk in broker.cluster.part(Quirks).description:
            print_message(f"quirk: {quirk}")
        if len(broker.cluster.nodes) > 1:
            print_message(f"commands: {HELP}")
        listen_to_stdin(broker, print_message, at_end_of_stdin or (lambda: None))
        if self._registry_addresses:
            print_message(
                f"schema registry on {' and '.join(f'http://{address}' for address in self._registry_addresses)}"
            )

    def change(self, relay: Relay) -> Change:
        """Return a function that only updates the TLS settings of the broker's listeners. It never fails."""

        async def update_tls(listeners: Sequence[Listener]) -> list[str]:
            for bound, listener in zip(
                relay.listeners.open, listeners, strict=False
            ):  # none while the proxy shuts down
                relay.listeners.retarget(bound, replace(bound.listener, tls=listener.tls))
            return []

        return update_tls


def _client_address(listener: Listener, relay: Relay) -> tuple[str, int]:
    """Return the host and port at which clients reach a TCP listener."""
    assert isinstance(listener.listen, TcpAddress)
    host = listener.listen.host or "localhost"
    advertised_host = socket.gethostname() if host in ("0.0.0.0", "::") else host  # noqa: S104
    return advertised_host, relay.listeners.port(listener)


def _error_hint(error: OSError) -> str:
    if not isinstance(error, TlsError):
        return "start it"
    return remedy("server", "server" if error.by_peer else "proxy", error.reason) or "check the broker's log"
