"""PushTelemetry (KIP-714): accepts a client's metrics, and discards them.

Leaves out: parsing them.
"""

from __future__ import annotations

from typing import Final

from dissectors.wire.layout import NULL_UUID
from kproxy.broker.errors import Error
from kproxy.broker.registry import Body, api
from kproxy.broker.request import Request

_CODECS: Final = range(5)
_MAX_BYTES: Final = 1 << 20


@api("PushTelemetry")
def push_telemetry(request: Request) -> Body:
    """Validate the request as Kafka does: an instance id, a known codec, and at most 1 MiB of metrics."""
    body = request.body
    if body["client_instance_id"] == NULL_UUID:
        return {"error_code": Error.INVALID_REQUEST}
    if body["subscription_id"] != 0:  # the only id ever assigned
        return {"error_code": Error.UNKNOWN_SUBSCRIPTION_ID}
    if body["compression_type"] not in _CODECS:
        return {"error_code": Error.UNSUPPORTED_COMPRESSION_TYPE}
    return {"error_code": Error.TELEMETRY_TOO_LARGE if len(body["metrics"]) > _MAX_BYTES else Error.NONE}
