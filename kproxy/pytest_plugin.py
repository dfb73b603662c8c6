"""The pytest fixtures ``kproxy_broker``, a Kafka cluster for a test, and ``kproxy_exchange``, which tests a broker."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from kproxy.broker.threaded import BrokerThread
    from kproxy.client.checked_response import CheckedResponse

_TARGET = "KPROXY_TARGET"


def pytest_addoption(parser: pytest.Parser) -> None:
    """Declare the option."""
    parser.getgroup("kproxy").addoption(
        "--kproxy-target", metavar="HOST:PORT", help=f"the broker of the fixture kproxy_exchange (default: ${_TARGET})"
    )


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


@pytest.fixture
def kproxy_exchange(request: pytest.FixtureRequest) -> Callable[[bytes], CheckedResponse]:
    """Return a function that sends a request frame to the broker of ``--kproxy-target`` and returns its response.

    The test fails if no response arrives. `kproxy export-test` writes such tests.
    """
    target = request.config.getoption("--kproxy-target") or os.environ.get(_TARGET)
    if not target:
        pytest.fail(f"no broker to test: pass --kproxy-target HOST:PORT, or set {_TARGET}", pytrace=False)

    return exchange_with(target)


def exchange_with(target: str) -> Callable[[bytes], CheckedResponse]:
    """Return the function of `kproxy_exchange` for the broker at ``HOST:PORT``."""
    from kproxy.client.checked_response import send_frame
    from kproxy.errors import UserError
    from kproxy.proxy.address import parse_upstream

    def exchange(frame: bytes) -> CheckedResponse:
        try:
            response = asyncio.run(send_frame(parse_upstream(target, "--kproxy-target"), frame))
        except (UserError, ValueError) as error:
            pytest.fail(str(error), pytrace=False)
        if response is None:
            pytest.fail("a Produce request with acks=0 has no response", pytrace=False)
        return response

    return exchange
