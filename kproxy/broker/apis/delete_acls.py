"""DeleteAcls: takes away the entries that filters mean.

Leaves out: nothing. Without ACLs (`Options.acls`) it is answered SECURITY_DISABLED.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kproxy.broker.access import require
from kproxy.broker.errors import Error, Refused
from kproxy.broker.registry import Body, api
from kproxy.broker.request import Request
from kproxy.broker.security.acls import Acl, Acls, read_filter


@api("DeleteAcls")
async def delete_acls(request: Request) -> Body:
    """Answer for each filter with what is gone."""
    results = [_deleted(request, asked) for asked in request.body["filters"]]
    await request.cluster.journal.synced()
    return {"filter_results": results}


def _deleted(request: Request, asked: Mapping[str, Any]) -> Mapping[str, Any]:
    acls = request.cluster.part(Acls)
    try:
        require(request, "ALTER", "CLUSTER")
        if not acls.enabled:
            raise Refused(Error.SECURITY_DISABLED, "No Authorizer is configured.")
        found = acls.matching(read_filter(asked))
    except Refused as refused:
        return {"error_code": refused.error, "error_message": refused.message}
    for each in found:
        acls.delete(each)
    return {"error_message": None, "matching_acls": [_gone(each) for each in found]}


def _gone(acl: Acl) -> Mapping[str, Any]:
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
