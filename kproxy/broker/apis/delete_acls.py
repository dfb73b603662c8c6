"""DeleteAcls: deletes the ACLs that match filters.

Leaves out: nothing. Without ACLs (`BrokerOptions.acls`) the response is SECURITY_DISABLED.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kproxy.broker.access import require
from kproxy.broker.errors import ApiError, Error
from kproxy.broker.pacing import paced
from kproxy.broker.registry import Body, api
from kproxy.broker.request import Request
from kproxy.broker.security.acls import Acl, Acls, check_filter, close_on_unknown_code, read_filter


@api("DeleteAcls")
async def delete_acls(request: Request) -> Body:
    """Return the deleted ACLs for each filter; an ACL that two filters match is in both results."""
    if close_on_unknown_code(request.session, request.body["filters"]):
        return None
    acls = request.cluster.part(Acls)
    matching_acls: dict[Acl, None] = {}
    results = [_find_matching(request, acls, entry, matching_acls) async for entry in paced(request.body["filters"])]
    async for acl in paced(matching_acls):
        acls.delete(acl)
    return {"filter_results": results}


def _find_matching(
    request: Request, acls: Acls, entry: Mapping[str, Any], matching_acls: dict[Acl, None]
) -> Mapping[str, Any]:
    try:
        require(request, "ALTER", "CLUSTER")
        if not acls.enabled:
            raise ApiError(Error.SECURITY_DISABLED, "No Authorizer is configured.")
        criteria = read_filter(entry)
        check_filter(criteria)
        matches = acls.matching_acls(criteria)
    except ApiError as api_error:
        return {"error_code": api_error.error, "error_message": api_error.message}
    matching_acls.update(dict.fromkeys(matches))
    return {"error_message": None, "matching_acls": [_describe(acl) for acl in matches]}


def _describe(acl: Acl) -> Mapping[str, Any]:
    return {
        "error_message": None,
        "resource_type": acl.kind,
        "resource_name": acl.name,
        "pattern_type": acl.pattern,
        "principal": acl.principal,
        "host": acl.host,
        "operation": acl.operation,
        "permission_type": acl.permission,
    }
