"""Real clients with every kind of login use a cluster of three brokers behind one kproxy, with TLS on both sides."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

pytest.importorskip("confluent_kafka")
from tests.peers.kafka import RELEASES, missing
from tests.peers.proxy import Proxy
from tests.peers.secure_clients import CLIENTS, exchange
from tests.peers.secure_cluster import MECHANISMS, USER, SecureCluster
from tests.peers.toolchains import skip
from tests.peers.trace import Line, all_findings, read_lines

pytestmark = pytest.mark.peers

BEFORE_LOGIN = {"ApiVersions", "SaslHandshake", "SaslAuthenticate"}
MUTUAL_TLS = ""
#: APIs that each client uses. Kafka's latency tool does not use a group.
EXPECTED_APIS = {"Metadata", "Produce", "Fetch"}
GROUP_APIS = {"FindCoordinator", "JoinGroup", "SyncGroup", "OffsetFetch"}


@pytest.fixture(scope="module", params=RELEASES)
def cluster(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecureCluster]:
    if reason := missing():
        skip(reason)
    cluster = SecureCluster(request.param, tmp_path_factory.mktemp("cluster"))
    yield cluster
    cluster.kill()


@dataclass
class ProxyWithTrace:
    """kproxy in front of the same listener on all brokers; `lines` returns the new lines of its trace."""

    proxy: Proxy
    _lines_read: int = 0

    def lines(self) -> list[Line]:
        lines = read_lines(self.proxy.trace, torn_end=True)
        take_new_lines, self._lines_read = lines[self._lines_read :], len(lines)
        return take_new_lines


@pytest.fixture(scope="module")
def fronts(cluster: SecureCluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, ProxyWithTrace]]:
    """Run a proxy for each kind of listener; yield the proxies by listener."""
    proxies: dict[str, ProxyWithTrace] = {}
    for listener in ("SASL_SSL", "SSL"):
        options = cluster.certificates.proxy_options(client_certificates=listener == "SSL")
        directory = tmp_path_factory.mktemp(listener)
        upstream = cluster.nodes[0].listeners[listener]
        proxies[listener] = ProxyWithTrace(
            Proxy(upstream, directory, "--advertise", "--detail", "full", "-q", *options)
        )
    yield proxies
    for front in proxies.values():
        front.proxy.kill_all()


@pytest.mark.parametrize("mechanism", [*MECHANISMS, MUTUAL_TLS], ids=lambda name: name or "mutual TLS")
@pytest.mark.parametrize("client", CLIENTS)
def test_records_pass_through_kproxy_and_the_trace_has_the_principal(
    cluster: SecureCluster, fronts: dict[str, ProxyWithTrace], tmp_path: Path, client: str, mechanism: str
) -> None:
    """Clients and brokers trust different CAs, so a consumed record has passed through kproxy twice."""
    listener = "SASL_SSL" if mechanism else "SSL"
    front = fronts[listener]
    topic = f"{client}-{mechanism or 'mutual-tls'}"
    cluster.create_topic(topic)
    login = cluster.login(mechanism, bootstrap=front.proxy.bootstrap, topic=topic)
    assert exchange(client, cluster.nodes[0], login, tmp_path) == "ok", front.proxy.printed
    lines = front.lines()
    frames = [line for line in lines if line["kind"] in ("request", "response")]
    assert {line["api"] for line in frames} >= EXPECTED_APIS | (GROUP_APIS if client != "java" else set())
    assert [line for line in frames if "not_decoded" in line or "body" not in line] == []
    principal = f"User:{USER}" if mechanism else None  # the brokers receive kproxy's certificate
    assert {line.get("principal") for line in frames if line["api"] not in BEFORE_LOGIN} == {principal}
    assert all(line["tls"] for line in lines if line["kind"] == "open")
    servers = {line["server"] for line in frames if line["api"] == "Produce"}
    brokers = {"{}:{}".format(*node.listeners[listener]) for node in cluster.nodes}
    assert servers <= brokers
    assert client == "java" or servers == brokers
    assert [finding for finding in all_findings(lines) if finding["severity"] != "info"] == []


@pytest.mark.parametrize(
    "client", ["java", *(pytest.param(name, marks=pytest.mark.root) for name in ("confluent", "franz"))]
)
def test_client_reaches_three_brokers_by_name_through_one_port(
    cluster: SecureCluster, tmp_path: Path, client: str
) -> None:
    """The client uses a separate hosts file because the names are not in DNS."""
    names = ["bootstrap.kafka.test", *(f"broker-{number}.kafka.test" for number in (1, 2, 3))]
    hosts = tmp_path / "hosts"
    hosts.write_text("".join(f"127.0.0.1 {name}\n" for name in ["localhost", *names]))
    options = cluster.certificates.proxy_options()
    upstream = cluster.nodes[0].listeners["SASL_SSL"]
    proxy = Proxy(upstream, tmp_path, "--advertise", "broker-$id.kafka.test", "-q", *options)
    topic = f"{client}-by-name"
    cluster.create_topic(topic)
    login = cluster.login("SCRAM-SHA-512", bootstrap=f"{names[0]}:{proxy.address[1]}", topic=topic)
    try:
        assert exchange(client, cluster.nodes[0], login, tmp_path, hosts) == "ok", proxy.printed
        proxy.interrupt()
    finally:
        proxy.kill_all()
    lines = read_lines(proxy.trace)
    opened = [line for line in lines if line["kind"] == "open"]
    assert {line["listener"] for line in opened} == {f"127.0.0.1:{proxy.address[1]}"}
    brokers = {"{}:{}".format(*node.listeners["SASL_SSL"]) for node in cluster.nodes}
    assert {line["server"] for line in opened} == brokers
    fetched = {line["server"] for line in lines if line.get("api") == "Fetch"}
    assert fetched == brokers
    assert {finding["code"] for finding in all_findings(lines)} & {"X022", "S001", "S002", "S003"} == set()
