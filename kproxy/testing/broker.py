"""The built-in broker behind an inspecting relay, for tests."""

# Rule 1: clients reach the broker only through the relay, so no frame is missing from `frames`.
#
# Rule 2: a stopped broker refuses connections, as it would without the relay: its ports close until it starts again.
#
# Rule 3: the relay ends before the broker, so that frames which the broker sends as it shuts down are not recorded.

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial

from kproxy.broker.broker import Broker, Report, by_listener
from kproxy.broker.options import BrokerOptions
from kproxy.broker.security.listener import listeners_of, tls_context
from kproxy.proxy.address import TcpAddress
from kproxy.proxy.listener import BoundListener, Listener
from kproxy.proxy.relay import Relay, serve
from kproxy.proxy.sockets import listen
from kproxy.proxy.tls.contexts import PLAINTEXT, TlsPolicy
from kproxy.testing.traffic import Inspected, InspectedTraffic

_HOST = "127.0.0.1"


class InspectedBroker(Inspected, Broker):
    """A `Broker` whose traffic is inspected: a linter for clients. It runs for the duration of an `async with` block.

    ::

        async with InspectedBroker(topics={"orders": 6}) as broker:
            await run_my_consumer(broker.bootstrap)
            assert broker.findings == []

    Args:
        options: See `Broker`.
        ports: See `Broker`; free ports by default.
        report: See `Broker`.
        rules: Limits of rules, as for ``--rule``: ``["S091:commits=20"]``.
        settings: See `Broker`.

    Raises:
        UserError: A setting, or a rule, limit or value is invalid.
    """

    _relay: Relay

    def __init__(
        self,
        options: BrokerOptions | None = None,
        *,
        ports: Sequence[int] | Mapping[str, Sequence[int]] = (),
        report: Report = lambda sentence: None,
        rules: Iterable[str] = (),
        **settings: object,
    ) -> None:
        super().__init__(options, ports=None, report=report, **settings)
        self._relay_ports = ports
        self._bound_listeners: dict[tuple[str, int], BoundListener] = {}  # by listener and node
        self._traffic = InspectedTraffic("kproxy", rules=rules)

    def ports_of(self, listener: str) -> tuple[int, ...]:
        """Return the brokers' ports for a listener."""
        return tuple(bound.port for (name, _), bound in self._bound_listeners.items() if name == listener)

    async def stop_node(self, number: int) -> None:
        """Stop a broker: its ports and connections close, and partitions that have other replicas get new leaders."""
        for (_, node), bound in self._bound_listeners.items():
            if node == number:
                self._relay.listeners.close(bound)
        await super().stop_node(number)

    async def start_node(self, number: int) -> None:
        """Start a stopped broker again, at the same address."""
        if self.cluster.nodes[number].up:
            return
        await super().start_node(number)
        for (name, node), bound in list(self._bound_listeners.items()):
            if node == number:
                reopened = BoundListener(replace(bound.listener, listen=TcpAddress(_HOST, bound.port)))
                self._relay.listeners.add(reopened, listen(TcpAddress(_HOST, bound.port)))
                self._bound_listeners[name, node] = reopened

    async def _start(self) -> None:
        await super()._start()
        listeners = [self._listener(name, index, node) for name in self.listeners for index, node in self._nodes()]
        self._stack.callback(self._traffic.end)
        self._relay = await self._stack.enter_async_context(serve(listeners, tap=self._traffic.tap()))
        self._clients = self._relay.clients
        self._stack.push_async_callback(self.settle)
        listener_nodes = [(name, node) for name in self.listeners for _, node in self._nodes()]
        for (name, node), bound in zip(listener_nodes, self._relay.listeners.open, strict=True):
            self._bound_listeners[name, node] = bound
            self.advertise(name, node, _HOST, bound.port)

    def _nodes(self) -> list[tuple[int, int]]:
        return list(enumerate(self.cluster.nodes))

    def _listener(self, name: str, index: int, node: int) -> Listener:
        ports = by_listener(self.listeners, "ports", self._relay_ports, len(self.cluster.nodes)).get(name)
        address = TcpAddress(_HOST, ports[index] if ports else 0)
        has_tls = next(listener.tls for listener in listeners_of(self.options) if listener.name == name)
        tls = TlsPolicy(client=tls_context(self.options)) if has_tls else PLAINTEXT
        return Listener(address, TcpAddress(f"broker-{node}", 9092), tls, partial(self.connect, name, node))
