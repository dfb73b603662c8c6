"""Authorization: whether the principal of a connection may perform an operation."""

from __future__ import annotations

from typing import Final

from kproxy.broker.errors import ApiError, Error
from kproxy.broker.request import Request
from kproxy.broker.security.acls import Acls, codes

#: The name of the only resource of type ``CLUSTER``.
CLUSTER: Final = "kafka-cluster"

#: The value of authorized_operations in a response if the request did not ask for them.
NO_OPERATIONS: Final = -(2**31)

#: The operations that each resource type supports (org.apache.kafka.server.authorizer, AclEntry.supportedOperations).
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


def is_allowed(request: Request, operation: str, kind: str, name: str) -> bool:
    """Whether the connection's principal may perform an operation; always true without ACLs.

    Args:
        request: The request in progress.
        operation: Kafka's name, e.g. ``READ``, ``DESCRIBE_CONFIGS``.
        kind: The resource type: ``TOPIC``, ``GROUP``, ``CLUSTER``, ``TRANSACTIONAL_ID``, ``DELEGATION_TOKEN``,
            ``USER``.
        name: The resource name; ``kafka-cluster`` for the cluster.
    """
    acls = request.cluster.part(Acls)
    return acls.allow(request.session.principal, _host(request), operation, kind, name)


def is_allowed_on_any(request: Request, operation: str, kind: str) -> bool:
    """Whether the principal may perform the operation on at least one resource of that type."""
    acls = request.cluster.part(Acls)
    return acls.allows_any(request.session.principal, _host(request), operation, kind)


def require(request: Request, operation: str, kind: str, name: str = CLUSTER) -> None:
    """Raise `ApiError` with that type's error (TOPIC_AUTHORIZATION_FAILED, ...) unless `is_allowed` is true."""
    if not is_allowed(request, operation, kind, name):
        raise ApiError(Error[f"{kind}_AUTHORIZATION_FAILED"])


def authorized_operations(request: Request, kind: str, name: str) -> int:
    """Return the operations that the principal may perform, as a bit field of operation codes (KIP-430)."""
    bits = codes("acl_operation")
    return sum(1 << bits[operation] for operation in _OPERATIONS[kind] if is_allowed(request, operation, kind, name))


def _host(request: Request) -> str:
    return request.session.client_host.removeprefix("/")
