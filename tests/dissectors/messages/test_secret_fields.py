from typing import Any

import pytest

from dissectors.embedded import redaction
from dissectors.messages.message import Message, read_request, read_response
from tests.dissectors.embedded.samples import all_nodes, node_at, request, response, tree

SECRET = b"PLAINpasswordPLAIN"


def config_response(name: str, value: str | None, **more: Any) -> Message:
    """Return a DescribeConfigs response with one configuration."""
    config = {"name": name, "value": value, "config_source": 1, **more}
    return response("DescribeConfigs", 4, results=[{"resource_type": 4, "resource_name": "1", "configs": [config]}])


MESSAGES_WITH_SECRETS = {
    "token": request("SaslAuthenticate", 2, auth_bytes=SECRET),
    "answer to a token": response("SaslAuthenticate", 2, auth_bytes=SECRET),
    "salted password": request(
        "AlterUserScramCredentials",
        0,
        deletions=[],
        upsertions=[{"name": "u", "mechanism": 1, "iterations": 1, "salt": b"salt", "salted_password": SECRET}],
    ),
    "delegation token": response("CreateDelegationToken", 3, hmac=SECRET),
    "password of a broker": config_response("ssl.key.password", SECRET.decode()),
    "value that the broker calls sensitive": config_response("my.plugin.thing", SECRET.decode(), is_sensitive=True),
    "synonym of a sensitive value": config_response(
        "my.plugin.thing",
        None,
        is_sensitive=True,
        synonyms=[{"name": "my.plugin", "value": SECRET.decode(), "source": 1}],
    ),
    "request inside a request": request("Envelope", 0, request_data=SECRET, client_host_address=b""),
}


@pytest.mark.parametrize("name", MESSAGES_WITH_SECRETS)
def test_secrets_of_a_message_are_redacted_in_every_output(name: str) -> None:
    message = MESSAGES_WITH_SECRETS[name]
    assert SECRET in message.frame
    assert SECRET.decode() not in str(redaction.redacted(message))
    assert f"(redacted, {len(SECRET)} bytes)" in str(redaction.redacted(message))
    assert SECRET in str(message.body).encode()
    nodes, _ = tree(message)
    spans = redaction.redact_tree(message, nodes)
    assert SECRET in [message.frame[start:end] for start, end in spans]
    assert not [node for node in all_nodes(nodes) if node.value in (SECRET, SECRET.decode())]


@pytest.mark.parametrize("name", MESSAGES_WITH_SECRETS)
def test_redacted_frame_decodes_and_lacks_the_secret(name: str) -> None:
    message = MESSAGES_WITH_SECRETS[name]
    frame = redaction.redacted_frame(message)
    assert SECRET not in frame
    decoded = read_request(frame) if message.is_request else read_response(frame, message.api_key, message.version)
    assert (decoded.error, decoded.trailing, decoded.decode_warnings) == (None, 0, ())


def test_ordinary_config_is_shown() -> None:
    message = config_response("log.cleaner.threads", "2")
    assert redaction.redacted(message) == message.body
    assert redaction.redacted_frame(message) == message.frame


@pytest.mark.parametrize("cut", [1, 10])
def test_truncated_message_with_secrets_is_redacted_entirely(cut: int) -> None:
    frame = MESSAGES_WITH_SECRETS["password of a broker"].frame
    message = read_response(frame[:-cut], 32, 4)
    assert redaction.redacted(message) == {}
    assert not any(redaction.redacted_frame(message)[message.body_start :])
    nodes, body = tree(message)
    redaction.redact_tree(message, nodes)
    assert node_at([body], "body.(redacted)").end == len(frame) - cut


def test_message_with_secrets_and_trailing_bytes_is_redacted_entirely() -> None:
    frame = MESSAGES_WITH_SECRETS["token"].frame + SECRET
    assert redaction.redacted(read_request(frame)) == {}
    assert SECRET not in redaction.redacted_frame(read_request(frame))


def test_message_of_an_unknown_version_is_redacted_entirely() -> None:
    frame = bytearray(MESSAGES_WITH_SECRETS["token"].frame)
    frame[7] = 99
    message = read_request(bytes(frame))
    assert message.opaque
    assert SECRET not in redaction.redacted_frame(message)
    assert redaction.redact_tree(message, tree(message)[0]) == [(message.body_start, len(frame))]


def test_redaction_works_in_versions_without_synonyms() -> None:
    config = {"name": "ssl.key.password", "value": SECRET.decode()}
    message = response("DescribeConfigs", 0, results=[{"resource_type": 4, "resource_name": "1", "configs": [config]}])
    [result] = redaction.redacted(message)["results"]
    assert result["configs"][0]["value"] == "(redacted, 18 bytes)"
    assert "synonyms" not in result["configs"][0]
