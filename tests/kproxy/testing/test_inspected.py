"""The proxy and the inspected broker record frames and findings, and leave nothing behind."""

from __future__ import annotations

import asyncio
import socket
import threading

import pytest

import kproxy
from dissectors import Direction, encode_request, read_response, records
from kproxy.errors import UserError
from kproxy.testing.traffic import InspectedTraffic

HELLO = encode_request("ApiVersions", 0, correlation_id=1, client_id="test")
METADATA = encode_request("Metadata", 9, {"topics": None}, correlation_id=2, client_id="test")


def exchange(address: str, *requests: bytes) -> list[bytes]:
    """Send each request after the response to the previous one; return the responses."""
    host, port = address.split(":")
    responses = []
    with socket.create_connection((host, int(port)), timeout=30) as client, client.makefile("rb") as stream:
        for request in requests:
            client.sendall(request)
            prefix = stream.read(4)
            responses.append(prefix + stream.read(int.from_bytes(prefix, "big")))
    return responses


def addresses(metadata: bytes) -> list[str]:
    """Return the addresses of the brokers in a Metadata response."""
    return [f"{broker['host']}:{broker['port']}" for broker in read_response(metadata, 3, 9).body["brokers"]]


def kproxy_threads() -> list[str]:
    return [thread.name for thread in threading.enumerate() if thread.name.startswith("kproxy")]


def is_closed(address: str) -> bool:
    host, port = address.split(":")
    try:
        socket.create_connection((host, int(port)), timeout=30).close()
    except ConnectionRefusedError:
        return True
    return False


def test_proxy_rewrites_addresses_and_records_frames() -> None:
    with kproxy.BrokerThread(brokers=2) as broker, kproxy.ProxyThread(broker.bootstrap) as proxy:
        first, second = proxy.bootstrap.split(",")
        _, metadata = exchange(first, HELLO, METADATA)
        assert addresses(metadata) == [first, second]
        assert [(frame.kind, frame.api) for frame in proxy.frames] == [
            ("request", "ApiVersions"),
            ("response", "ApiVersions"),
            ("request", "Metadata"),
            ("response", "Metadata"),
        ]
        assert [frame.api for frame in proxy.requests()] == ["ApiVersions", "Metadata"]
        [response] = proxy.responses("Metadata")
        assert response.body is not None
        assert response.body["controller_id"] == 1
        assert proxy.findings == []


def test_findings_and_frames_are_still_available_after_the_block() -> None:
    with kproxy.InspectedBrokerThread() as broker:
        exchange(broker.bootstrap, METADATA)
    [finding] = broker.findings
    assert (finding.code, finding.name, finding.severity) == ("V003", "no-apiversions", "info")
    assert repr(finding).startswith("<info V003 no-apiversions: client 'test' at 127.0.0.1 sends Metadata v9")
    assert finding.hint == finding.finding.hint
    assert finding.hint
    assert finding.path is None
    assert kproxy.report(broker.findings).startswith("info: V003 no-apiversions: client 'test'")
    assert len(broker.frames) == 2
    assert [frame.api for frame in broker.requests("Metadata")] == ["Metadata"]
    assert broker.responses("Produce") == []


def test_stopped_broker_refuses_connections_until_it_starts() -> None:
    with kproxy.InspectedBrokerThread(brokers=2) as broker:
        first, second = broker.bootstrap.split(",")
        broker.stop_node(1)
        assert is_closed(first)
        assert addresses(exchange(second, METADATA)[0]) == [second]
        broker.start_node(1)
        broker.start_node(1)
        assert addresses(exchange(first, METADATA)[0]) == [first, second]
        assert len(broker.requests("Metadata")) == 2


@pytest.mark.parametrize("error", [RuntimeError("of the test"), KeyboardInterrupt()], ids=repr)
def test_exception_leaves_no_sockets_or_threads(error: BaseException) -> None:
    ports = []

    def fail() -> None:
        with kproxy.InspectedBrokerThread() as broker, kproxy.ProxyThread(broker.bootstrap) as proxy:
            ports.extend([broker.bootstrap, proxy.bootstrap])
            with socket.create_connection(("127.0.0.1", int(proxy.bootstrap.split(":")[1]))) as client:
                client.sendall(HELLO)
                raise error

    with pytest.raises(type(error)):
        fail()
    assert len(ports) == 2
    assert all(map(is_closed, ports))
    assert kproxy_threads() == []


def test_failed_start_leaves_no_threads() -> None:
    with socket.create_server(("127.0.0.1", 0)) as closed_socket:
        address = f"127.0.0.1:{closed_socket.getsockname()[1]}"
    with pytest.raises(UserError, match=f"upstream {address} is unreachable: connection refused"):
        kproxy.ProxyThread(address).__enter__()
    with pytest.raises(ValueError, match="use 1 to 65535"):
        kproxy.ProxyThread("localhost:0")
    with pytest.raises(ValueError, match="no broker: pass HOST:PORT"):
        kproxy.ProxyThread(" , ")
    with pytest.raises(ValueError, match="nonsense"):
        kproxy.InspectedBrokerThread(quirks=["nonsense"]).__enter__()
    assert kproxy_threads() == []


