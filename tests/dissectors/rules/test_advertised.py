"""Advertised addresses, and whether clients reach them: S001, S002, S003, S005."""

import base64
import json
from pathlib import Path

import pytest

from dissectors.connections.addresses import canonicalize_host, is_specific_ip, split
from dissectors.connections.events import Direction
from kproxy.inspection.inspector import Inspector
from kproxy.trace.lines import Detail, FindingEntry, FindingLine, ResponseLine, RewrittenEntry
from tests.kproxy.capture_results import DATA, findings_of, lines_of
from tests.kproxy.frames import request, response
from tests.kproxy.stories import findings

CODES = ("S001", "S002", "S003", "S004", "S005")


def address_findings(*parts: str) -> list[FindingEntry | FindingLine]:
    """Return the findings of S001 to S005 about a story, whose lines may be indented."""
    lines = [line.strip() for part in parts for line in part.splitlines()]
    return [finding for finding in findings("\n".join(lines)) if finding.code in CODES]


def address_codes(*parts: str) -> list[str]:
    """Return the codes among S001 to S005 that a story fires."""
    return [finding.code for finding in address_findings(*parts)]


def metadata_exchange(broker: str, port: int, *, topic: str = "t") -> str:
    """Return an exchange in which a client asks for a topic and is sent to a broker."""
    return f"""
        > Metadata v8 {{"topics": [{{"name": "{topic}"}}]}}
        < {{"brokers": [{{"host": "{broker}", "port": {port}}}], "topics": [{{"name": "t", "partitions": [{{}}]}}]}}
        +100ms
    """


@pytest.mark.parametrize("client", ["java", "kafka-go", "kafkajs", "librdkafka"])
def test_mismatched_address_in_a_capture_is_reported_once_at_its_port(client: str) -> None:
    path = DATA / "bugs" / f"advertised-mismatch--{client}.pcap.gz"
    [(line, finding)] = [
        (line, finding)
        for line in lines_of(path, detail=Detail.RAW)
        if isinstance(line, ResponseLine)
        for finding in line.findings
        if finding.code in CODES
    ]
    assert finding.code == "S001"
    assert "localhost:9092" in finding.message
    assert line.server in finding.message
    assert finding.path in ("brokers[0].port", "port")  # the latter is FindCoordinator's
    assert finding.span is not None
    assert line.frame is not None
    assert base64.b64decode(line.frame)[slice(*finding.span)] == (9092).to_bytes(4, "big")


@pytest.mark.parametrize(
    "path",
    [path for bug in ("metadata", "findcoordinator", "joingroup") for path in sorted((DATA / "bugs").glob(f"{bug}-*"))],
    ids=lambda path: path.name.removesuffix(".pcap.gz"),
)
def test_client_that_cannot_decode_responses_gets_no_address_finding(path: Path) -> None:
    address_rules = {f"S{number:03}" for number in range(1, 19)} - {"S013"}
    assert not [finding.message for _, finding in findings_of(path) if finding.code in address_rules]


def test_third_repeated_lookup_is_reported() -> None:
    opening = "open 1 client=10.0.0.9:50001 server=10.0.0.1:29092"
    assert address_codes(opening, 2 * metadata_exchange("10.0.0.1", 9092)) == []
    assert address_codes(opening, 3 * metadata_exchange("10.0.0.1", 9092)) == ["S001"]
    assert address_codes(opening, 9 * metadata_exchange("10.0.0.1", 9092)) == ["S001"]


def test_simultaneous_lookups_count_once() -> None:
    simultaneous = metadata_exchange("10.0.0.11", 9092).replace("+100ms", "")
    assert address_codes("open 1 client=10.0.0.9:50001 server=10.0.0.1:29092", 4 * simultaneous) == []


def test_client_that_reached_the_advertised_broker_may_look_up_often() -> None:
    fetch = "> Fetch v4 {}\n< {}\n"  # address translation: the client did reach the broker, by this connection
    assert address_codes(metadata_exchange("localhost", 29092), fetch, 9 * metadata_exchange("localhost", 29092)) == []


def test_repeated_lookup_of_a_missing_topic_is_not_an_address_problem() -> None:
    missing = """
        > Metadata v8 {"topics": [{"name": "t"}]}
        < {"brokers": [{"host": "b1.example.com", "port": 19092}], "topics": [{"name": "t", "error_code": 3}]}
        +100ms
    """
    assert address_codes(12 * missing) == []


def test_unresolvable_host_name_is_reported_after_many_lookups() -> None:
    opening = "open 1 client=127.0.0.1:50001 server=127.0.0.1:9092"
    assert address_codes(opening, 4 * metadata_exchange("kafka", 9092)) == []
    [finding] = address_findings(opening, 12 * metadata_exchange("kafka", 9092))
    assert (finding.code, finding.path) == ("S001", "brokers[0].host")
    assert "kafka:9092" in finding.message


