"""Where brokers say that they are, and whether clients get there: S001, S002, S003, S005."""

import base64
import json
from pathlib import Path

import pytest

from dissectors.connections.addresses import canonical, is_fixed, split
from dissectors.connections.events import Direction
from kproxy.inspection.inspector import Inspector
from kproxy.trace.lines import Detail, FindingEntry, FindingLine, ResponseLine, RewrittenEntry
from tests.kproxy.capture_results import DATA, findings_of, lines_of
from tests.kproxy.frames import request, response
from tests.kproxy.stories import findings

CODES = ("S001", "S002", "S003", "S004", "S005")


def told(*parts: str) -> list[FindingEntry | FindingLine]:
    """What S001 to S005 say of a story, whose lines may be indented."""
    lines = [line.strip() for part in parts for line in part.splitlines()]
    return [finding for finding in findings("\n".join(lines)) if finding.code in CODES]


def seen(*parts: str) -> list[str]:
    """The codes among S001 to S005 that a story fires."""
    return [finding.code for finding in told(*parts)]


def question(broker: str, port: int, *, topic: str = "t") -> str:
    """A client asks for a topic and is sent to a broker."""
    return f"""
        > Metadata v8 {{"topics": [{{"name": "{topic}"}}]}}
        < {{"brokers": [{{"host": "{broker}", "port": {port}}}], "topics": [{{"name": "t", "partitions": [{{}}]}}]}}
        +100ms
    """


@pytest.mark.parametrize("client", ["java", "kafka-go", "kafkajs", "librdkafka"])
def test_a_capture_tells_of_the_address_once_and_points_at_its_port(client: str) -> None:
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
def test_what_a_client_does_that_cannot_read_its_answers_is_no_news(path: Path) -> None:
    mine = {f"S{number:03}" for number in range(1, 19)} - {"S013"}
    assert not [finding.message for _, finding in findings_of(path) if finding.code in mine]


def test_two_questions_are_a_retry_and_three_are_a_client_that_does_not_get_there() -> None:
    opened = "open 1 client=10.0.0.9:50001 server=10.0.0.1:29092"
    assert seen(opened, 2 * question("10.0.0.1", 9092)) == []
    assert seen(opened, 3 * question("10.0.0.1", 9092)) == ["S001"]
    assert seen(opened, 9 * question("10.0.0.1", 9092)) == ["S001"]


def test_questions_asked_at_once_are_one() -> None:
    at_once = question("10.0.0.11", 9092).replace("+100ms", "")
    assert seen("open 1 client=10.0.0.9:50001 server=10.0.0.1:29092", 4 * at_once) == []


def test_a_client_that_was_at_work_where_it_was_sent_may_ask_as_often_as_it_likes() -> None:
    work = "> Fetch v4 {}\n< {}\n"  # address translation: it did get there, and that is here
    assert seen(question("localhost", 29092), work, 9 * question("localhost", 29092)) == []


def test_a_topic_that_is_not_there_is_asked_for_again_and_again() -> None:
    missing = """
        > Metadata v8 {"topics": [{"name": "t"}]}
        < {"brokers": [{"host": "b1.example.com", "port": 19092}], "topics": [{"name": "t", "error_code": 3}]}
        +100ms
    """
    assert seen(12 * missing) == []


def test_a_containers_name_cannot_be_compared_but_a_client_that_keeps_asking_does_not_get_there() -> None:
    opened = "open 1 client=127.0.0.1:50001 server=127.0.0.1:9092"
    assert seen(opened, 4 * question("kafka", 9092)) == []
    [finding] = told(opened, 12 * question("kafka", 9092))
    assert (finding.code, finding.path) == ("S001", "brokers[0].host")
    assert "kafka:9092" in finding.message


def test_localhost_is_said_to_be_unreachable_from_another_machine_once_a_client_fails() -> None:
    opened = "open 1 client=10.0.0.9:50001 server=10.0.0.1:9092"
    assert seen(opened, 5 * question("localhost", 9092)) == ["S001"]


def test_the_same_answer_ten_times_from_a_right_address_is_another_matter() -> None:
    opened = "open 1 client=10.0.0.9:50001 server=10.0.0.1:9092"
    [here] = told(opened, 10 * question("10.0.0.1", 9092))
    assert (here.code, here.blame) == ("S005", "client")
    assert here.message.endswith("at 10.0.0.1:9092, to which it is connected")
    assert "reach" not in (here.hint or "")
    both = "open 2 client=10.0.0.8:50001 server=10.0.0.2:9092"  # so that 10.0.0.2 is an address that clients use
    [there] = told(both, opened, 10 * question("10.0.0.2", 9092))
    assert (there.code, there.blame) == ("S005", "network")
    assert "check whether the client can resolve and reach 10.0.0.2:9092" in (there.hint or "")
    other = "".join(question("10.0.0.1", 9092, topic=f"t{number % 2}") for number in range(9))
    assert seen(opened, other) == []


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1", "[::1]", "LOCALHOST."])
def test_all_of_loopback_is_one_host(host: str) -> None:
    name = host.strip("[]")
    assert seen(f"open 1 server={host}:19092 listener=127.0.0.1:9092", question("127.0.0.1", 9092)) == []
    assert seen(f"open 1 server=127.0.0.1:19092 listener={host}:9092", question(name, 19092)) == ["S001"]


