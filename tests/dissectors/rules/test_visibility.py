"""K001, K002, K004, K005: what kproxy says of itself, and how often."""

from tests.kproxy.stories import findings

API_VERSIONS = "> ApiVersions v0\n"


def messages(story: str, code: str) -> list[str]:
    return [finding.message for finding in findings(story, code)]


def test_a_gap_is_told_once_a_connection() -> None:
    gap = "{0}> ApiVersions v0\n{0} lose < 100 frames=1\n"
    assert len(messages(2 * gap.format(1) + 2 * gap.format(2), "K001")) == 2


def test_lag_is_told_when_it_begins_and_counted_at_the_end() -> None:
    first, last = messages(API_VERSIONS + "lose < 100 frames=2 behind\nlose > 50 frames=1 behind\nclose", "K005")
    assert first.startswith("kproxy cannot keep up")
    assert last == "kproxy could not keep up and skipped 3 frames (150 bytes) of this connection"
    assert not messages(API_VERSIONS + "lose < 100 frames=2 behind", "K001")


def test_one_frame_is_not_counted() -> None:
    assert len(messages(API_VERSIONS + "lose < 100 frames=1 behind\nclose", "K005")) == 1


def test_a_response_to_what_was_asked_before_the_capture_is_told() -> None:
    story = "open 1 client=a:1 server=b:9092 midstream\n" + 2 * API_VERSIONS + "< {}\n< #99 as ApiVersions v0 {}\n"
    assert len(messages(story, "K002")) == 1
    assert not messages(story.replace(" midstream", ""), "K002")


def test_a_gap_later_on_is_no_beginning() -> None:
    story = "open 1 client=a:1 server=b:9092 midstream\n" + 2 * API_VERSIONS + "lose < 20 frames=1"
    assert not messages(story, "K002")


def test_what_is_withheld_is_told_once_an_api() -> None:
    login = '> SaslAuthenticate v1 {"auth_bytes": "00"}\n< {"auth_bytes": "00"}\n'
    config = '{"name": "ssl.keystore.password", "value": "x"}'
    create = f'> CreateTopics v4 {{"topics": [{{"name": "a", "configs": [{config}]}}]}}'
    assert messages(2 * login + create, "K004") == [
        "SaslAuthenticate carries secrets: kproxy shows and writes only their length",
        "CreateTopics carries secrets: kproxy shows and writes only their length",
    ]


def test_what_cannot_be_read_may_be_a_secret() -> None:
    assert messages("> hex 00 00 00 0e 00 24 00 00 00 00 00 01 ff ff 00 00 00 09", "K004")
