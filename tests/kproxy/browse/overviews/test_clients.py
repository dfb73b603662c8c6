"""The overview of clients is compared with a simple recount of real captures; its verdicts on Kafka 4 are tested."""

from __future__ import annotations

from collections import Counter, defaultdict
from pathlib import Path

import pytest
from hypothesis import given

from dissectors.messages.message import api_name
from dissectors.schemas import lines as releases
from dissectors.schemas import removed_versions
from kproxy.browse.overviews import clients
from kproxy.browse.overviews.clients import ApiUse, Client, Clients
from kproxy.browse.overviews.kafka4 import Kafka4Verdict
from kproxy.browse.rows.index import time_of
from kproxy.trace.lines import ErrorEntry, FindingLine, Line, OpenLine, RequestLine, ResponseLine
from tests.kproxy.browse.sample_overviews import (
    captured,
    close_line,
    feed,
    feed_torn,
    inconsistent_lines,
    make_gap,
    open_line,
)
from tests.kproxy.browse.sessions import BEGAN, request, response
from tests.kproxy.capture_results import DATA, lines_of
from tests.kproxy.captures_made import CAPTURES

#: APIs that only brokers use.
BETWEEN_BROKERS = {"LeaderAndIsr", "StopReplica", "UpdateMetadata", "ControlledShutdown", "AlterPartition"}


def rows(*lines: Line) -> list[Client]:
    return feed(Clients(), lines).rows()


def single_client(*lines: Line) -> Client:
    [client] = rows(*lines)
    return client


def test_counts_of_real_captures_equal_a_simple_recount() -> None:
    software: dict[str, tuple[str, str | None]] = {}
    expected: dict[tuple[str | None, ...], list[RequestLine | ResponseLine]] = defaultdict(list)
    finding_counts: Counter[tuple[str | None, ...]] = Counter()
    key_by_connection: dict[str, tuple[str | None, ...]] = {}
    for line in captured():
        if isinstance(line, FindingLine) and line.connection_id in key_by_connection:
            finding_counts[key_by_connection[line.connection_id]] += 1
        if not isinstance(line, RequestLine | ResponseLine) or line.api is None:
            continue
        if isinstance(line, RequestLine) and line.software_name is not None:
            software[line.connection_id] = line.software_name, line.software_version
        name, version = software.get(line.connection_id, (None, None))
        key_by_connection[line.connection_id] = key = (line.client_id, name, version, line.client.rpartition(":")[0])
        expected[key].append(line)
        finding_counts[key] += len(line.findings)
    clients_by_key = {
        (row.client_id, row.software_name, row.software_version, row.host): row for row in rows(*captured())
    }
    assert clients_by_key.keys() == expected.keys()
    for key, lines in expected.items():
        row = clients_by_key[key]
        requests = [line for line in lines if isinstance(line, RequestLine)]
        assert row.requests == len(requests)
        assert row.connections == len({line.connection_id for line in lines})
        assert row.last_at == time_of(lines[-1].ts)
        uses = Counter(line.api for line in requests)
        versions = {api: [line.api_version for line in requests if line.api == api] for api in uses}
        assert {use.api: (use.lowest, use.highest, use.requests) for use in row.apis} == {
            api: (min(versions[api], key=int), max(versions[api], key=int), count)  # type: ignore[arg-type]
            for api, count in uses.items()
        }
        assert row.refusals == sum(bool(line.errors) for line in lines if isinstance(line, ResponseLine))
        assert sum(row.findings) == finding_counts[key]


def test_minimum_versions_are_served_by_every_kafka_4() -> None:
    minimum_versions = {
        key: version
        for key, version in removed_versions.lowest_served().items()
        if api_name(key) not in BETWEEN_BROKERS
    }
    assert minimum_versions
    for name in ("4.0", "4.1", "4.2", "4.3", "4.4"):
        served = releases.line(name).served
        for key, version in minimum_versions.items():
            if "Share" in api_name(key) and key not in served:
                continue  # share groups came with 4.1
            assert served[key][0] == version