def test_a_proxy_with_a_listener_for_each_broker_is_silent() -> None:
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
    assert seen(story) == []


def test_a_client_that_is_plainly_sent_past_the_proxy_is_told_of_once() -> None:
    opened = "open 1 client=10.0.0.9:50001 server=10.0.0.1:19092 listener=10.0.0.5:9092"
    assert seen(opened, question("10.0.0.1", 19092), "+60s") == ["S001"]
    assert seen(opened, 5 * question("10.0.0.1", 19092), "+60s") == ["S001"]


def test_a_client_that_left_is_told_of_once_and_one_that_is_stuck_is_no_client_that_left() -> None:
    opened = "open 1 client=10.0.0.9:50001 server=10.0.0.1:19092 listener=10.0.0.5:9092"
    assert seen(opened, question("b1.example.com", 19092), "+60s") == ["S002"]
    assert seen(opened, 5 * question("b1.example.com", 19092), "+60s") == ["S001"]


def test_a_unix_socket_has_no_port_to_compare() -> None:
    assert seen("open 1 server=unix:/run/kafka listener=unix:/run/proxy", 2 * question("b1", 9092)) == []


LEAKING = """
    > Metadata v9 {"topics": []}
    < {"brokers": [{"node_id": 1, "host": "localhost", "port": 9092}]}
"""


