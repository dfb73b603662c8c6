"""Whether who is logged in may do what a request asks for."""

from __future__ import annotations

from kproxy.broker.request import Request


def allowed(request: Request, operation: str, kind: str, name: str) -> bool:
    """Whether the principal of the connection may do it; always, unless ACLs are enforced.

    Args:
        request: In progress.
        operation: Kafka's name, e.g. ``READ``, ``DESCRIBE_CONFIGS``.
        kind: Of the resource: ``TOPIC``, ``GROUP``, ``CLUSTER``, ``TRANSACTIONAL_ID``, ``DELEGATION_TOKEN``, ``USER``.
        name: Of the resource; ``kafka-cluster`` for the cluster.
    """
    return True
