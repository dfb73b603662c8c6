"""Real clients reach the brokers of an unmodified cluster only through kproxy with --advertise."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.peers.cluster import Cluster
from tests.peers.kafka import RELEASES, missing
from tests.peers.processes import until
from tests.peers.proxy import Proxy
from tests.peers.suites import kafka_python
from tests.peers.suites.all_suites import SUITES
from tests.peers.suites.comparison import PAST_THE_PROXY, differences, run_directly, run_through, trace_problems
from tests.peers.toolchains import skip
from tests.peers.trace import all_findings, read_lines

pytestmark = pytest.mark.peers

kafka_client = pytest.importorskip("confluent_kafka")
kafka_admin = pytest.importorskip("confluent_kafka.admin")

SECONDS = 60
SUITE_SECONDS = 300
COUNT = 300  # messages per round
PROPERTIES = {
    "default.replication.factor": "3",
    "offsets.topic.replication.factor": "3",
    "replica.lag.time.max.ms": "10000",
    "num.partitions": "4",
    "group.min.session.timeout.ms": "1000",
}
#: Test files of kafka-python that do not assume a single broker. `python -m tests.peers.suites` runs complete suites.
SUITE = ("test_consumer_integration.py", "test_producer_integration.py")


@pytest.fixture(scope="module", params=RELEASES)
def cluster(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    if reason := missing():
        skip(reason)
    cluster = Cluster(request.param, tmp_path_factory.mktemp("cluster"), 3, PROPERTIES)
    yield cluster
    cluster.kill()


def produce(producer: Any, topic: str, numbers: range) -> None:
    failures: list[Any] = []
    for number in numbers:
        producer.produce(topic, str(number), on_delivery=lambda error, _: failures.append(error) if error else None)
    assert producer.flush(SECONDS) == 0
    assert failures == []


def consume(settings: dict[str, Any], topics: list[str], count: int) -> list[int]:
    consumer = kafka_client.Consumer(settings | {"group.id": "g", "auto.offset.reset": "earliest"})
    consumer.subscribe(topics)
    values: list[int] = []

    def has_all() -> bool:
        values.extend(int(message.value()) for message in consumer.consume(1000, 1.0) if message.error() is None)
        return len(values) >= count

    until(f"{count} messages are read", has_all, timeout=SECONDS)
    consumer.close()
    return sorted(values)


@pytest.mark.parametrize("cluster", RELEASES[:1], indirect=True)
def test_client_suite_has_the_same_results_through_the_proxy(cluster: Cluster, tmp_path: Path) -> None:
    if reason := SUITES["kafka-python"].missing:
        skip(reason)
    suite = partial(kafka_python.run, files=SUITE, release=cluster.first.release)
    direct = run_directly(suite, cluster, tmp_path / "direct", timeout=SUITE_SECONDS)
    proxied = run_through(suite, cluster, tmp_path / "through", timeout=SUITE_SECONDS)
    assert list(direct.outcomes.values()).count("passed") >= 33
    assert differences([direct], [proxied]) == {}
    assert proxied.trace is not None
    assert list(trace_problems(proxied.trace)) == []


def test_clients_reach_an_unmodified_cluster_only_through_the_proxy(cluster: Cluster, tmp_path: Path) -> None:
    with ExitStack() as stack:
        proxy = Proxy(cluster.nodes[2].direct, tmp_path, "--advertise", "--detail", "full")
        stack.callback(proxy.kill_all)
        connected_names: set[str] = set()

        def record_names(text: str) -> None:
            names = [broker["nodename"] for broker in json.loads(text)["brokers"].values()]
            connected_names.update(name for name in names if name)

        base: dict[str, Any] = {
            "bootstrap.servers": proxy.bootstrap,
            "statistics.interval.ms": 200,
            "stats_cb": record_names,
        }
        base |= {"topic.metadata.refresh.interval.ms": 1000}
        admin = kafka_admin.AdminClient(base)
        create_topic(admin, kafka_admin.NewTopic("orders", 6, 3))
        producer = kafka_client.Producer(base | {"enable.idempotence": True, "message.timeout.ms": SECONDS * 1000})
        produce(producer, "orders", range(COUNT))

        cluster.nodes[3].kill()  # its partitions get new leaders
        produce(producer, "orders", range(COUNT, 2 * COUNT))
        cluster.nodes[3].start()
        cluster.add(4)
        wait_for_brokers(admin, {1, 2, 3, 4})
        create_topic(admin, kafka_admin.NewTopic("elsewhere", replica_assignment=[[4]], num_partitions=1))
        produce(producer, "elsewhere", range(2 * COUNT, 3 * COUNT))

        assert consume(base, ["orders", "elsewhere"], 3 * COUNT) == list(range(3 * COUNT))
        proxy.interrupt()
        listening_ports = set(re.findall(r"listening on [^ ]*:(\d+) ", proxy.printed))
        lines = read_lines(proxy.trace)
    broker_ports = {port_of(f"{host}:{port}") for host, port in (node.direct for node in cluster.nodes.values())}
    assert {port_of(name) for name in connected_names} <= listening_ports
    assert not {port_of(name) for name in connected_names} & broker_ports
    assert {port_of(line["server"]) for line in lines if line["kind"] == "open"} == broker_ports
    assert {finding["code"] for finding in all_findings(lines)} & PAST_THE_PROXY == set()
    rewritten = {line["api"] for line in lines if line.get("rewritten")}
    assert {"Metadata", "FindCoordinator"} <= rewritten
    for line in lines:
        if line.get("api") == "Metadata" and line["kind"] == "response":
            ports = [entry for entry in line["rewritten"] if entry["path"].endswith(".port")]
            assert [entry["from"] for entry in ports] == [str(broker["port"]) for broker in line["body"]["brokers"]]


def create_topic(admin: Any, topic: Any) -> None:
    admin.create_topics([topic])[topic.topic].result(SECONDS)


def wait_for_brokers(admin: Any, numbers: set[int]) -> None:
    def are_known() -> bool:
        return set(admin.list_topics(timeout=SECONDS).brokers) == numbers

    until(f"the brokers are {numbers}", are_known, timeout=SECONDS)


def port_of(address: str) -> str:
    return address.rpartition(":")[2]
