"""The pytest fixture ``kproxy_broker``: a Kafka cluster for a test, in place of a container."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from kproxy.broker.threaded import BrokerThread


def pytest_configure(config: pytest.Config) -> None:
    """Declare the marker."""
    config.addinivalue_line(
        "markers",
        "kproxy_broker(**settings): settings for the broker of the kproxy_broker fixture, "
        "e.g. brokers=3, release='2.8', topics={'orders': 6}",
    )


@pytest.fixture
def kproxy_broker(request: pytest.FixtureRequest) -> Iterator[BrokerThread]:
    """A Kafka cluster of its own for each test, on loopback: ``kproxy_broker.bootstrap`` is where it is.

    ``@pytest.mark.kproxy_broker(brokers=3)`` sets it up; the settings are those of `kproxy.Broker`. It runs in a
    thread, so that tests with and without asyncio use it alike.
    """
    from kproxy.broker.threaded import BrokerThread

    marker = request.node.get_closest_marker("kproxy_broker")
    with BrokerThread(**(marker.kwargs if marker else {})) as broker:
        yield broker