def test_localhost_is_reported_for_a_remote_client() -> None:
    opening = "open 1 client=10.0.0.9:50001 server=10.0.0.1:9092"
    assert address_codes(opening, 5 * metadata_exchange("localhost", 9092)) == ["S001"]


def test_lookups_with_a_correct_address_are_not_an_address_problem() -> None:
    opening = "open 1 client=10.0.0.9:50001 server=10.0.0.1:9092"
    [to_own_broker] = address_findings(opening, 10 * metadata_exchange("10.0.0.1", 9092))
    assert (to_own_broker.code, to_own_broker.blame) == ("S005", "client")
    assert to_own_broker.message.endswith("at 10.0.0.1:9092, to which it is connected")
    assert "reach" not in (to_own_broker.hint or "")
    other_connection = "open 2 client=10.0.0.8:50001 server=10.0.0.2:9092"  # which shows that clients use 10.0.0.2
    [to_other_broker] = address_findings(other_connection, opening, 10 * metadata_exchange("10.0.0.2", 9092))
    assert (to_other_broker.code, to_other_broker.blame) == ("S005", "network")
    assert "check whether the client can resolve and reach 10.0.0.2:9092" in (to_other_broker.hint or "")
    alternating = "".join(metadata_exchange("10.0.0.1", 9092, topic=f"t{number % 2}") for number in range(9))
    assert address_codes(opening, alternating) == []


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1", "[::1]", "LOCALHOST."])
def test_loopback_addresses_count_as_one_host(host: str) -> None:
    name = host.strip("[]")
    assert (
        address_codes(f"open 1 server={host}:19092 listener=127.0.0.1:9092", metadata_exchange("127.0.0.1", 9092)) == []
    )
    assert address_codes(f"open 1 server=127.0.0.1:19092 listener={host}:9092", metadata_exchange(name, 19092)) == [
        "S001"
    ]


def test_proxy_with_a_listener_per_broker_is_not_reported() -> None:
    brokers = '{"brokers": [{"host": "localhost", "port": 9092}, {"node_id": 1, "host": "localhost", "port": 9093}]}'
    story = f"""
        open 1 client=127.0.0.1:50001 server=localhost:19092 listener=127.0.0.1:9092
        > Metadata v8 {{"topics": []}}
        < {brokers}
        open 2 client=127.0.0.1:50002 server=localhost:19093 listener=127.0.0.1:9093
        2> Metadata v8 {{"topics": []}}
        2< {brokers}
        +60s
    """
    assert address_codes(story) == []


def test_client_sent_past_the_proxy_is_reported_once() -> None:
    opening = "open 1 client=10.0.0.9:50001 server=10.0.0.1:19092 listener=10.0.0.5:9092"
    assert address_codes(opening, metadata_exchange("10.0.0.1", 19092), "+60s") == ["S001"]
    assert address_codes(opening, 5 * metadata_exchange("10.0.0.1", 19092), "+60s") == ["S001"]


def test_leaving_and_stuck_clients_have_different_findings() -> None:
    opening = "open 1 client=10.0.0.9:50001 server=10.0.0.1:19092 listener=10.0.0.5:9092"
    assert address_codes(opening, metadata_exchange("b1.example.com", 19092), "+60s") == ["S002"]
    assert address_codes(opening, 5 * metadata_exchange("b1.example.com", 19092), "+60s") == ["S001"]


def test_unix_socket_has_no_port_to_compare() -> None:
    assert (
        address_codes("open 1 server=unix:/run/kafka listener=unix:/run/proxy", 2 * metadata_exchange("b1", 9092)) == []
    )


METADATA = """
    > Metadata v9 {"topics": []}
    < {"brokers": [{"node_id": 1, "host": "localhost", "port": 9092}]}
"""


@pytest.mark.parametrize(
    ("request_text", "response_text", "path"),
    [
        ("FindCoordinator v4", '{"coordinators": [{"node_id": 1, ADDRESS}]}', "coordinators[0].host"),
        ("FindCoordinator v3", '{"node_id": 1, ADDRESS}', "host"),
        ("DescribeCluster v1", '{"brokers": [{"broker_id": 1, ADDRESS}]}', "brokers[0].host"),
        ("Fetch v16", '{"node_endpoints": [{"node_id": 1, ADDRESS}]}', "node_endpoints[0].host"),
        ("Produce v10", '{"node_endpoints": [{"node_id": 1, ADDRESS}]}', "node_endpoints[0].host"),
        ("ShareFetch v1", '{"node_endpoints": [{"node_id": 1, ADDRESS}]}', "node_endpoints[0].host"),
        ("ShareAcknowledge v1", '{"node_endpoints": [{"node_id": 1, ADDRESS}]}', "node_endpoints[0].host"),
    ],
)
def test_every_response_with_addresses_is_checked_for_leaks(request_text: str, response_text: str, path: str) -> None:
    body = '{"acks": 1}' if request_text.startswith("Produce") else "{}"
    leak = f"> {request_text} {body}\n< " + response_text.replace("ADDRESS", '"host": "10.1.0.7", "port": 9092')
    assert address_findings(METADATA, leak, METADATA) == []
    [finding] = address_findings(METADATA, leak, METADATA, leak)
    assert (finding.code, getattr(finding, "path", None)) == ("S003", path)


