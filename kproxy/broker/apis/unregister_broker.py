"""UnregisterBroker: removes a broker that is down from the cluster.

Leaves out: permanent removal: an unregistered broker can be started again.
"""

from __future__ import annotations

from kproxy.broker.access import CLUSTER, is_allowed
from kproxy.broker.errors import Error
from kproxy.broker.registry import Body, api
from kproxy.broker.request import Request


@api("UnregisterBroker")
def unregister_broker(request: Request) -> Body:
    """Return the error code; a running broker is rejected, unlike in Kafka, where it would come back fenced."""
    node = request.cluster.nodes.get(request.body["broker_id"])
    if not is_allowed(request, "ALTER", "CLUSTER", CLUSTER):
        return {"error_code": Error.CLUSTER_AUTHORIZATION_FAILED, "error_message": None}
    if node is None:
        return {
            "error_code": Error.BROKER_ID_NOT_REGISTERED,
            "error_message": f"Broker ID {request.body['broker_id']} is not currently registered",
        }
    if node.up:
        return {"error_code": Error.INVALID_REQUEST, "error_message": f"Broker {node.id} is up; stop it first"}
    return {"error_message": None}