@pytest.mark.parametrize(
    ("asked", "answer", "path"),
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
def test_every_response_that_carries_addresses_can_leak_one(asked: str, answer: str, path: str) -> None:
    body = '{"acks": 1}' if asked.startswith("Produce") else "{}"
    leak = f"> {asked} {body}\n< " + answer.replace("ADDRESS", '"host": "10.1.0.7", "port": 9092')
    assert told(LEAKING, leak, LEAKING) == []
    [finding] = told(LEAKING, leak, LEAKING, leak)
    assert (finding.code, getattr(finding, "path", None)) == ("S003", path)


def test_another_spelling_of_an_address_is_no_leak() -> None:
    same = '> FindCoordinator v3 {"key": "g"}\n< {"node_id": 1, "host": "127.0.0.1", "port": 9092}\n'
    assert told(LEAKING, same, LEAKING, same) == []


def test_controllers_have_addresses_of_their_own() -> None:
    other = (
        '> DescribeCluster v1 {}\n< {"endpoint_type": 2, "brokers": [{"broker_id": 1, "host": "c", "port": 9093}]}\n'
    )
    assert told(LEAKING, other, LEAKING, other) == []


def test_addresses_have_one_spelling() -> None:
    assert split("[::FFFF:10.0.0.1]:9092") == ("10.0.0.1", 9092)
    assert split("Kafka.Example.com.:9092") == ("kafka.example.com", 9092)
    assert split("unix:/run/kafka") is None
    assert canonical("127.1.2.3") == canonical("::1") == canonical("localhost")
    assert is_fixed("10.0.0.1")
    assert not is_fixed("0.0.0.0")  # any of the machine's
    assert not is_fixed("kafka")


def test_a_name_that_is_made_to_lead_to_the_proxy_is_not_told_of() -> None:
    assert seen("open 1 server=kafka:9092 listener=127.0.0.1:9092", question("kafka", 9092)) == []
    assert seen("open 1 server=kafka:19092 listener=127.0.0.1:9092", question("kafka", 19092)) == ["S001"]
    assert seen("open 1 server=10.0.0.1:9092 listener=127.0.0.1:9092", question("10.0.0.1", 9092)) == ["S001"]


def test_what_is_too_long_for_a_host_is_none() -> None:
    assert seen("open 1 server=10.0.0.1:9092", 5 * question("h" * 300, 19092)) == []


def test_one_address_is_one_cause_whichever_way_it_shows() -> None:
    opened = "open 1 client=10.0.0.9:50001 server=10.0.0.1:19092 listener=10.0.0.5:9092"
    ask = question("b1.example.com", 19092)
    assert seen(opened, ask, "+60s", 5 * ask, "+60s") == ["S002"]
    assert seen(opened, 5 * ask, "+60s", ask, "+60s") == ["S001"]


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
def test_every_kind_of_response_that_leads_past_the_proxy_is_named(
    api: str, version: int, body: dict[str, object]
) -> None:
    [finding] = told(
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


def test_an_address_that_the_proxy_rewrites_leads_nobody_past_it() -> None:
    inspector = Inspector("n")
    inspector.open(1, "10.0.0.9:50000", "10.0.0.1:9092", at=0, listener="10.0.0.5:9092")
    inspector.data(1, Direction.REQUEST, request("Metadata", 9, {"topics": None}), at=1)
    theirs = {"brokers": [{"node_id": 1, "host": "10.0.0.1", "port": 9092}]}
    ours = {"brokers": [{"node_id": 1, "host": "10.0.0.5", "port": 9092}]}
    inspector.replace_next(1, Direction.RESPONSE, response("Metadata", 9, ours))
    [line] = inspector.data(1, Direction.RESPONSE, response("Metadata", 9, theirs), at=2)
    assert isinstance(line, ResponseLine)
    assert not [finding for finding in line.findings if finding.code in CODES]
    assert line.rewritten == [RewrittenEntry("brokers[0].host", "10.0.0.1", "10.0.0.5")]
    assert line.brokers == ["10.0.0.1:9092"]


ADVERTISED = "open 1 client=10.0.0.9:50001 server=10.0.0.1:29092\n" + question("HOST", 9092)


def refused(port: int, server: str = "10.0.0.1:9092", client: str = "10.0.0.9") -> str:
    return f"unreachable client={client}:{port} server={server} reason=REFUSED\n"


def test_the_next_response_with_an_address_that_refused_shows_its_bytes() -> None:
    again = question("10.0.0.1", 9092)
    [finding] = told(ADVERTISED.replace("HOST", "10.0.0.1"), refused(50002), refused(50003), again, "+6s")
    assert isinstance(finding, FindingEntry)
    assert finding.path == "brokers[0].port"
    assert finding.message.endswith("cannot connect to it: the connection is refused, so nothing listens there")


@pytest.mark.parametrize("end", ["+6s", "close by=client how=fin"])
def test_a_client_that_gives_up_is_reported_all_the_same(end: str) -> None:
    [finding] = told(ADVERTISED.replace("HOST", "10.0.0.1"), refused(50002), refused(50003), end)
    assert isinstance(finding, FindingLine)
    assert finding.got == "10.0.0.1:9092"


def test_after_the_connection_ended_it_is_reported_at_once() -> None:
    assert seen(ADVERTISED.replace("HOST", "10.0.0.1"), "close by=client how=fin", refused(50002), refused(50003)) == [
        "S001"
    ]


@pytest.mark.parametrize(
    "attempts",
    [
        refused(50002),  # a name may have another address, which works
        refused(50002, "10.0.0.1:9099") * 3,  # not an address of Kafka
        refused(50002, client="10.0.0.8") * 3,  # another client
        refused(50002) * 2 + "open 2 client=10.0.0.9:50004 server=10.0.0.1:9092",
        "open 2 client=10.0.0.9:50004 server=10.0.0.1:9092\n2 close by=server how=fin\n" + refused(50002) * 3,
    ],
)
def test_other_failed_attempts_are_no_finding(attempts: str) -> None:
    assert seen(ADVERTISED.replace("HOST", "10.0.0.1"), attempts, "+6s") == []


def test_a_name_matches_an_address_with_its_port_that_nobody_reached() -> None:
    named = ADVERTISED.replace("HOST", "kafka-1.internal")
    [finding] = told(named, refused(50002, "10.0.7.7:9092") * 2, "+6s")
    assert "advertised as kafka-1.internal:9092" in finding.message
    assert finding.message.endswith("nothing listens there (10.0.7.7:9092)")
    unanswered = "unreachable client=10.0.0.9:50002 server=10.0.7.7:9092 reason=NO_ANSWER"
    assert "there is no answer" in told(named, unanswered, "+6s")[0].message


def test_an_address_that_the_client_has_reached_is_not_unreachable() -> None:
    ask = """1> Metadata v1 {"topics": [{"name": "t"}]}
1< {"brokers": [{"host": "b.example.com", "port": 9092}], "topics": [{"name": "t", "partitions": [{}]}]}
+100ms
"""
    opened = "open 1 client=10.0.0.9:50001 server=10.0.0.1:9092\n"
    [unclear] = findings(opened + 20 * ask, "S005")
    assert "check whether the client can resolve and reach b.example.com:9092" in (unclear.hint or "")
    other = "open 2 client=10.0.0.9:50002 server=b.example.com:9092\n2> ApiVersions v0 {}\n2< {}\n"
    [refused] = findings(opened + other + 20 * ask, "S005")
    assert refused.blame == "client"
    assert "to which it is connected" in refused.message