def test_another_spelling_of_an_address_is_not_a_leak() -> None:
    other_spelling = '> FindCoordinator v3 {"key": "g"}\n< {"node_id": 1, "host": "127.0.0.1", "port": 9092}\n'
    assert address_findings(METADATA, other_spelling, METADATA, other_spelling) == []


def test_addresses_of_controllers_are_compared_separately() -> None:
    controllers = (
        '> DescribeCluster v1 {}\n< {"endpoint_type": 2, "brokers": [{"broker_id": 1, "host": "c", "port": 9093}]}\n'
    )
    assert address_findings(METADATA, controllers, METADATA, controllers) == []


def test_addresses_are_normalised() -> None:
    assert split("[::FFFF:10.0.0.1]:9092") == ("10.0.0.1", 9092)
    assert split("Kafka.Example.com.:9092") == ("kafka.example.com", 9092)
    assert split("unix:/run/kafka") is None
    assert canonicalize_host("127.1.2.3") == canonicalize_host("::1") == canonicalize_host("localhost")
    assert is_specific_ip("10.0.0.1")
    assert not is_specific_ip("0.0.0.0")  # any address of the machine
    assert not is_specific_ip("kafka")


def test_host_name_that_resolves_to_the_proxy_is_not_reported() -> None:
    assert address_codes("open 1 server=kafka:9092 listener=127.0.0.1:9092", metadata_exchange("kafka", 9092)) == []
    assert address_codes("open 1 server=kafka:19092 listener=127.0.0.1:9092", metadata_exchange("kafka", 19092)) == [
        "S001"
    ]
    assert address_codes(
        "open 1 server=10.0.0.1:9092 listener=127.0.0.1:9092", metadata_exchange("10.0.0.1", 9092)
    ) == ["S001"]


def test_overlong_host_name_is_ignored() -> None:
    assert address_codes("open 1 server=10.0.0.1:9092", 5 * metadata_exchange("h" * 300, 19092)) == []


def test_each_address_is_reported_by_only_one_rule() -> None:
    opening = "open 1 client=10.0.0.9:50001 server=10.0.0.1:19092 listener=10.0.0.5:9092"
    lookup = metadata_exchange("b1.example.com", 19092)
    assert address_codes(opening, lookup, "+60s", 5 * lookup, "+60s") == ["S002"]
    assert address_codes(opening, 5 * lookup, "+60s", lookup, "+60s") == ["S001"]


@pytest.mark.parametrize(
    ("api", "version", "body"),
    [
        ("Metadata", 12, {"brokers": [{"node_id": 1, "host": "10.0.0.1", "port": 9092}]}),
        ("FindCoordinator", 2, {"node_id": 1, "host": "10.0.0.1", "port": 9092}),
        ("FindCoordinator", 6, {"coordinators": [{"node_id": 1, "host": "10.0.0.1", "port": 9092}]}),
        ("DescribeCluster", 2, {"brokers": [{"broker_id": 1, "host": "10.0.0.1", "port": 9092}]}),
        ("Produce", 10, {"node_endpoints": [{"node_id": 1, "host": "10.0.0.1", "port": 9092}]}),
        ("Fetch", 16, {"node_endpoints": [{"node_id": 1, "host": "10.0.0.1", "port": 9092}]}),
        ("ShareFetch", 1, {"node_endpoints": [{"node_id": 1, "host": "10.0.0.1", "port": 9092}]}),
        ("ShareAcknowledge", 1, {"node_endpoints": [{"node_id": 1, "host": "10.0.0.1", "port": 9092}]}),
    ],
)
def test_every_kind_of_response_that_leads_past_the_proxy_is_reported(
    api: str, version: int, body: dict[str, object]
) -> None:
    [finding] = address_findings(
        f"""
        open 1 server=10.0.0.1:9092 listener=10.0.0.5:9092
        > {api} v{version} {'{"acks": -1}' if api == "Produce" else "{}"}
        < {json.dumps(body)}
        """
    )
    assert finding.code == "S001"
    assert "10.0.0.1:9092" in finding.message
    assert isinstance(finding, FindingEntry)
    assert (finding.path or "").endswith(("port", "host"))


