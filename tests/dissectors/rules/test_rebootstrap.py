"""REBOOTSTRAP_REQUIRED: who obeys it, who does not, and an address that keeps leading to the wrong broker."""

from tests.kproxy.stories import findings

TOLD = """\
> ApiVersions v4 {"client_software_name": "x", "client_software_version": "1"}
< {"api_keys": [{"api_key": 3, "max_version": 13}]}
> Metadata v13 {"topics": null}
< {"error_code": 129}
"""


def codes(text: str) -> list[str]:
    return [finding.code for finding in findings(text) if finding.code in ("S079", "E001", "E002")]


def test_one_that_is_obeyed_is_no_problem() -> None:
    assert findings(TOLD + "close by=client") == []
    assert findings(TOLD + "+6s\nclose by=client") == []


def test_the_connection_may_be_used_for_a_moment() -> None:
    assert codes(TOLD + '+4s\n> Produce v9 {"acks": 1, "topic_data": []}\n< {}') == []


def test_who_stays_is_named_with_the_broker_and_what_it_does() -> None:
    [finding] = findings(TOLD + '+6s\n> Produce v9 {"acks": 1, "topic_data": []}\n< {}', "S079")
    assert finding.message == (
        "client 'app' at 10.0.0.101 sends Produce to 10.0.0.1:9092 6.0 s after the Metadata response with "
        "REBOOTSTRAP_REQUIRED, on the same connection"
    )
    assert finding.blame == "client"


def test_it_is_reported_once_and_instead_of_the_refusals() -> None:
    again = '+3s\n> Metadata v13 {"topics": null}\n< {"error_code": 129}\n'
    assert codes(TOLD + 8 * again) == ["S079"]


def test_another_connection_of_the_client_is_none_of_it() -> None:
    other = '2> Produce v9 {"acks": 1, "topic_data": []}\n2< {}\n'
    assert codes(other + TOLD + "+6s\n" + other) == []


def test_the_grace_is_the_users() -> None:
    assert codes("rule S079:grace=1s\n" + TOLD + '+2s\n> Produce v9 {"acks": 1, "topic_data": []}\n< {}') == ["S079"]


def test_an_address_that_keeps_leading_elsewhere_is_named_with_what_was_expected() -> None:
    asked = '{"client_software_name": "x", "client_software_version": "1", "cluster_id": "abc", "node_id": 3}'
    visit = (
        "open {0} client=10.0.0.9:{0}00 server=10.0.0.1:9092\n"
        "{0}> ApiVersions v5 {1}\n{0}< as ApiVersions v5 {{\"error_code\": 129}}\n{0} close by=client\n+4s\n"
    )  # fmt: skip
    found = findings("".join(visit.format(number, asked) for number in range(11, 15)))
    [refused] = [finding for finding in found if finding.code == "E002"]
    assert "another broker or cluster than the client expects (KIP-1242)" in refused.message
    assert "node_id" in refused.message
