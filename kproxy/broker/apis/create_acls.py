"""CreateAcls: creates ACLs.

Leaves out: nothing. Without ACLs (`BrokerOptions.acls`) the response is SECURITY_DISABLED, as from Kafka without an
authorizer.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kproxy.broker.access import CLUSTER, require
from kproxy.broker.errors import ApiError, Error
from kproxy.broker.pacing import paced
from kproxy.broker.registry import Body, api
from kproxy.broker.request import Request
from kproxy.broker.security.acls import Acl, Acls, close_on_unknown_code, codes


@api("CreateAcls")
async def create_acls(request: Request) -> Body:
    """Return the result for each ACL, in request order."""
    if close_on_unknown_code(request.session, request.body["creations"]):
        return None
    results = [_create(request, entry) async for entry in paced(request.body["creations"])]
    return {"results": results}


def _create(request: Request, entry: Mapping[str, Any]) -> Mapping[str, Any]:
    acls = request.cluster.part(Acls)
    kind, name = entry["resource_type"], entry["resource_name"]
    try:
        require(request, "ALTER", "CLUSTER")
        if not acls.enabled:
            raise ApiError(Error.SECURITY_DISABLED, "No Authorizer is configured.")
        if kind == codes("resource_type")["CLUSTER"] and name != CLUSTER:
            raise ApiError(Error.INVALID_REQUEST, f"The only valid name for the CLUSTER resource is {CLUSTER}")
        if not name:
            raise ApiError(Error.INVALID_REQUEST, "Invalid empty resource name")
        pattern = entry.get("resource_pattern_type", codes("pattern_type")["LITERAL"])
        principal_and_host = entry["principal"], entry["host"]
        acls.create(Acl(kind, name, pattern, *principal_and_host, entry["operation"], entry["permission_type"]))
    except ApiError as api_error:
        return {"error_code": api_error.error, "error_message": api_error.message}
    return {}
