"""Throttling: clients that exceed their byte rate must wait, and their requests are not read until then (KIP-219)."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Final

from kproxy.broker.quotas import Quotas

if TYPE_CHECKING:
    from kproxy.broker.cluster import Cluster
    from kproxy.broker.request import Request

_MIN_WINDOW_MS: Final = 10_000  # the complete samples of quota.window.num
_MAX_WINDOW_MS: Final = 11_000

PRODUCE: Final = "producer_byte_rate"
FETCH: Final = "consumer_byte_rate"


class _ByteCounts:
    """The bytes that clients with a quota have recently sent or received, with their times."""

    def __init__(self, cluster: Cluster) -> None:
        self.sizes: dict[tuple[object, ...], deque[tuple[int, int]]] = {}


def throttle(request: Request, key: str, size: int) -> int:
    """Count bytes for the quota with this key; return the throttle time in ms, and mute the connection for that long.

    Kafka discards what a throttled Fetch would return, so its bytes do not count
    (org.apache.kafka.server.quota.ClientQuotaManager, kafka.server.KafkaApis).
    """
    quota = request.cluster.part(Quotas).find_applicable(
        request.session.principal.partition(":")[2], request.client_id or "", key
    )
    if quota is None:
        return 0
    owner, rate = quota
    now_ms = request.cluster.clock.now()
    sizes = request.cluster.part(_ByteCounts).sizes.setdefault((request.node.id, key, *owner), deque())
    sizes.append((now_ms, size))
    while sizes[0][0] <= now_ms - _MAX_WINDOW_MS:
        sizes.popleft()
    window_ms = max(now_ms - sizes[0][0], _MIN_WINDOW_MS)
    throttle_ms = max(0, round(1000 * sum(size for _, size in sizes) / rate) - window_ms)
    if throttle_ms and key == FETCH:
        sizes.pop()
    request.session.muted_ms = throttle_ms
    return throttle_ms
