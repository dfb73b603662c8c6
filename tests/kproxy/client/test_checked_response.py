"""`kproxy.exchange` sends one frame to a broker and returns its response."""

from __future__ import annotations

import asyncio

import pytest

import kproxy
from dissectors import encode_request


def test_exchange_reports_a_field_that_the_broker_omits() -> None:
    with kproxy.BrokerThread(quirks=["Metadata:9:missing:throttle_time_ms"]) as broker:
        response = asyncio.run(kproxy.exchange(broker.bootstrap, encode_request("Metadata", 9)))
    assert response is not None
    assert not response.well_formed
    assert "throttle_time_ms" in response.findings["L004"]


def test_exchange_returns_none_for_a_produce_request_with_acks_0() -> None:
    frame = encode_request("Produce", 9, {"acks": 0})
    with kproxy.BrokerThread() as broker:
        assert asyncio.run(kproxy.exchange(broker.bootstrap, frame)) is None
        # Once this request is answered, the broker has also accepted the first connection. Otherwise, asyncio could
        # leak its socket: it leaks one that is accepted while the server closes (python/cpython#109564).
        assert asyncio.run(kproxy.exchange(broker.bootstrap, encode_request("Metadata", 9))) is not None


def test_exchange_rejects_an_invalid_address() -> None:
    with pytest.raises(ValueError, match="localhost:no"):
        asyncio.run(kproxy.exchange("localhost:no", b""))


def test_exchange_reports_an_unreachable_broker() -> None:
    with kproxy.BrokerThread() as broker:
        address = broker.bootstrap
    with pytest.raises(kproxy.UserError, match="refused"):
        asyncio.run(kproxy.exchange(address, encode_request("Metadata", 9)))
