"""The consumer protocol: subscriptions with owned partitions, and assignments."""

from __future__ import annotations

from dissectors.embedded.registry import VERSION, payload_at_stated_version
from dissectors.wire.layout import Layout


def subscription(data: bytes) -> Layout:
    """Return the layout of ConsumerProtocolSubscription after its version.

    Source: Kafka's ConsumerProtocol; KIP-429 (owned partitions), KIP-792 (generation), KIP-881 (rack).
    """
    return payload_at_stated_version("ConsumerProtocolSubscription", data, VERSION)


def assignment(data: bytes) -> Layout:
    """Return the layout of ConsumerProtocolAssignment after its version."""
    return payload_at_stated_version("ConsumerProtocolAssignment", data, VERSION)
