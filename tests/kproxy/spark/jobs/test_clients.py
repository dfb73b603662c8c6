from __future__ import annotations

from collections import Counter, defaultdict
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from dissectors.connections.addresses import host_of
from kproxy.browse.overviews.clients import Clients
from kproxy.browse.overviews.kafka4 import Kafka4Verdict
from kproxy.spark.jobs.clients import clients
from kproxy.trace.lines import ErrorEntry, Line, RequestLine
from tests.kproxy.browse.sample_overviews import feed
from tests.kproxy.capture_results import DATA, lines_of
from tests.kproxy.spark.jobs.conftest import CLIENTS
from tests.kproxy.spark.sample_lines import finding_entry, gap, open_, request, response, table

JAVA = {"software_name": "apache-kafka-java", "software_version": "3.9.1"}


def api_versions_request(**columns: Any) -> Line:
    return request("ApiVersions", **columns)


def client_verdicts(
    spark: SparkSession, *lines: Line, release: str | None = None
) -> list[tuple[str, str, str | None, str]]:
    """Return the name, verdict, first refusing release and reason of each client."""
    rows = clients(table(spark, *lines), release).where("api is null").collect()
    return [(row["client"], row["verdict"], row["refused_from"], row["reason"]) for row in rows]


def test_clients_are_reported_with_software_apis_hosts_and_times(spark: SparkSession) -> None:
    lines = table(
        spark,
        api_versions_request(at=1, offset=0, api_version=3, **JAVA),
        response("ApiVersions", at=1, api_version=3),
        request("Fetch", at=2, offset=10, api_version=12),
        request("Fetch", at=5, offset=30, api_version=12),
        request("Produce", at=4, offset=20, api_version=2),
        api_versions_request(at=3, connection_id="n-1-2", client="10.0.0.10:1", api_version=3, **JAVA),
        request("Fetch", at=6, connection_id="n-1-3"),  # may be another program with the same client id
        request("Metadata", at=7, connection_id="n-1-4", client="10.0.0.11:1", client_id=""),
        request(None, at=8, connection_id="n-1-4"),  # a SASL token
        response("Heartbeat", at=9, connection_id="n-1-5", client_id="never-asked"),
    )
    rows = clients(lines).collect()
    begin = min(row["first_at"] for row in rows)
    values = [
        (row["client"], row["software_version"], row["api"], row["api_version"], row["hosts"], row["connections"],
         row["requests"], (row["first_at"] - begin).seconds, (row["last_at"] - begin).seconds, row["negotiates"],
         row["verdict"], row["refused_from"])
        for row in rows
    ]  # fmt: skip
    assert values == [
        ("app", "3.9.1", None, None, 2, 2, 5, 0, 4, True, "unknown", "4.0"),
        ("10.0.0.11", None, None, None, 1, 1, 1, 6, 6, False, "works", None),
        ("app", None, None, None, 1, 1, 1, 5, 5, True, "works", None),
        ("app", "3.9.1", "Produce", 2, 1, 1, 1, 3, 3, True, "unknown", "4.0"),
        ("app", "3.9.1", "ApiVersions", 3, 2, 2, 2, 0, 2, True, "works", None),
        ("app", "3.9.1", "Fetch", 12, 1, 1, 2, 1, 4, True, "works", None),
        ("10.0.0.11", None, "Metadata", 13, 1, 1, 1, 6, 6, False, "works", None),
        ("app", None, "Fetch", 18, 1, 1, 1, 5, 5, True, "works", None),
    ]
    assert [row["reason"] for row in rows if row["verdict"] == "unknown"] == [
        "uses Produce v2, but Kafka 4.4.0 serves Produce from v3 on; it negotiates, so it may use other versions with "
        "a newer broker (KIP-896 requires apache-kafka-java 2.1.0 or later, which it is)",
        "Kafka 4.4.0 serves Produce from v3 on; it negotiates, so it may use other versions with a newer broker",
    ]


