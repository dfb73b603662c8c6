"""A request for the API handlers, and the session of its connection."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

if TYPE_CHECKING:
    from kproxy.broker.cluster import BrokerNode, Cluster
    from kproxy.broker.security.login import Login

T = TypeVar("T")


class ConnectingClient(NamedTuple):
    """A client that connects: its IP address, and its certificate as `ssl.SSLSocket.getpeercert` returns it."""

    host: str
    certificate: Mapping[str, Any] | None = None


@dataclass(slots=True)
class ClientSession:
    """The state of one connection.

    Attributes:
        client_host: As Kafka prints it: ``/127.0.0.1``.
        listener: The name of the listener that accepted it.
        principal: The principal that has logged in, e.g. ``User:alice``; ``User:ANONYMOUS`` without login.
        authenticated: Whether requests other than those for the login are allowed.
        software: The name and version of its software, which the client sent in ApiVersions.
        closing: Whether the connection is closed after the current response.
        muted_ms: How long after the current response to wait before the next request is processed.
        login: The state of the login; None if the listener requires none.
    """

    client_host: str
    listener: str = "PLAINTEXT"
    principal: str = "User:ANONYMOUS"
    authenticated: bool = True
    software: tuple[str, str] = ("", "")
    closing: bool = False
    muted_ms: int = 0
    login: Login | None = None
    _parts: dict[type[Any], Any] = field(default_factory=dict)

    def part(self, kind: type[T]) -> T:
        """Return this connection's only instance of a part, e.g. the state of its login; create it on first use."""
        part = self._parts.get(kind)
        if part is None:
            part = self._parts[kind] = kind()
        return part

    def close(self) -> None:
        """Close the parts that have a `close` method."""
        for part in self._parts.values():
            if (close := getattr(part, "close", None)) is not None:
                close()


@dataclass(frozen=True, slots=True)
class Request:
    """One request; `body` has snake_case names and is not validated."""

    api_key: int
    version: int
    client_id: str | None
    body: Mapping[str, Any]
    session: ClientSession
    node: BrokerNode
    cluster: Cluster

    def endpoint(self, node: BrokerNode) -> Mapping[str, Any]:
        """Return ``host`` and ``port`` of a node on the listener of this request."""
        host, port = node.addresses[self.session.listener]
        return {"host": host, "port": port}
