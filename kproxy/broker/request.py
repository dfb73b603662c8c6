"""A request as the handlers of the APIs get it, and the connection that it came on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from kproxy.broker.cluster import BrokerNode, Cluster
    from kproxy.broker.security.login import Login

T = TypeVar("T")


@dataclass(slots=True)
class ClientSession:
    """What is known of one connection.

    Attributes:
        client_host: As Kafka prints it: ``/127.0.0.1``.
        listener: The name of the listener that accepted it.
        principal: Who has logged in, ``User:alice``; ``User:ANONYMOUS`` where nobody has to.
        authenticated: Requests other than those of the login are answered.
        software: Name and version that the client gave in ApiVersions.
        closing: The connection is closed when the answer in progress has been sent.
        login: How far its login has come; None where nobody logs in.
    """

    client_host: str
    listener: str = "PLAINTEXT"
    principal: str = "User:ANONYMOUS"
    authenticated: bool = True
    software: tuple[str, str] = ("", "")
    closing: bool = False
    login: Login | None = None
    _parts: dict[type[Any], Any] = field(default_factory=dict)

    def part(self, kind: type[T]) -> T:
        """What this connection keeps of a kind, e.g. the state of its login; made at the first call."""
        found = self._parts.get(kind)
        if found is None:
            found = self._parts[kind] = kind()
        return found

    def close(self) -> None:
        """The connection is closed: parts that have something to `close` do."""
        for part in self._parts.values():
            if (close := getattr(part, "close", None)) is not None:
                close()


@dataclass(frozen=True, slots=True)
class Request:
    """One request; `body` has snake_case names, and is whatever the client sent: nothing in it was checked."""

    api_key: int
    version: int
    client_id: str | None
    body: Mapping[str, Any]
    session: ClientSession
    node: BrokerNode
    cluster: Cluster

    def endpoint(self, node: BrokerNode) -> Mapping[str, Any]:
        """``host`` and ``port`` of a node on the listener that this request came to."""
        host, port = node.addresses[self.session.listener]
        return {"host": host, "port": port}