def api_versions_request(number: int = 1, version: int = 3, **more: object) -> RequestLine:
    return request(number, api="ApiVersions", api_key=18, api_version=version, **more)


def old_fetch(number: int = 2, **more: object) -> RequestLine:
    """Return a Fetch request of a version that Kafka 4 does not serve."""
    return request(number, **{"api_version": 2} | more)  # type: ignore[arg-type]


OLD_FETCH_REASON = f"uses Fetch v2, but Kafka {removed_versions.newest_release()} serves Fetch from v4 on"


def test_client_without_old_versions_works_with_kafka_4() -> None:
    client = single_client(open_line(), api_versions_request(), request(2))
    assert (client.verdict, client.old) == (Kafka4Verdict.WORKS, ())
    assert client.apis == (ApiUse("ApiVersions", 3, 3, 1), ApiUse("Fetch", 12, 12, 1))


def test_client_that_does_not_negotiate_is_refused() -> None:
    client = single_client(open_line(), old_fetch())
    assert client.verdict is Kafka4Verdict.REFUSED
    assert client.reason == f"{OLD_FETCH_REASON}; it does not negotiate versions (ApiVersions)"
    assert [(use.api, use.version, use.least, use.row) for use in client.old] == [("Fetch", 2, 4, 1)]


def test_verdict_on_a_client_that_negotiates_is_unknown() -> None:
    request_line = old_fetch()
    client = single_client(open_line(), api_versions_request(), request_line, response(request_line))
    assert (client.verdict, client.negotiates) == (Kafka4Verdict.UNKNOWN, True)
    assert client.reason == f"{OLD_FETCH_REASON}; it negotiates, so it may use other versions with a newer broker"


def test_negotiation_on_an_earlier_connection_is_remembered() -> None:
    lines = [open_line(), api_versions_request(), open_line("n-2"), old_fetch(connection_id="n-2")]
    assert single_client(*lines).verdict is Kafka4Verdict.UNKNOWN
    [first, second] = rows(*lines[:1], api_versions_request(software_name="x", software_version="1"), *lines[2:])
    assert (first.verdict, second.verdict, second.negotiates) == (Kafka4Verdict.WORKS, Kafka4Verdict.UNKNOWN, True)


def test_negotiation_is_unknown_if_the_start_of_the_connection_is_missing() -> None:
    gap, lines_lost = make_gap(direction="request"), make_gap("", "both")
    for lines in (
        [old_fetch()],
        [open_line(midstream=True), old_fetch()],
        [open_line(), gap, old_fetch()],
        [open_line(), lines_lost, old_fetch()],
    ):
        client = single_client(*lines)
        assert client.verdict is Kafka4Verdict.UNKNOWN
        assert client.reason == f"{OLD_FETCH_REASON}; it is unknown whether it negotiates"
    assert single_client(open_line(), make_gap(), old_fetch()).verdict is Kafka4Verdict.REFUSED


def test_client_is_refused_if_its_server_also_serves_newer_versions() -> None:
    lines = [open_line(), api_versions_request(), old_fetch()]
    newer_request = request(9, connection_id="n-2", client="10.0.0.9:1", client_id="other")
    first, _ = rows(*lines, newer_request, response(newer_request))
    assert first.verdict is Kafka4Verdict.REFUSED
    assert first.reason == f"{OLD_FETCH_REASON}; 10.0.0.2:9092 also serves v12, which the client does not use"
    response_of_another_server = response(newer_request)
    response_of_another_server.server = newer_request.server = "10.0.0.3:9092"
    assert rows(*lines, newer_request, response_of_another_server)[0].verdict is Kafka4Verdict.UNKNOWN
    own_request = request(3)
    assert single_client(*lines, own_request, response(own_request)).verdict is Kafka4Verdict.UNKNOWN


def test_reason_names_a_server_that_already_refuses_the_version() -> None:
    request_line = old_fetch()
    error_response = response(request_line, errors=[ErrorEntry("error_code", 35, "UNSUPPORTED_VERSION")])
    client = single_client(open_line(), api_versions_request(), request_line, error_response)
    assert client.verdict is Kafka4Verdict.REFUSED
    assert client.reason == f"{OLD_FETCH_REASON}; 10.0.0.2:9092 already refuses it"


