"""DescribeCluster: returns the brokers of the cluster and its controller.

Leaves out: the controllers' own endpoints (endpoint type 2 in version 1), which clients of a broker cannot use.
"""

from __future__ import annotations

from kproxy.broker.access import CLUSTER, NO_OPERATIONS, authorized_operations, is_allowed
from kproxy.broker.errors import Error
from kproxy.broker.registry import Body, api
from kproxy.broker.request import Request


@api("DescribeCluster")
def describe_cluster(request: Request) -> Body:
    """Return the running brokers; from version 2 on, also fenced (stopped) ones on request."""
    cluster, body = request.cluster, request.body
    match body.get("endpoint_type", 1):
        case 1:
            pass
        case 2:
            message = "The request was sent to an endpoint of type BROKER, but we wanted an endpoint of type CONTROLLER"
            return {"error_code": Error.MISMATCHED_ENDPOINT_TYPE, "error_message": message}
        case endpoint_type:
            unsupported_message = f"Unsupported endpoint type {endpoint_type}"
            return {"error_code": Error.UNSUPPORTED_ENDPOINT_TYPE, "error_message": unsupported_message}
    includes_fenced = body.get("include_fenced_brokers", False)
    with_operations = body["include_cluster_authorized_operations"]
    return {
        "cluster_id": cluster.id,
        "controller_id": cluster.controller.id,
        "brokers": [
            {"broker_id": node.id, "rack": node.rack, "is_fenced": not node.up, **request.endpoint(node)}
            for node in cluster.nodes.values()
            if (node.up or includes_fenced) and is_allowed(request, "DESCRIBE", "CLUSTER", CLUSTER)
        ],
        "cluster_authorized_operations": authorized_operations(request, "CLUSTER", CLUSTER)
        if with_operations
        else NO_OPERATIONS,
    }
