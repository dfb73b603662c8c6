"""REBOOTSTRAP_REQUIRED: who obeys it, who does not, and an address that keeps leading to the wrong broker."""

from tests.kproxy.stories import findings

REBOOTSTRAP = """\
> ApiVersions v4 {"client_software_name": "x", "client_software_version": "1"}
< {"api_keys": [{"api_key": 3, "max_version": 13}]}
> Metadata v13 {"topics": null}
< {"error_code": 129}
"""


def rebootstrap_codes(text: str) -> list[str]:
    return [finding.code for finding in findings(text) if finding.code in ("S079", "E001", "E002")]


def test_client_that_rebootstraps_is_not_reported() -> None:
    assert findings(REBOOTSTRAP + "close by=client") == []
    assert findings(REBOOTSTRAP + "+6s\nclose by=client") == []


def test_connection_may_be_used_briefly_after_the_error() -> None:
    assert rebootstrap_codes(REBOOTSTRAP + '+4s\n> Produce v9 {"acks": 1, "topic_data": []}\n< {}') == []


def test_client_that_stays_is_reported_with_its_request() -> None:
    [finding] = findings(REBOOTSTRAP + '+6s\n> Produce v9 {"acks": 1, "topic_data": []}\n< {}', "S079")
    assert finding.message == (
        "client 'app' at 10.0.0.101 sends Produce to 10.0.0.1:9092 6.0 s after the Metadata response with "
        "REBOOTSTRAP_REQUIRED, on the same connection"
    )
    assert finding.blame == "client"


def test_rebootstrap_is_reported_once_instead_of_refusals() -> None:
    repeated_lookup = '+3s\n> Metadata v13 {"topics": null}\n< {"error_code": 129}\n'
    assert rebootstrap_codes(REBOOTSTRAP + 8 * repeated_lookup) == ["S079"]


def test_other_connections_of_the_client_are_not_reported() -> None:
    other_connection = '2> Produce v9 {"acks": 1, "topic_data": []}\n2< {}\n'
    assert rebootstrap_codes(other_connection + REBOOTSTRAP + "+6s\n" + other_connection) == []


def test_grace_period_is_configurable() -> None:
    assert rebootstrap_codes(
        "rule S079:grace=1s\n" + REBOOTSTRAP + '+2s\n> Produce v9 {"acks": 1, "topic_data": []}\n< {}'
    ) == ["S079"]


def test_wrong_cluster_or_node_of_an_address_is_reported() -> None:
    request_body = '{"client_software_name": "x", "client_software_version": "1", "cluster_id": "abc", "node_id": 3}'
    visit = (
        "open {0} client=10.0.0.9:{0}00 server=10.0.0.1:9092\n"
        "{0}> ApiVersions v5 {1}\n{0}< as ApiVersions v5 {{\"error_code\": 129}}\n{0} close by=client\n+4s\n"
    )  # fmt: skip
    reported = findings("".join(visit.format(number, request_body) for number in range(11, 15)))
    [refused] = [finding for finding in reported if finding.code == "E002"]
    assert "another broker or cluster than the client expects (KIP-1242)" in refused.message
    assert "node_id" in refused.message
