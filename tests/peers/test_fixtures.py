"""With real clients, the pytest fixtures record frames, and correct clients have no findings."""

from __future__ import annotations

from collections.abc import Callable

import pytest

import kproxy
from tests.peers.lab import Lab

confluent_kafka = pytest.importorskip("confluent_kafka")

pytestmark = pytest.mark.peers


def produce(bootstrap: str, count: int) -> None:
    producer = confluent_kafka.Producer({"bootstrap.servers": bootstrap})
    for number in range(count):
        producer.produce("orders", str(number).encode())
    assert producer.flush(60) == 0


def consume(bootstrap: str, count: int) -> list[bytes]:
    consumer = confluent_kafka.Consumer(
        {"bootstrap.servers": bootstrap, "group.id": "billing", "auto.offset.reset": "earliest"}
    )
    consumer.subscribe(["orders"])
    values = [message.value() for message in consumer.consume(count, timeout=60)]
    consumer.close()
    return values


@pytest.mark.kproxy_broker(brokers=3, topics={"orders": 1})
@pytest.mark.kproxy(fail_on="warning")
def test_requests_of_a_consumer_group_are_recorded(
    kproxy_broker: kproxy.InspectedBrokerThread, kproxy_proxy: Callable[[str], kproxy.ProxyThread]
) -> None:
    proxy = kproxy_proxy(kproxy_broker.bootstrap)
    produce(proxy.bootstrap, 10)
    assert consume(proxy.bootstrap, 10) == [str(number).encode() for number in range(10)]
    assert sum(topic.records or 0 for request in proxy.requests("Produce") for topic in request.topics) == 10
    assert {request.group_id for request in proxy.requests("OffsetCommit")} == {"billing"}
    assert [request.api for request in proxy.requests("LeaveGroup")] == ["LeaveGroup"]
    assert len(kproxy_broker.requests("Produce")) == len(proxy.requests("Produce"))


@pytest.mark.kproxy_broker(topics={"orders": 1}, quirks=["Produce:error:NOT_ENOUGH_REPLICAS"])
def test_error_of_a_quirk_is_reported(kproxy_broker: kproxy.InspectedBrokerThread) -> None:
    producer = confluent_kafka.Producer({"bootstrap.servers": kproxy_broker.bootstrap, "message.timeout.ms": 6000})
    producer.produce("orders", b"lost")
    producer.flush(60)
    assert "NOT_ENOUGH_REPLICAS" in kproxy.report(kproxy_broker.findings)


@pytest.mark.kproxy(fail_on="warning")
def test_proxy_in_front_of_real_kafka_has_no_findings(
    lab: Lab, kproxy_proxy: Callable[[str], kproxy.ProxyThread]
) -> None:
    host, port = lab.kafka.direct
    proxy = kproxy_proxy(f"{host}:{port}")
    produce(proxy.bootstrap, 3)
    assert consume(proxy.bootstrap, 3) == [b"0", b"1", b"2"]
    assert {request.api for request in proxy.requests()} >= {"Metadata", "Produce", "Fetch", "JoinGroup", "LeaveGroup"}
    assert {rewritten.path for response in proxy.responses("Metadata") for rewritten in response.rewritten}
