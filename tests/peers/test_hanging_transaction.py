"""A truly hanging transaction (KIP-664): a batch that arrives after its transaction has ended, on a real broker.

Brokers of 3.6 and later ask the coordinator before they accept it (KIP-890), unless they are told not to.
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
from tests.kproxy.stories import prepared
from tests.peers.kafka import RELEASES, Kafka, missing
from tests.peers.processes import until
from tests.peers.proxy import Proxy
from tests.peers.test_transactions import SECONDS, consumer, producer, send

pytestmark = pytest.mark.peers

_RETRIED = (14, 15, 16, 51)  # the coordinator is not ready, or still completes the previous transaction


class RawProducer:
    """A transactional producer that writes the requests it is told to."""

    def __init__(self, bootstrap: str) -> None:
        host, port = bootstrap.split(":")
        self._socket = socket.create_connection((host, int(port)), SECONDS)
        self._number = 0
        self._ids: dict[str, Any] = {}

    def begin(self) -> None:
        self.ask("FindCoordinator", 2, {"key": "pay-1", "key_type": 1})
        got = self.ask("InitProducerId", 1, {"transactional_id": "pay-1", "transaction_timeout_ms": 60_000})
        self._ids = {"producer_id": got["producer_id"], "producer_epoch": got["producer_epoch"]}
        ids = {f"v3_and_below_{name}": value for name, value in {"transactional_id": "pay-1", **self._ids}.items()}
        topics = [{"name": "t", "partitions": [0]}]
        self.ask("AddPartitionsToTxn", 1, {**ids, "v3_and_below_topics": topics})

    def write(self, sequence: int) -> int:
        """Write a batch; returns its offset."""
        batch = {"is_transactional": True, "base_sequence": sequence, "records": [{"value": "x"}], **self._ids}
        topic = {"name": "t", "partition_data": [{"records": [batch]}]}
        got = self.ask(
            "Produce", 7, {"transactional_id": "pay-1", "acks": -1, "timeout_ms": 5000, "topic_data": [topic]}
        )
        [row] = got["responses"][0]["partition_responses"]
        assert row["error_code"] == 0
        offset: int = row["base_offset"]
        return offset

    def abort(self) -> None:
        self.ask("EndTxn", 1, {"transactional_id": "pay-1", "committed": False, **self._ids})

    def ask(self, api: str, version: int, body: dict[str, Any]) -> dict[str, Any]:
        """The response to a request, which is repeated while its error passes."""
        found = api_by_name(api)
        assert found is not None
        layouts = api_layouts(found.key, version)
        assert layouts is not None
        written = encode(layouts.request, prepared(layouts.request, body))
        for _ in range(10 * SECONDS):
            self._number += 1
            header = {"request_api_key": found.key, "request_api_version": version, "client_id": "raw"}
            head = encode(layouts.request_header, {**header, "correlation_id": self._number})
            self._socket.sendall(struct.pack(">i", len(head) + len(written)) + head + written)
            frame = self._read(4)
            frame += self._read(int.from_bytes(frame, "big"))
            answer: dict[str, Any] = read_response(frame, found.key, version).body
            rows = [
                row
                for each in answer.get("results_by_topic_v3_and_below") or ()
                for row in each["results_by_partition"]
            ]
            codes = [answer.get("error_code", 0), *(row["partition_error_code"] for row in rows)]
            if not set(codes) & set(_RETRIED):
                assert not any(codes)
                return answer
            time.sleep(0.1)
        raise AssertionError(f"{api} is refused: {answer}")

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
    opened = Proxy(kafka.direct, tmp_path, "--advertise", "-q")
    yield opened
    opened.kill_all()
    kafka.kill()


@pytest.mark.parametrize(("isolation", "code"), [("read_committed", "T001"), ("read_uncommitted", "T006")])
def test_a_hanging_transaction_is_named_with_its_producer_within_30_s(proxy: Proxy, isolation: str, code: str) -> None:
    other, raw = producer(proxy, client_id="other"), RawProducer(proxy.bootstrap)
    send(other)
    raw.begin()
    raw.write(0)
    raw.abort()
    time.sleep(1)  # until the marker of the abort is written, which no response shows
    offset, hung = raw.write(1), time.monotonic()
    reader = consumer(proxy, isolation_level=isolation)

    def is_named() -> bool:
        send(other)
        reader.poll(0.2)
        return code in proxy.printed and "a hanging transaction of transactional id 'pay-1'" in proxy.printed

    until("the transaction is named", is_named, seconds=30 - (time.monotonic() - hung))
    assert f"--start-offset {offset}" in proxy.printed
    reader.close()
    raw.close()
