"""ApiVersions: returns the APIs and versions that this broker serves, and records the client's software.

From version 3 on, the response lists the cluster's features (KIP-584).

Leaves out: nothing. An unsupported version gets a version 0 response with UNSUPPORTED_VERSION and the supported
versions (KIP-511); releases before 2.4 omit these.
"""

from __future__ import annotations

import re
from typing import Final

from kproxy.broker.errors import Error
from kproxy.broker.features import Features
from kproxy.broker.registry import Body, api
from kproxy.broker.request import Request

_SOFTWARE: Final = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9\-.]*[a-zA-Z0-9])?")


@api("ApiVersions", unauthenticated=True)
def api_versions(request: Request) -> Body:
    """Return the supported APIs and features."""
    body = request.body
    if request.version >= 3:
        software = body["client_software_name"], body["client_software_version"]
        if not all(map(_SOFTWARE.fullmatch, software)):
            return {"error_code": Error.INVALID_REQUEST}
        request.session.software = software
    features = request.cluster.part(Features)
    return {
        "api_keys": [
            {"api_key": key, "min_version": broker_api.advertised, "max_version": broker_api.highest}
            for key, broker_api in sorted(request.cluster.served.items())
        ],
        "supported_features": [
            {"name": name, "min_version": levels.lowest, "max_version": levels.highest}
            for name, levels in features.known.items()
            if levels.lowest > 0 or request.version >= 4  # clients reject 0 before that (KAFKA-17011)
        ],
        "finalized_features_epoch": features.epoch,
        "finalized_features": [
            {"name": name, "max_version_level": level, "min_version_level": level}
            for name, level in features.levels.items()
        ],
    }
