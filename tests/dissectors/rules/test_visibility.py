"""K001, K002, K004, K005: findings about kproxy itself, and how often they are reported."""

from tests.kproxy.stories import findings

API_VERSIONS = "> ApiVersions v0\n"


def rule_messages(story: str, code: str) -> list[str]:
    return [finding.message for finding in findings(story, code)]


def test_gap_is_reported_once_per_connection() -> None:
    gap = "{0}> ApiVersions v0\n{0} lose < 100 frames=1\n"
    assert len(rule_messages(2 * gap.format(1) + 2 * gap.format(2), "K001")) == 2


def test_lag_is_reported_at_its_start_and_counted_at_the_end() -> None:
    at_start, at_end = rule_messages(
        API_VERSIONS + "lose < 100 frames=2 behind\nlose > 50 frames=1 behind\nclose", "K005"
    )
    assert at_start.startswith("kproxy cannot keep up")
    assert at_end == "kproxy could not keep up and skipped 3 frames (150 bytes) of this connection"
    assert not rule_messages(API_VERSIONS + "lose < 100 frames=2 behind", "K001")


def test_single_skipped_frame_is_not_counted() -> None:
    assert len(rule_messages(API_VERSIONS + "lose < 100 frames=1 behind\nclose", "K005")) == 1


def test_response_to_a_request_before_the_capture_is_reported() -> None:
    story = "open 1 client=a:1 server=b:9092 midstream\n" + 2 * API_VERSIONS + "< {}\n< #99 as ApiVersions v0 {}\n"
    assert len(rule_messages(story, "K002")) == 1
    assert not rule_messages(story.replace(" midstream", ""), "K002")


def test_later_gap_is_not_the_start_of_the_capture() -> None:
    story = "open 1 client=a:1 server=b:9092 midstream\n" + 2 * API_VERSIONS + "lose < 20 frames=1"
    assert not rule_messages(story, "K002")


def test_redacted_secrets_are_reported_once_per_api() -> None:
    login = '> SaslAuthenticate v1 {"auth_bytes": "00"}\n< {"auth_bytes": "00"}\n'
    config = '{"name": "ssl.keystore.password", "value": "x"}'
    create = f'> CreateTopics v4 {{"topics": [{{"name": "a", "configs": [{config}]}}]}}'
    assert rule_messages(2 * login + create, "K004") == [
        "SaslAuthenticate carries secrets: kproxy shows and writes only their length",
        "CreateTopics carries secrets: kproxy shows and writes only their length",
    ]


def test_undecodable_request_may_hold_a_secret() -> None:
    assert rule_messages("> hex 00 00 00 0e 00 24 00 00 00 00 00 01 ff ff 00 00 00 09", "K004")
