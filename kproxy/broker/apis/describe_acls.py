"""DescribeAcls: returns the ACLs that match a filter, by resource.

Leaves out: nothing. Without ACLs (`BrokerOptions.acls`) the response is SECURITY_DISABLED.
"""

from __future__ import annotations

from typing import Any

from kproxy.broker.access import require
from kproxy.broker.errors import ApiError, Error
from kproxy.broker.registry import Body, api
from kproxy.broker.request import Request
from kproxy.broker.security.acls import Acl, Acls, close_on_unknown_code, read_filter


@api("DescribeAcls")
def describe_acls(request: Request) -> Body:
    """Return the ACLs that match the filter."""
    if close_on_unknown_code(request.session, (request.body,)):
        return None
    acls = request.cluster.part(Acls)
    try:
        require(request, "DESCRIBE", "CLUSTER")
        if not acls.enabled:
            raise ApiError(Error.SECURITY_DISABLED, "No Authorizer is configured on the broker")
    except ApiError as api_error:
        return {"error_code": api_error.error, "error_message": api_error.message}
    by_resource: dict[tuple[int, str, int], list[dict[str, Any]]] = {}
    for acl in acls.matching_acls(read_filter(request.body)):
        by_resource.setdefault((acl.kind, acl.name, acl.pattern), []).append(_describe(acl))
    return {
        "resources": [
            {"resource_type": kind, "resource_name": name, "pattern_type": pattern, "acls": entries}
            for (kind, name, pattern), entries in by_resource.items()
        ],
    }


def _describe(acl: Acl) -> dict[str, Any]:
    return {
        "principal": acl.principal,
        "host": acl.host,
        "operation": acl.operation,
        "permission_type": acl.permission,
    }
