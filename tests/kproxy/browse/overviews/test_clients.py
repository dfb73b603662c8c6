"""Clients, held to counting over real captures, and what is said of them and Kafka 4."""

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
from tests.kproxy.browse.sample_overviews import captured, closed, feed, feed_torn, missed, opened, torn
from tests.kproxy.browse.sessions import BEGAN, request, response
from tests.kproxy.capture_results import DATA, lines_of
from tests.kproxy.captures_made import CAPTURES

#: APIs between brokers; clients have no use for them.
BETWEEN_BROKERS = {"LeaderAndIsr", "StopReplica", "UpdateMetadata", "ControlledShutdown", "AlterPartition"}


def rows(*lines: Line) -> list[Client]:
    return feed(Clients(), lines).rows()


def only(*lines: Line) -> Client:
    [client] = rows(*lines)
    return client


def test_real_captures_are_counted_as_by_hand() -> None:
    software: dict[str, tuple[str, str | None]] = {}
    expected: dict[tuple[str | None, ...], list[RequestLine | ResponseLine]] = defaultdict(list)
    told: Counter[tuple[str | None, ...]] = Counter()
    last: dict[str, tuple[str | None, ...]] = {}
    for line in captured():
        if isinstance(line, FindingLine) and line.connection_id in last:
            told[last[line.connection_id]] += 1
        if not isinstance(line, RequestLine | ResponseLine) or line.api is None:
            continue
        if isinstance(line, RequestLine) and line.software_name is not None:
            software[line.connection_id] = line.software_name, line.software_version
        name, version = software.get(line.connection_id, (None, None))
        last[line.connection_id] = key = (line.client_id, name, version, line.client.rpartition(":")[0])
        expected[key].append(line)
        told[key] += len(line.findings)
    found = {(row.client_id, row.software_name, row.software_version, row.host): row for row in rows(*captured())}
    assert found.keys() == expected.keys()
    for key, lines in expected.items():
        row = found[key]
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
        assert sum(row.findings) == told[key]


def test_the_least_versions_are_those_that_every_kafka_4_serves() -> None:
    least = {
        key: version
        for key, version in removed_versions.lowest_served().items()
        if api_name(key) not in BETWEEN_BROKERS
    }
    assert least
    for name in ("4.0", "4.1", "4.2", "4.3", "4.4"):
        served = releases.line(name).served
        for key, version in least.items():
            if "Share" in api_name(key) and key not in served:
                continue  # share groups came with 4.1
            assert served[key][0] == version


def hello(number: int = 1, version: int = 3, **more: object) -> RequestLine:
    return request(number, api="ApiVersions", api_key=18, api_version=version, **more)


def old(number: int = 2, **more: object) -> RequestLine:
    """A Fetch that Kafka 4 does not serve."""
    return request(number, **{"api_version": 2} | more)  # type: ignore[arg-type]


SENTENCE = f"uses Fetch v2, but Kafka {removed_versions.newest_release()} serves Fetch from v4 on"


def test_a_client_that_uses_nothing_old_works() -> None:
    client = only(opened(), hello(), request(2))
    assert (client.verdict, client.old) == (Kafka4Verdict.WORKS, ())
    assert client.apis == (ApiUse("ApiVersions", 3, 3, 1), ApiUse("Fetch", 12, 12, 1))


def test_a_client_that_does_not_ask_is_refused() -> None:
    client = only(opened(), old())
    assert client.verdict is Kafka4Verdict.REFUSED
    assert client.reason == f"{SENTENCE}; it does not negotiate versions (ApiVersions)"
    assert [(use.api, use.version, use.least, use.row) for use in client.old] == [("Fetch", 2, 4, 1)]


def test_a_client_that_negotiates_may_be_held_back_by_its_broker() -> None:
    asked = old()
    client = only(opened(), hello(), asked, response(asked))
    assert (client.verdict, client.negotiates) == (Kafka4Verdict.UNKNOWN, True)
    assert client.reason == f"{SENTENCE}; it negotiates, so it may use other versions with a newer broker"


