"""GetTelemetrySubscriptions (KIP-714): returns the metrics that a client should push: none.

A client without an instance id gets one. Metrics that it pushes anyway are accepted.

Leaves out: subscriptions of ``client-metrics`` configs, which are stored but not used.
"""

from __future__ import annotations

from typing import Final

from dissectors.wire.layout import NULL_UUID
from kproxy.broker.cluster import new_uuid
from kproxy.broker.registry import Body, api
from kproxy.broker.request import Request

_INTERVAL_MS: Final = 300_000  # ClientMetricsConfigs.INTERVAL_MS_DEFAULT
_MAX_BYTES: Final = 1 << 20  # telemetry.max.bytes
_CODECS: Final = (4, 3, 1, 2)  # zstd, lz4, gzip, snappy


@api("GetTelemetrySubscriptions")
def get_telemetry_subscriptions(request: Request) -> Body:
    """Return an empty subscription."""
    requested = request.body["client_instance_id"]
    return {
        "client_instance_id": new_uuid() if requested == NULL_UUID else requested,
        "accepted_compression_types": _CODECS,
        "push_interval_ms": _INTERVAL_MS,
        "telemetry_max_bytes": _MAX_BYTES,
        "delta_temporality": True,
    }
