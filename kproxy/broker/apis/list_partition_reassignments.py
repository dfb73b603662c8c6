"""ListPartitionReassignments: returns ongoing reassignments: always none, because they complete immediately.

Leaves out: nothing.
"""

from __future__ import annotations

from kproxy.broker.access import CLUSTER, is_allowed
from kproxy.broker.errors import Error
from kproxy.broker.registry import Body, api
from kproxy.broker.request import Request


@api("ListPartitionReassignments")
def list_partition_reassignments(request: Request) -> Body:
    """Return no reassignments."""
    if not is_allowed(request, "DESCRIBE", "CLUSTER", CLUSTER):
        return {"error_code": Error.CLUSTER_AUTHORIZATION_FAILED, "error_message": None}
    return {"error_message": None}
