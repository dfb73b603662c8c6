"""A proxy in front of a cluster, for tests: it inspects the traffic in this process."""

from __future__ import annotations

import ssl
from collections.abc import Iterable
from contextlib import AsyncExitStack
from dataclasses import replace
from typing import Self

from kproxy.errors import UNREACHABLE, UserError
from kproxy.proxy.address import TcpAddress, parse_upstream
from kproxy.proxy.advertised_listeners import ANY_PORTS, Advertise
from kproxy.proxy.client_opening import check_upstream
from kproxy.proxy.interception import Rewriting
from kproxy.proxy.listener import Listener
from kproxy.proxy.relay import serve
from kproxy.proxy.sockets import reason
from kproxy.proxy.tls.contexts import PLAINTEXT
from kproxy.testing.traffic import Inspected, InspectedTraffic

#: Where clients connect; the system chooses the port.
LOOPBACK = TcpAddress("127.0.0.1", 0)


class Proxy(Inspected):
    """A proxy on loopback that runs for the duration of an `async with` block; several may run at the same time.

    ::

        async with Proxy("kafka.example:9092") as proxy:
            await run_my_consumer(proxy.bootstrap)
            assert proxy.findings == []

    Clients keep connecting to the proxy: the addresses of brokers in responses become addresses of the proxy.

    Args:
        upstream: Brokers, as in ``bootstrap.servers``: ``host:port``, comma-separated.
        upstream_tls: The TLS context for brokers with TLS. Clients connect to the proxy in plaintext, and log in with
            SASL themselves.
        check: Whether each broker must accept a connection before the block begins.
        name: Prefix of connection ids in `frames` and `findings`.
        rules: Limits of rules, as for ``--rule``: ``["S091:commits=20"]``.

    Raises:
        ValueError: An address is invalid.
        UserError: A rule, limit or value is invalid.
    """

    def __init__(
        self,
        upstream: str,
        *,
        upstream_tls: ssl.SSLContext | None = None,
        check: bool = True,
        name: str = "kproxy",
        rules: Iterable[str] = (),
    ) -> None:
        tls = replace(PLAINTEXT, upstream=upstream_tls)
        addresses = dict.fromkeys(address.strip() for address in upstream.split(",") if address.strip())
        if not addresses:
            raise ValueError("no broker: pass HOST:PORT")
        self._listeners = [Listener(LOOPBACK, parse_upstream(address, "the upstream"), tls) for address in addresses]
        self._check = check
        self._traffic = InspectedTraffic(name, rules=rules)
        self._stack = AsyncExitStack()
        self._bootstrap = ""

    @property
    def bootstrap(self) -> str:
        """``host:port`` of the proxy for each broker of `upstream`, comma-separated."""
        return self._bootstrap

    async def __aenter__(self) -> Self:
        """Start the proxy.

        Raises:
            UserError: A broker does not accept connections.
        """
        for listener in self._listeners if self._check else ():
            if (error := await check_upstream(listener)) is not None:
                raise UserError(f"upstream {listener.upstream} is unreachable: {reason(error)}", UNREACHABLE)
        rewriting = Rewriting(Advertise(base=ANY_PORTS))
        self._stack.callback(self._traffic.end)
        try:
            relay = await self._stack.enter_async_context(
                serve(self._listeners, tap=self._traffic.tap(), rewriting=rewriting)
            )
        except BaseException:
            await self._stack.aclose()
            raise
        self._clients = relay.clients
        self._stack.push_async_callback(self.settle)
        self._bootstrap = ",".join(relay.addresses)
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self._stack.aclose()
