"""A hanging transaction (KIP-664) on a real broker: a batch arrives after its transaction has ended.

Since 3.6, brokers verify a transaction with the coordinator before they accept a batch (KIP-890), unless that is
disabled.
"""

from __future__ import annotations

import socket
import struct
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from dissectors.messages.message import api_layouts, read_response
from dissectors.schemas import api_by_name
from dissectors.wire.encode import encode
from tests.kproxy.stories import to_encodable
from tests.peers.kafka import RELEASES, Kafka, missing
from tests.peers.processes import until
from tests.peers.proxy import Proxy
from tests.peers.test_transactions import SECONDS, consumer, producer, send

pytestmark = pytest.mark.peers

_RETRIABLE_ERRORS = (14, 15, 16, 51)  # the coordinator is not ready, or is still completing the previous transaction


class RawProducer:
    """A transactional producer that sends individual requests."""

    def __init__(self, bootstrap: str) -> None:
        host, port = bootstrap.split(":")
        self._socket = socket.create_connection((host, int(port)), SECONDS)
        self._number = 0
        self._ids: dict[str, Any] = {}

    def begin(self) -> None:
        self.send_request("FindCoordinator", 2, {"key": "pay-1", "key_type": 1})
        response = self.send_request(
            "InitProducerId", 1, {"transactional_id": "pay-1", "transaction_timeout_ms": 60_000}
        )
        self._ids = {"producer_id": response["producer_id"], "producer_epoch": response["producer_epoch"]}
        ids = {f"v3_and_below_{name}": value for name, value in {"transactional_id": "pay-1", **self._ids}.items()}
        topics = [{"name": "t", "partitions": [0]}]
        self.send_request("AddPartitionsToTxn", 1, {**ids, "v3_and_below_topics": topics})

    def write(self, sequence: int) -> int:
        """Write a batch; return its offset."""
        batch = {"is_transactional": True, "base_sequence": sequence, "records": [{"value": "x"}], **self._ids}
        topic = {"name": "t", "partition_data": [{"records": [batch]}]}
        response = self.send_request(
            "Produce", 7, {"transactional_id": "pay-1", "acks": -1, "timeout_ms": 5000, "topic_data": [topic]}
        )
        [row] = response["responses"][0]["partition_responses"]
        assert row["error_code"] == 0
        offset: int = row["base_offset"]
        return offset

    def abort(self) -> None:
        self.send_request("EndTxn", 1, {"transactional_id": "pay-1", "committed": False, **self._ids})

    def send_request(self, api: str, version: int, body: dict[str, Any]) -> dict[str, Any]:
        """Send a request and return its response; retry while the error is temporary."""
        known_api = api_by_name(api)
        assert known_api is not None
        layouts = api_layouts(known_api.key, version)
        assert layouts is not None
        encoded_body = encode(layouts.request, to_encodable(layouts.request, body))
        for _ in range(10 * SECONDS):
            self._number += 1
            header = {"request_api_key": known_api.key, "request_api_version": version, "client_id": "raw"}
            encoded_header = encode(layouts.request_header, {**header, "correlation_id": self._number})
            self._socket.sendall(
                struct.pack(">i", len(encoded_header) + len(encoded_body)) + encoded_header + encoded_body
            )
            frame = self._read(4)
            frame += self._read(int.from_bytes(frame, "big"))
            response: dict[str, Any] = read_response(frame, known_api.key, version).body
            rows = [
                row
                for topic in response.get("results_by_topic_v3_and_below") or ()
                for row in topic["results_by_partition"]
            ]
            codes = [response.get("error_code", 0), *(row["partition_error_code"] for row in rows)]
            if not set(codes) & set(_RETRIABLE_ERRORS):
                assert not any(codes)
                return response
            time.sleep(0.1)
        raise AssertionError(f"{api} is refused: {response}")

    def close(self) -> None:
        self._socket.close()

    def _read(self, size: int) -> bytes:
        data = b""
        while len(data) < size:
            data += self._socket.recv(size - len(data))
        return data


@pytest.fixture
def proxy(tmp_path: Path) -> Iterator[Proxy]:
    if reason := missing():
        pytest.skip(reason)
    settings = {"num.partitions": "1", "transaction.partition.verification.enable": "false"}
    kafka = Kafka(RELEASES[1], tmp_path / "kafka", {}, settings)
    hanging_proxy = Proxy(kafka.direct, tmp_path, "--advertise", "-q")
    yield hanging_proxy
    hanging_proxy.kill_all()
    kafka.kill()


@pytest.mark.parametrize(("isolation", "code"), [("read_committed", "T001"), ("read_uncommitted", "T006")])
def test_hanging_transaction_is_reported_with_its_producer_within_30_s(proxy: Proxy, isolation: str, code: str) -> None:
    other_producer, raw_producer = producer(proxy, client_id="other"), RawProducer(proxy.bootstrap)
    send(other_producer)
    raw_producer.begin()
    raw_producer.write(0)
    raw_producer.abort()
    time.sleep(1)  # wait until the abort marker is written, which no response shows
    offset, hanging_since = raw_producer.write(1), time.monotonic()
    reader = consumer(proxy, isolation_level=isolation)

    def is_reported() -> bool:
        send(other_producer)
        reader.poll(0.2)
        return code in proxy.printed and "a hanging transaction of transactional id 'pay-1'" in proxy.printed

    until("the transaction is named", is_reported, timeout=30 - (time.monotonic() - hanging_since))
    assert f"--start-offset {offset}" in proxy.printed
    reader.close()
    raw_producer.close()