def test_address_rewritten_by_the_proxy_is_not_reported() -> None:
    inspector = Inspector("n")
    inspector.open(1, "10.0.0.9:50000", "10.0.0.1:9092", at=0, listener="10.0.0.5:9092")
    inspector.receive_data(1, Direction.REQUEST, request("Metadata", 9, {"topics": None}), at=1)
    broker_body = {"brokers": [{"node_id": 1, "host": "10.0.0.1", "port": 9092}]}
    proxy_body = {"brokers": [{"node_id": 1, "host": "10.0.0.5", "port": 9092}]}
    inspector.replace_next(1, Direction.RESPONSE, response("Metadata", 9, proxy_body))
    [line] = inspector.receive_data(1, Direction.RESPONSE, response("Metadata", 9, broker_body), at=2)
    assert isinstance(line, ResponseLine)
    assert not [finding for finding in line.findings if finding.code in CODES]
    assert line.rewritten == [RewrittenEntry("brokers[0].host", "10.0.0.1", "10.0.0.5")]
    assert line.brokers == ["10.0.0.1:9092"]


ADVERTISED = "open 1 client=10.0.0.9:50001 server=10.0.0.1:29092\n" + metadata_exchange("HOST", 9092)


def refused_connection(port: int, server: str = "10.0.0.1:9092", client: str = "10.0.0.9") -> str:
    return f"unreachable client={client}:{port} server={server} reason=REFUSED\n"


def test_refused_address_is_shown_in_the_next_response() -> None:
    lookup = metadata_exchange("10.0.0.1", 9092)
    [finding] = address_findings(
        ADVERTISED.replace("HOST", "10.0.0.1"), refused_connection(50002), refused_connection(50003), lookup, "+6s"
    )
    assert isinstance(finding, FindingEntry)
    assert finding.path == "brokers[0].port"
    assert finding.message.endswith("cannot connect to it: the connection is refused, so nothing listens there")


@pytest.mark.parametrize("end", ["+6s", "close by=client how=fin"])
def test_client_that_gives_up_after_refusals_is_reported(end: str) -> None:
    [finding] = address_findings(
        ADVERTISED.replace("HOST", "10.0.0.1"), refused_connection(50002), refused_connection(50003), end
    )
    assert isinstance(finding, FindingLine)
    assert finding.got == "10.0.0.1:9092"


def test_refusals_after_the_connection_ended_are_reported_at_once() -> None:
    assert address_codes(
        ADVERTISED.replace("HOST", "10.0.0.1"),
        "close by=client how=fin",
        refused_connection(50002),
        refused_connection(50003),
    ) == ["S001"]


@pytest.mark.parametrize(
    "attempts",
    [
        refused_connection(50002),  # a name may have another address, which works
        refused_connection(50002, "10.0.0.1:9099") * 3,  # not an address of Kafka
        refused_connection(50002, client="10.0.0.8") * 3,  # another client
        refused_connection(50002) * 2 + "open 2 client=10.0.0.9:50004 server=10.0.0.1:9092",
        "open 2 client=10.0.0.9:50004 server=10.0.0.1:9092\n2 close by=server how=fin\n"
        + refused_connection(50002) * 3,
    ],
)
def test_unrelated_failed_attempts_are_not_reported(attempts: str) -> None:
    assert address_codes(ADVERTISED.replace("HOST", "10.0.0.1"), attempts, "+6s") == []


def test_host_name_is_matched_with_an_unreached_address_by_its_port() -> None:
    story = ADVERTISED.replace("HOST", "kafka-1.internal")
    [finding] = address_findings(story, refused_connection(50002, "10.0.7.7:9092") * 2, "+6s")
    assert "advertised as kafka-1.internal:9092" in finding.message
    assert finding.message.endswith("nothing listens there (10.0.7.7:9092)")
    unanswered = "unreachable client=10.0.0.9:50002 server=10.0.7.7:9092 reason=NO_ANSWER"
    assert "there is no answer" in address_findings(story, unanswered, "+6s")[0].message


def test_address_that_the_client_reached_is_not_called_unreachable() -> None:
    lookup = """1> Metadata v1 {"topics": [{"name": "t"}]}
1< {"brokers": [{"host": "b.example.com", "port": 9092}], "topics": [{"name": "t", "partitions": [{}]}]}
+100ms
"""
    opening = "open 1 client=10.0.0.9:50001 server=10.0.0.1:9092\n"
    [before_connecting] = findings(opening + 20 * lookup, "S005")
    assert "check whether the client can resolve and reach b.example.com:9092" in (before_connecting.hint or "")
    connection_to_broker = "open 2 client=10.0.0.9:50002 server=b.example.com:9092\n2> ApiVersions v0 {}\n2< {}\n"
    [after_connecting] = findings(opening + connection_to_broker + 20 * lookup, "S005")
    assert after_connecting.blame == "client"
    assert "to which it is connected" in after_connecting.message