def test_unsupported_version_does_not_count_as_served() -> None:
    request_line = request(9, connection_id="n-2", client_id="other")
    error_response = response(request_line, errors=[ErrorEntry("error_code", 35, "UNSUPPORTED_VERSION")])
    assert (
        rows(open_line(), api_versions_request(), old_fetch(), request_line, error_response)[0].verdict
        is Kafka4Verdict.UNKNOWN
    )


def test_reason_counts_further_old_apis_and_names_a_removed_one() -> None:
    client = single_client(
        open_line(), old_fetch(), old_fetch(api="LeaderAndIsr", api_key=4, api_version=1), old_fetch(api_version=0)
    )
    assert [(use.api, use.version, use.least) for use in client.old] == [("Fetch", 0, 4), ("LeaderAndIsr", 1, None)]
    assert "(and 1 more API)" in client.reason
    client = single_client(open_line(), old_fetch(api="LeaderAndIsr", api_key=4, api_version=1))
    assert "has no LeaderAndIsr" in client.reason


@pytest.mark.parametrize(
    ("name", "version", "ending"),
    [
        ("librdkafka", "1.8.2", " (KIP-896 requires librdkafka 1.8.2 or later, which it is)"),
        ("confluent-kafka-python", "2.16.1-rdkafka-2.16.0",
         " (KIP-896 requires librdkafka 1.8.2 or later, which it is)"),
        ("librdkafka", "1.6.0", " (KIP-896 requires librdkafka 1.8.2 or later)"),
        ("sarama", "v1.30.0", " (KIP-896 requires sarama 1.30.1 or later)"),
        ("apache-kafka-java", "2.10.0", " (KIP-896 requires apache-kafka-java 2.1.0 or later, which it is)"),
        ("apache-kafka-java", "unknown", ""),
        ("kafka-python", "99999999999999999999", ""),
        ("somebody-else", "9.9", ""),
    ],
)  # fmt: skip
def test_reason_quotes_the_kip_on_the_client_software(name: str, version: str, ending: str) -> None:
    negotiation = api_versions_request(software_name=name, software_version=version)
    client = single_client(open_line(), negotiation, old_fetch())
    assert (
        client.reason == f"{OLD_FETCH_REASON}; it negotiates, so it may use other versions with a newer broker{ending}"
    )
    reason_without_old_versions = single_client(open_line(), negotiation).reason
    assert reason_without_old_versions.endswith("or later") == ("or later)" in ending)


def clients_of_capture(path: Path) -> dict[tuple[str | None, str | None], Client]:
    return {(row.client_id, row.software_name): row for row in feed(Clients(), lines_of(path)).rows()}


@pytest.mark.slow
def test_real_clients_get_the_expected_verdicts() -> None:
    fallback_clients = clients_of_capture(DATA / "pcap" / "kcat-fallback-0.8-0.10-3.9.1.pcap.gz")
    client = fallback_clients["rdkafka", None]  # api.version.request=false
    assert (client.verdict, {use.api for use in client.old}) == (
        Kafka4Verdict.REFUSED,
        {"Fetch", "ListOffsets", "Produce"},
    )
    assert fallback_clients["rdkafka", "librdkafka"].verdict is Kafka4Verdict.WORKS
    pinned = clients_of_capture(DATA / "pcap" / "sarama_v0.11.0.0-3.9.1.pcap.gz")["lab-sarama", "sarama"]
    assert (pinned.verdict, [use.api for use in pinned.old]) == (Kafka4Verdict.UNKNOWN, ["DescribeConfigs"])
    for name in ("java-4.3.1", "confluent-3.9.1", "kafkajs-4.3.1", "aiokafka-4.3.1", "kafka-python-4.3.1"):
        assert {row.verdict for row in clients_of_capture(DATA / "pcap" / f"{name}.pcap.gz").values()} == {
            Kafka4Verdict.WORKS
        }
    [before_4] = clients_of_capture(CAPTURES / "old-client-before-kafka-4.pcap.gz").values()
    [at_4] = clients_of_capture(CAPTURES / "old-client-at-kafka-4.pcap.gz").values()
    assert (before_4.verdict, at_4.verdict) == (Kafka4Verdict.UNKNOWN, Kafka4Verdict.REFUSED)