def test_a_client_that_asked_on_another_connection_remembers() -> None:
    lines = [opened(), hello(), opened("n-2"), old(connection_id="n-2")]
    assert only(*lines).verdict is Kafka4Verdict.UNKNOWN
    [first, second] = rows(*lines[:1], hello(software_name="x", software_version="1"), *lines[2:])
    assert (first.verdict, second.verdict, second.negotiates) == (Kafka4Verdict.WORKS, Kafka4Verdict.UNKNOWN, True)


def test_where_the_beginning_was_not_seen_nobody_knows_whether_it_asked() -> None:
    gap, lines_lost = missed(direction="request"), missed("", "both")
    for lines in ([old()], [opened(midstream=True), old()], [opened(), gap, old()], [opened(), lines_lost, old()]):
        client = only(*lines)
        assert client.verdict is Kafka4Verdict.UNKNOWN
        assert client.reason == f"{SENTENCE}; it is unknown whether it negotiates"
    assert only(opened(), missed(), old()).verdict is Kafka4Verdict.REFUSED


def test_a_server_that_answers_newer_versions_shows_that_the_client_has_none() -> None:
    lines = [opened(), hello(), old()]
    newer = request(9, connection_id="n-2", client="10.0.0.9:1", client_id="other")
    first, _ = rows(*lines, newer, response(newer))
    assert first.verdict is Kafka4Verdict.REFUSED
    assert first.reason == f"{SENTENCE}; 10.0.0.2:9092 also serves v12, which the client does not use"
    elsewhere = response(newer)
    elsewhere.server = newer.server = "10.0.0.3:9092"
    assert rows(*lines, newer, elsewhere)[0].verdict is Kafka4Verdict.UNKNOWN
    own = request(3)
    assert only(*lines, own, response(own)).verdict is Kafka4Verdict.UNKNOWN


def test_a_server_that_refuses_it_already_says_so() -> None:
    asked = old()
    refused = response(asked, errors=[ErrorEntry("error_code", 35, "UNSUPPORTED_VERSION")])
    client = only(opened(), hello(), asked, refused)
    assert client.verdict is Kafka4Verdict.REFUSED
    assert client.reason == f"{SENTENCE}; 10.0.0.2:9092 already refuses it"


def test_an_unsupported_version_is_not_served() -> None:
    asked = request(9, connection_id="n-2", client_id="other")
    refused = response(asked, errors=[ErrorEntry("error_code", 35, "UNSUPPORTED_VERSION")])
    assert rows(opened(), hello(), old(), asked, refused)[0].verdict is Kafka4Verdict.UNKNOWN


def test_several_old_apis_and_one_that_is_gone() -> None:
    client = only(opened(), old(), old(api="LeaderAndIsr", api_key=4, api_version=1), old(api_version=0))
    assert [(use.api, use.version, use.least) for use in client.old] == [("Fetch", 0, 4), ("LeaderAndIsr", 1, None)]
    assert "(and 1 more API)" in client.reason
    client = only(opened(), old(api="LeaderAndIsr", api_key=4, api_version=1))
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
def test_what_the_kip_says_of_its_software(name: str, version: str, ending: str) -> None:
    asks = hello(software_name=name, software_version=version)
    client = only(opened(), asks, old())
    assert client.reason == f"{SENTENCE}; it negotiates, so it may use other versions with a newer broker{ending}"
    works = only(opened(), asks).reason
    assert works.endswith("or later") == ("or later)" in ending)


def verdicts(path: Path) -> dict[tuple[str | None, str | None], Client]:
    return {(row.client_id, row.software_name): row for row in feed(Clients(), lines_of(path)).rows()}