def test_running_broker_cannot_be_started_again() -> None:
    with kproxy.BrokerThread() as broker, pytest.raises(RuntimeError, match="runs already"):
        broker.__enter__()


async def test_several_brokers_and_a_proxy_share_one_event_loop() -> None:
    async with (
        kproxy.InspectedBroker() as first,
        kproxy.InspectedBroker(ports=[0]) as second,
        kproxy.Proxy(first.bootstrap, name="a") as proxy,
    ):
        await asyncio.to_thread(exchange, proxy.bootstrap, HELLO)
        await asyncio.to_thread(exchange, second.bootstrap, HELLO, METADATA)
        assert [len(recorder.frames) for recorder in (first, second, proxy)] == [2, 4, 2]
        assert {frame.connection_id for frame in proxy.frames} == {"a-1"}
        assert len(proxy.requests()) == len(proxy.responses()) == 1
        assert [recorder.findings for recorder in (first, second, proxy)] == [[], [], []]


async def test_exception_in_the_block_closes_the_proxy() -> None:
    async with kproxy.Broker() as broker:
        with pytest.raises(RuntimeError, match="of the test"):
            async with kproxy.Proxy(broker.bootstrap) as proxy:
                raise RuntimeError("of the test")
        assert is_closed(proxy.bootstrap)
        assert not is_closed(broker.bootstrap)


async def test_pending_traffic_is_inspected_above_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kproxy.testing.traffic._MAX_WAITING", 1000)
    traffic = InspectedTraffic("test")
    tap = traffic.tap()
    tap.begin([], lambda active: None, lambda error: None)
    streams = tap.open(1, at=0, client="10.0.0.1:50000", server="10.0.0.2:9092", listener="127.0.0.1:9092").streams
    while traffic.waiting_bytes <= 1000:
        streams[Direction.REQUEST].receive_data(HELLO, at=0)
    await asyncio.sleep(0)
    assert traffic.waiting_bytes == 0
    streams[Direction.REQUEST].receive_data(HELLO, at=0)
    assert traffic.waiting_bytes > len(HELLO)
    assert len(traffic.requests("ApiVersions")) > 10


async def test_probe_runs_as_a_coroutine() -> None:
    async with kproxy.Broker() as broker:
        results = await kproxy.run_probe(broker.bootstrap, only=["framing"], skip=["framing/pipelined"])
        assert results
        assert {result.outcome for result in results} == {"pass"}
        assert "framing/pipelined" not in {result.check.id for result in results}
        with pytest.raises(UserError, match="only nonsense: no such check"):
            await kproxy.run_probe(broker.bootstrap, only=["nonsense"])


BATCH = records.encode([{"records": [{"value": b"v"}]}])
PRODUCE = encode_request(
    "Produce",
    7,
    {"acks": 0, "topic_data": [{"name": "orders", "partition_data": [{"index": 0, "records": BATCH}]}]},
    correlation_id=3,
    client_id="test",
)


@pytest.mark.parametrize("greets", [True, False])
def test_requests_without_a_response_are_complete_at_once(greets: bool) -> None:
    with kproxy.InspectedBrokerThread(topics={"orders": 1}) as broker, kproxy.ProxyThread(broker.bootstrap) as proxy:
        host, port = proxy.bootstrap.split(":")
        for number in range(1, 30):
            with socket.create_connection((host, int(port)), timeout=30) as client:
                client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                if greets:
                    client.sendall(HELLO)
                    client.recv(4096)
                for _ in range(3):
                    client.sendall(PRODUCE)
                assert len(proxy.requests("Produce")) == 3 * number
                assert len(broker.requests("Produce")) == 3 * number


def test_requests_without_a_response_are_complete_after_the_block() -> None:
    for _ in range(5):
        with kproxy.InspectedBrokerThread(topics={"orders": 1}) as broker:
            host, port = broker.bootstrap.split(":")
            with socket.create_connection((host, int(port)), timeout=30) as client:
                client.sendall(HELLO)
                client.recv(4096)
                client.sendall(PRODUCE)
        assert len(broker.requests("Produce")) == 1


async def test_requests_of_the_same_loop_are_complete_once_they_have_settled() -> None:
    async with kproxy.InspectedBroker(topics={"orders": 1}) as broker:
        host, port = broker.bootstrap.split(":")
        reader, writer = await asyncio.open_connection(host, int(port))
        writer.write(HELLO)
        await reader.read(4096)
        for number in range(1, 30):
            writer.write(PRODUCE)
            await broker.settle()
            assert len(broker.requests("Produce")) == number
        writer.close()
        await writer.wait_closed()


def test_results_are_empty_before_the_block() -> None:
    broker = kproxy.InspectedBroker()
    assert broker.frames == broker.findings == []