def test_clients_that_share_a_connection_are_separate_rows() -> None:
    lines = [request(number, client_id=f"c{number % 20}") for number in range(60)]
    clients = rows(open_line(), *lines)
    assert [(row.client_id, row.requests) for row in clients] == [(f"c{number}", 3) for number in range(20)]


def test_clients_are_distinguished_by_host_but_not_by_port() -> None:
    lines: list[Line] = []
    for number, client in enumerate(["10.0.0.1:1", "10.0.0.1:2", "[::1]:3"]):
        lines.append(OpenLine(v=1, ts=open_line().ts, connection_id=f"n-{number}", client=client, server="s:1"))
        lines.append(request(1, connection_id=f"n-{number}", client=client))
    assert [(row.host, row.connections) for row in rows(*lines)] == [("10.0.0.1", 2), ("[::1]", 1)]


def test_connection_whose_start_is_missing_counts_for_the_client_with_known_software() -> None:
    named_request = api_versions_request(software_name="java", software_version="4", connection_id="n-2")
    other_request = api_versions_request(software_name="go", software_version="1", connection_id="n-3")
    named: list[Line] = [open_line("n-2"), named_request]
    before, after = request(1), request(2, connection_id="n-4")
    assert [(row.software_name, row.connections, row.requests) for row in rows(before, *named, after)] == [
        ("java", 3, 3)
    ]
    # A client that does not send its software is another one, and so is one whose software may be either of two.
    complete = rows(open_line(), before, *named, open_line("n-4"), after)
    assert [(row.software_name, row.requests) for row in complete] == [(None, 2), ("java", 1)]
    ambiguous = rows(*named, open_line("n-3"), other_request, after)
    assert [(row.software_name, row.requests) for row in ambiguous] == [("java", 1), ("go", 1), (None, 1)]


def test_only_the_most_recently_active_clients_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clients, "MAX_CLIENTS", 50)
    monkeypatch.setattr(clients, "_AT_ONCE", 10)
    overview = Clients()
    for number in range(400):
        overview.observe(request(1, client_id=f"c{number}", connection_id=f"n-{number}"), 2 * number, BEGAN)
        overview.observe(request(1, client_id="stays", connection_id="n-stays"), 2 * number + 1, BEGAN)
    kept = overview.rows()
    assert 40 <= len(kept) <= 50
    assert len(kept) + overview.others == 401
    assert max(kept, key=lambda row: row.requests).client_id == "stays"
    assert max(row.requests for row in kept) == 400
    assert kept[-1].client_id == "c399"


def test_evicted_client_is_listed_again_when_it_returns(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clients, "MAX_CLIENTS", 2)
    monkeypatch.setattr(clients, "_AT_ONCE", 1)
    lines = [request(1, client_id=name, connection_id=name) for name in ("a", "b", "c", "a", "a")]
    overview = feed(Clients(), [*lines, close_line("a")])
    assert {(row.client_id, row.requests) for row in overview.rows()} == {("a", 2), ("c", 1)}


@pytest.mark.slow
@given(inconsistent_lines)
def test_lines_are_counted_in_any_order(lines: list[tuple[Line, int]]) -> None:
    overview = feed_torn(Clients(), lines)
    clients = overview.rows()
    keys = {(row.client_id, row.software_name, row.software_version, row.host) for row in clients}
    assert len(keys) == len(clients)
    request_count = sum(
        isinstance(line, RequestLine) and line.api_key is not None and line.api_version is not None for line, _ in lines
    )
    assert sum(row.requests for row in clients) == request_count
    assert all(row.reason for row in clients)