def test_reason_why_a_client_is_refused_is_explained(spark: SparkSession) -> None:
    old_version = {"api_version": 2}
    lines = [
        open_(), request("Fetch", **old_version),
        open_(connection_id="n-1-2"), gap(connection_id="n-1-2"),
        request("Fetch", connection_id="n-1-2", client_id="torn", **old_version),
        request("Fetch", connection_id="n-1-3", client_id="midstream", **old_version),
        request("Fetch", connection_id="n-1-4", client_id="told", findings=[finding_entry("V002")], **old_version),
        request("Produce", connection_id="n-1-5", client_id="answered", **old_version),
        response("Produce", connection_id="n-1-5", client_id="answered", errors=[ErrorEntry("e", 35, "U")],
                 **old_version),
        request("ListOffsets", connection_id="n-1-6", client_id="left-behind", api_version=0),
        request("DeleteTopics", connection_id="n-1-6", client_id="left-behind", api_version=0),
        request("Metadata", connection_id="n-1-7", client_id="fine", api_version=0),
        response("ListOffsets", connection_id="n-1-8", client_id="other", api_version=7),
    ]  # fmt: skip
    fetch_reason = "uses Fetch v2, but Kafka 4.4.0 serves Fetch from v4 on"
    broker = "10.0.0.1:9092"
    assert sorted(client_verdicts(spark, *lines)) == [
        ("answered", "refused", "4.0",
         f"uses Produce v2, but Kafka 4.4.0 serves Produce from v3 on; {broker} already refuses it"),
        ("app", "refused", "4.0", f"{fetch_reason}; it does not negotiate versions (ApiVersions)"),
        ("fine", "works", None, "Kafka 4.4.0 serves every version it uses"),
        ("left-behind", "refused", "4.0", "uses ListOffsets v0, but Kafka 4.4.0 serves ListOffsets from v1 on "
         f"(and 1 more API); {broker} also serves v7, which the client does not use"),
        ("midstream", "unknown", "4.0", f"{fetch_reason}; it is unknown whether it negotiates"),
        ("told", "refused", "4.0", f"{fetch_reason}; {broker} already refuses it"),
        ("torn", "unknown", "4.0", f"{fetch_reason}; it is unknown whether it negotiates"),
    ]  # fmt: skip


#: Versions that confluent-kafka-python may report, and the text each adds to the reason for a Kafka 4 verdict.
WRAPPERS = {
    "2.16.1-rdkafka-1.8.1": "; KIP-896 requires librdkafka 1.8.2 or later",
    "2.16.1-rdkafka-2.16.0": "",
    "1.8": "",  # a wrapper version that KIP-896 does not list
    "\x1b[2J..": "",
}


@pytest.mark.parametrize(
    ("release", "verdict", "reason"),
    [
        ("3.9", "works", "Kafka 3.9 serves every version it uses"),
        ("4.0", "refused", "uses UpdateMetadata v7, but Kafka 4.0 has no UpdateMetadata; "),
        ("2.8.1", "refused", "uses Fetch v13, but Kafka 2.8.1 serves Fetch up to v12; "),
    ],
)
def test_clients_are_judged_for_any_release(spark: SparkSession, release: str, verdict: str, reason: str) -> None:
    lines = [open_(), request("Fetch", api_version=13), request("UpdateMetadata", api_version=7)]
    for name in WRAPPERS:  # each sends a current ApiVersions request, which every broker answers
        software = {"software_name": "confluent-kafka-python", "software_version": name}
        lines.append(api_versions_request(client_id=name, connection_id=name, api_version=4, **software))
    works = f"Kafka {release} serves every version it uses"
    suffix_if_refused = "it does not negotiate versions (ApiVersions)" if verdict == "refused" else ""
    assert sorted(client_verdicts(spark, *lines, release=release)) == sorted([
        ("app", verdict, "4.0", reason + suffix_if_refused),
        *((name, "works", None, works + (suffix if release == "4.0" else "")) for name, suffix in WRAPPERS.items()),
    ])  # fmt: skip


def test_unknown_release_is_rejected(spark: SparkSession) -> None:
    with pytest.raises(ValueError, match="no Kafka release"):
        clients(table(spark, request()), "9.9")


def test_verdicts_on_real_clients_match_those_of_the_terminal_ui(real: DataFrame) -> None:
    trace_lines = [line for name in CLIENTS for line in lines_of(DATA / "pcap" / f"{name}.pcap.gz")]
    verdicts, requests, old_uses = defaultdict(set), Counter[str](), {}
    for row in feed(Clients(), trace_lines).rows():
        name = row.client_id or row.host
        verdicts[name].add(row.verdict)
        requests[name] += row.requests
        old_uses |= {(name, use.api, use.version): use.verdict for use in row.old}
    rows = clients(real).collect()
    client_rows = [row for row in rows if row["api"] is None]
    found_verdicts, found_requests = defaultdict(set), Counter[str]()
    for row in client_rows:
        found_verdicts[row["client"]].add(row["verdict"])
        found_requests[row["client"]] += row["requests"]
    assert found_verdicts == verdicts
    assert found_requests == requests
    uses = [row for row in rows if row["api"] is not None]
    unserved = defaultdict(list)
    for row in uses:
        if row["verdict"] != Kafka4Verdict.WORKS:
            unserved[row["client"], row["api"]].append((row["api_version"], row["verdict"]))
    assert {(*key, min(versions)[0]): min(versions)[1] for key, versions in unserved.items()} == old_uses
    assert Kafka4Verdict.REFUSED in set().union(*verdicts.values())
    expected_uses = Counter(
        (line.client_id or host_of(line.client), line.api, line.api_version)
        for line in trace_lines
        if isinstance(line, RequestLine) and line.api_version is not None
    )
    actual_uses = Counter[tuple[str, str, int]]()
    for row in uses:
        actual_uses[row["client"], row["api"], row["api_version"]] += row["requests"]
    assert actual_uses == expected_uses
