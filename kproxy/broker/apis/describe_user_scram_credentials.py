"""DescribeUserScramCredentials: returns the users with SCRAM credentials, and their mechanisms.

Leaves out: nothing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

from kproxy.broker.access import require
from kproxy.broker.errors import ApiError, Error
from kproxy.broker.pacing import paced
from kproxy.broker.registry import Body, api
from kproxy.broker.request import Request
from kproxy.broker.security.credentials import SCRAM, Credentials


@api("DescribeUserScramCredentials")
async def describe_user_scram_credentials(request: Request) -> Body:
    """Return one result per user; if none is requested, all users."""
    try:
        require(request, "DESCRIBE", "CLUSTER")
    except ApiError as api_error:
        return {"error_code": api_error.error, "error_message": api_error.error.name}
    credentials = request.cluster.part(Credentials)
    requested = Counter(user["name"] for user in request.body["users"] or ()) or Counter(credentials.users())
    results = [_describe(credentials, name, count) async for name, count in paced(requested.items())]
    return {"results": results}


def _describe(credentials: Credentials, name: str, count: int) -> Mapping[str, Any]:
    if count > 1:
        message = f"Cannot describe SCRAM credentials for the same user twice in a single request: {name}"
        return {"user": name, "error_code": Error.DUPLICATE_RESOURCE, "error_message": message}
    infos = [
        {"mechanism": code, "iterations": credential.iterations}
        for mechanism, (code, _) in SCRAM.items()
        if (credential := credentials.get(name, mechanism)) is not None
    ]
    if not infos:
        message = f"Attempt to describe a user credential that does not exist: {name}"
        return {"user": name, "error_code": Error.RESOURCE_NOT_FOUND, "error_message": message}
    return {"user": name, "credential_infos": infos}
