"""ApiVersions: says which APIs and versions this broker serves, and takes note of the client's software.

Leaves out: nothing. A version that is not known is answered in version 0 with UNSUPPORTED_VERSION (KIP-511).
"""

from __future__ import annotations

from kproxy.broker.registry import Body, api
from kproxy.broker.request import Request


@api("ApiVersions", unauthenticated=True)
def api_versions(request: Request) -> Body:
    """Answer with what is served."""
    body = request.body
    if request.version >= 3:
        request.session.software = body["client_software_name"], body["client_software_version"]
    return {
        "api_keys": [
            {"api_key": key, "min_version": each.lowest, "max_version": each.highest}
            for key, each in sorted(request.cluster.served.items())
        ],
    }