def test_real_clients_and_what_becomes_of_them() -> None:
    found = verdicts(DATA / "pcap" / "kcat-fallback-0.8-0.10-3.9.1.pcap.gz")
    client = found["rdkafka", None]  # api.version.request=false
    assert (client.verdict, {use.api for use in client.old}) == (
        Kafka4Verdict.REFUSED,
        {"Fetch", "ListOffsets", "Produce"},
    )
    assert found["rdkafka", "librdkafka"].verdict is Kafka4Verdict.WORKS
    pinned = verdicts(DATA / "pcap" / "sarama_v0.11.0.0-3.9.1.pcap.gz")["lab-sarama", "sarama"]
    assert (pinned.verdict, [use.api for use in pinned.old]) == (Kafka4Verdict.UNKNOWN, ["DescribeConfigs"])
    for name in ("java-4.3.1", "confluent-3.9.1", "kafkajs-4.3.1", "aiokafka-4.3.1", "kafka-python-4.3.1"):
        assert {row.verdict for row in verdicts(DATA / "pcap" / f"{name}.pcap.gz").values()} == {Kafka4Verdict.WORKS}
    [before] = verdicts(CAPTURES / "old-client-before-kafka-4.pcap.gz").values()
    [at_4] = verdicts(CAPTURES / "old-client-at-kafka-4.pcap.gz").values()
    assert (before.verdict, at_4.verdict) == (Kafka4Verdict.UNKNOWN, Kafka4Verdict.REFUSED)


def test_a_connection_that_several_clients_share() -> None:
    lines = [request(number, client_id=f"c{number % 20}") for number in range(60)]
    found = rows(opened(), *lines)
    assert [(row.client_id, row.requests) for row in found] == [(f"c{number}", 3) for number in range(20)]


def test_hosts_are_told_apart_and_ports_are_not() -> None:
    lines: list[Line] = []
    for number, client in enumerate(["10.0.0.1:1", "10.0.0.1:2", "[::1]:3"]):
        lines.append(OpenLine(v=1, ts=opened().ts, connection_id=f"n-{number}", client=client, server="s:1"))
        lines.append(request(1, connection_id=f"n-{number}", client=client))
    assert [(row.host, row.connections) for row in rows(*lines)] == [("10.0.0.1", 2), ("[::1]", 1)]


def test_of_many_clients_those_seen_last_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clients, "MAX_CLIENTS", 50)
    monkeypatch.setattr(clients, "_AT_ONCE", 10)
    overview = Clients()
    for number in range(400):
        overview.observe(request(1, client_id=f"c{number}", connection_id=f"n-{number}"), 2 * number, BEGAN)
        overview.observe(request(1, client_id="stays", connection_id="n-stays"), 2 * number + 1, BEGAN)
    found = overview.rows()
    assert 40 <= len(found) <= 50
    assert len(found) + overview.others == 401
    assert max(found, key=lambda row: row.requests).client_id == "stays"
    assert max(row.requests for row in found) == 400
    assert found[-1].client_id == "c399"


def test_a_client_that_was_let_go_comes_back(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clients, "MAX_CLIENTS", 2)
    monkeypatch.setattr(clients, "_AT_ONCE", 1)
    lines = [request(1, client_id=name, connection_id=name) for name in ("a", "b", "c", "a", "a")]
    overview = feed(Clients(), [*lines, closed("a")])
    assert {(row.client_id, row.requests) for row in overview.rows()} == {("a", 2), ("c", 1)}


@given(torn)
def test_no_lines_in_any_order_are_too_much(lines: list[tuple[Line, int]]) -> None:
    overview = feed_torn(Clients(), lines)
    found = overview.rows()
    keys = {(row.client_id, row.software_name, row.software_version, row.host) for row in found}
    assert len(keys) == len(found)
    asked = sum(
        isinstance(line, RequestLine) and line.api_key is not None and line.api_version is not None for line, _ in lines
    )
    assert sum(row.requests for row in found) == asked
    assert all(row.reason for row in found)
