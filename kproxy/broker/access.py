"""Whether who is logged in may do what a request asks for."""

from __future__ import annotations

from typing import Final

from kproxy.broker.errors import Error, Refused
from kproxy.broker.request import Request
from kproxy.broker.security.acls import Acls, codes

#: The name of the one resource of kind ``CLUSTER``.
CLUSTER: Final = "kafka-cluster"

#: What stands for the operations where nobody asked for them.
NO_OPERATIONS: Final = -(2**31)

#: What can be done with a resource (org.apache.kafka.server.authorizer, AclEntry.supportedOperations).
_OPERATIONS: Final = {
    "TOPIC": ("READ", "WRITE", "CREATE", "DESCRIBE", "DELETE", "ALTER", "DESCRIBE_CONFIGS", "ALTER_CONFIGS"),
    "GROUP": ("READ", "DESCRIBE", "DELETE", "DESCRIBE_CONFIGS", "ALTER_CONFIGS"),
    "CLUSTER": (
        "CREATE",
        "CLUSTER_ACTION",
        "DESCRIBE_CONFIGS",
        "ALTER_CONFIGS",
        "IDEMPOTENT_WRITE",
        "ALTER",
        "DESCRIBE",
    ),
}


def allowed(request: Request, operation: str, kind: str, name: str) -> bool:
    """Whether the principal of the connection may do it; always, unless ACLs are enforced.

    Args:
        request: In progress.
        operation: Kafka's name, e.g. ``READ``, ``DESCRIBE_CONFIGS``.
        kind: Of the resource: ``TOPIC``, ``GROUP``, ``CLUSTER``, ``TRANSACTIONAL_ID``, ``DELEGATION_TOKEN``, ``USER``.
        name: Of the resource; ``kafka-cluster`` for the cluster.
    """
    acls = request.cluster.part(Acls)
    return acls.allow(request.session.principal, _host(request), operation, kind, name)


def allowed_some(request: Request, operation: str, kind: str) -> bool:
    """Whether there can be a resource of the kind that `allowed` is true of."""
    acls = request.cluster.part(Acls)
    return acls.allow_some(request.session.principal, _host(request), operation, kind)


def require(request: Request, operation: str, kind: str, name: str = CLUSTER) -> None:
    """Raise `Refused` with the error of the kind (TOPIC_AUTHORIZATION_FAILED, ...) unless it is `allowed`."""
    if not allowed(request, operation, kind, name):
        raise Refused(Error[f"{kind}_AUTHORIZATION_FAILED"])


def operations(request: Request, kind: str, name: str) -> int:
    """What the principal may do with a resource, a bit for each operation's code (KIP-430)."""
    bits = codes("acl_operation")
    return sum(1 << bits[each] for each in _OPERATIONS[kind] if allowed(request, each, kind, name))


def _host(request: Request) -> str:
    return request.session.client_host.removeprefix("/")
