from typing import Any

import pytest

from dissectors import schemas
from dissectors.embedded.redaction import has_unreadable_secret, may_hold_secrets, redact_tree, redacted, redacted_frame
from dissectors.messages.message import Message, read_request, read_response, walk_message
from dissectors.wire.layout import snake_case
from dissectors.wire.node import Node
from tests.kproxy.frames import request, response

SECRET = "hunter2"
CONFIG = {"name": "ssl.key.password", "value": SECRET}

#: Every message that may hold a secret, with a body that holds one.
MESSAGES: list[tuple[str, bool, dict[str, Any]]] = [
    ("SaslAuthenticate", True, {"auth_bytes": SECRET.encode()}),
    ("SaslAuthenticate", False, {"auth_bytes": SECRET.encode()}),
    (
        "AlterUserScramCredentials",
        True,
        {
            "deletions": [],
            "upsertions": [{"name": "alice", "salt": SECRET.encode(), "salted_password": SECRET.encode()}],
        },
    ),
    ("CreateDelegationToken", False, {"token_id": "id", "hmac": SECRET.encode()}),
    ("RenewDelegationToken", True, {"hmac": SECRET.encode()}),
    ("ExpireDelegationToken", True, {"hmac": SECRET.encode()}),
    ("DescribeDelegationToken", False, {"tokens": [{"token_id": "id", "hmac": SECRET.encode()}]}),
    ("AlterConfigs", True, {"resources": [{"resource_name": "1", "configs": [CONFIG]}]}),
    ("IncrementalAlterConfigs", True, {"resources": [{"resource_name": "1", "configs": [CONFIG]}]}),
    ("CreateTopics", True, {"topics": [{"name": "t", "configs": [CONFIG]}]}),
    ("CreateTopics", False, {"topics": [{"name": "t", "configs": [CONFIG]}]}),
    ("DescribeConfigs", False, {"results": [{"resource_name": "1", "configs": [CONFIG | {"synonyms": [CONFIG]}]}]}),
    ("Envelope", True, {"request_data": SECRET.encode()}),
    ("Envelope", False, {"response_data": SECRET.encode()}),
]
IDS = [f"{api}{'Request' if is_request else 'Response'}" for api, is_request, _ in MESSAGES]
every_message = pytest.mark.parametrize(("api", "is_request", "body"), MESSAGES, ids=IDS)


def message_of(api: str, is_request: bool, body: dict[str, Any]) -> Message:
    """Return the message in its newest version."""
    api_entry = schemas.api_by_name(api)
    assert api_entry is not None
    if is_request:
        return read_request(request(api, api_entry.max_version, body))
    return read_response(response(api, api_entry.max_version, body), api_entry.key, api_entry.max_version)


def reread(message: Message, frame: bytes) -> Message:
    return read_request(frame) if message.is_request else read_response(frame, message.api_key, message.version)


def node_values(nodes: list[Node]) -> list[object]:
    return [value for node in nodes for value in (node.value, *node_values(node.children))]


@every_message
def test_sample_message_contains_its_secret(api: str, is_request: bool, body: dict[str, Any]) -> None:
    message = message_of(api, is_request, body)
    assert (message.error, message.trailing) == (None, 0)
    assert may_hold_secrets(message)
    assert not has_unreadable_secret(message)
    assert SECRET in repr(message.body)
    assert SECRET.encode() in message.frame
    assert SECRET in repr(node_values(walk_message(message).nodes))


@every_message
def test_redacted_values_do_not_contain_the_secret(api: str, is_request: bool, body: dict[str, Any]) -> None:
    message = message_of(api, is_request, body)
    redacted_body = redacted(message)
    assert SECRET not in repr(redacted_body)
    assert f"(redacted, {len(SECRET)} bytes)" in repr(redacted_body)
    assert SECRET in repr(message.body), "the message itself is left alone"


@every_message
def test_redacted_tree_does_not_contain_the_secret(api: str, is_request: bool, body: dict[str, Any]) -> None:
    message = message_of(api, is_request, body)
    tree = walk_message(message)
    spans = redact_tree(message, tree.nodes)
    assert [message.frame[start:end] for start, end in spans] == [SECRET.encode()] * len(spans)
    assert SECRET not in repr(node_values(tree.nodes))


@every_message
def test_redacted_frame_has_no_secret_and_decodes_as_before(api: str, is_request: bool, body: dict[str, Any]) -> None:
    message = message_of(api, is_request, body)
    frame = redacted_frame(message)
    assert SECRET.encode() not in frame
    assert len(frame) == len(message.frame)
    reread_message = reread(message, frame)
    assert (reread_message.error, reread_message.trailing, reread_message.header) == (None, 0, message.header)
    assert repr(reread_message.body).replace("\\x00" * len(SECRET), SECRET) == repr(message.body)


@every_message
def test_damaged_message_is_redacted_entirely(api: str, is_request: bool, body: dict[str, Any]) -> None:
    undamaged = message_of(api, is_request, body)
    for frame in (undamaged.frame[:-1], undamaged.frame + b"\0", undamaged.frame[: undamaged.body_start - 1]):
        message = reread(undamaged, frame)
        assert has_unreadable_secret(message)
        assert redacted(message) == {}
        tree = walk_message(message)
        assert redact_tree(message, tree.nodes) == [(message.body_start, len(frame))]
        assert SECRET not in repr(node_values(tree.nodes))
        redacted_bytes = redacted_frame(message)
        assert redacted_bytes[: message.body_start] == frame[: message.body_start]
        assert not any(redacted_bytes[message.body_start :])


def test_version_outside_the_schemas_is_redacted_entirely() -> None:
    frame = bytearray(request("SaslAuthenticate", 1, {"auth_bytes": SECRET.encode()}))
    frame[7] = 99
    message = read_request(bytes(frame))
    assert message.opaque
    assert (redacted(message), SECRET.encode() in redacted_frame(message)) == ({}, False)


@pytest.mark.parametrize("hex_text", ["", "00", "00000002", "00000002 0024", "00000006 0024 0002 0000"])
def test_very_short_frame_is_redacted_without_error(hex_text: str) -> None:
    frame = bytes.fromhex(hex_text)
    for message in (read_request(frame), read_response(frame, 36, 2)):
        assert redacted(message) == {}
        assert len(redacted_frame(message)) == len(frame)


@pytest.mark.parametrize(
    "name",
    [
        "ssl.keystore.password",
        "ssl.key.password",
        "sasl.jaas.config",
        "listener.name.sasl_ssl.scram-sha-512.sasl.jaas.config",
        "ssl.keystore.key",
        "ssl.keystore.certificate.chain",
        "ssl.truststore.certificates",
        "delegation.token.secret.key",
        "delegation.token.master.key",
        "password.encoder.secret",
        "sasl.oauthbearer.client.credentials.client.secret",
        "sasl.oauthbearer.assertion.private.key.passphrase",
        "MY.PASSWORD",
    ],
)
def test_secret_config_is_recognised_by_its_name(name: str) -> None:
    body = {"resources": [{"resource_name": "1", "configs": [{"name": name, "value": SECRET}]}]}
    assert SECRET not in repr(redacted(message_of("IncrementalAlterConfigs", True, body)))


@pytest.mark.parametrize("name", ["retention.ms", "cleanup.policy", "ssl.keystore.location", "sasl.mechanism", ""])
def test_other_configs_are_shown(name: str) -> None:
    body = {"resources": [{"resource_name": "1", "configs": [{"name": name, "value": SECRET}]}]}
    message = message_of("IncrementalAlterConfigs", True, body)
    assert redacted(message) == message.body
    assert redacted_frame(message) == message.frame


def test_sensitive_config_is_redacted_with_its_synonyms() -> None:
    config = {"name": "own.plugin.pin", "value": SECRET, "is_sensitive": True}
    body = {"results": [{"configs": [config | {"synonyms": [{"name": "pin", "value": SECRET}]}]}]}
    message = message_of("DescribeConfigs", False, body)
    [redacted_config] = redacted(message)["results"][0]["configs"]
    assert redacted_config["value"] == redacted_config["synonyms"][0]["value"] == "(redacted, 7 bytes)"
    assert SECRET.encode() not in redacted_frame(message)


def test_null_secret_stays_null() -> None:
    body = {"results": [{"configs": [{"name": "ssl.key.password", "value": None, "is_sensitive": True}]}]}
    message = message_of("DescribeConfigs", False, body)
    assert redacted(message) == message.body
    assert redacted_frame(message) == message.frame


def test_null_array_of_secrets_stays_null() -> None:
    message = read_request(request("AlterConfigs", 1, {"resources": [{"configs": None}]}))
    assert redacted(message)["resources"][0]["configs"] is None
    assert redacted_frame(message) == message.frame


def test_size_of_a_secret_is_counted_in_bytes() -> None:
    body = {"resources": [{"configs": [{"name": "password", "value": "größer"}]}]}
    message = message_of("AlterConfigs", True, body)
    assert redacted(message)["resources"][0]["configs"][0]["value"] == "(redacted, 8 bytes)"
    assert reread(message, redacted_frame(message)).body["resources"][0]["configs"][0]["value"] == "\0" * 8


@pytest.mark.parametrize(
    ("api", "version", "body"),
    [
        ("Metadata", 12, {"topics": [{"name": "password"}]}),
        ("SaslHandshake", 1, {"mechanism": "PLAIN"}),
        ("DescribeConfigs", 4, {"resources": [{"resource_name": "1", "configuration_keys": ["ssl.key.password"]}]}),
        ("Produce", 9, {"topic_data": [{"name": "t", "partition_data": [{"index": 0, "records": SECRET.encode()}]}]}),
    ],
)
def test_message_without_secrets_is_unchanged(api: str, version: int, body: dict[str, Any]) -> None:
    message = read_request(request(api, version, body))
    tree = walk_message(message)
    original_text = repr(tree)
    assert not may_hold_secrets(message)
    assert redacted(message) is message.body
    assert redacted_frame(message) is message.frame
    assert redact_tree(message, tree.nodes) == []
    assert repr(tree) == original_text


def test_damaged_message_without_secrets_is_shown() -> None:
    message = read_request(request("Metadata", 12, {"topics": [{"name": "orders"}]})[:-1])
    assert not has_unreadable_secret(message)
    assert redacted(message) == message.body != {}
    assert redacted_frame(message) == message.frame


def test_every_message_with_a_secret_field_name_is_listed() -> None:
    """A new Kafka release may add such a message; this test then fails until someone decides whether to list it."""
    listed_names = {api + ("Request" if is_request else "Response") for api, is_request, _ in MESSAGES}
    secret_names = {"hmac", "auth_bytes", "salt", "salted_password", "password", "secret", "is_sensitive"}
    with_secrets = set()

    def collect(message: str, fields: list[dict[str, Any]]) -> None:
        for field in fields:
            if snake_case(field["name"]) in secret_names:
                with_secrets.add(message)
            collect(message, field.get("fields", []))

    for name in schemas.message_names():
        message = schemas.message(name)
        if message["type"] in ("request", "response"):
            collect(name, message["fields"])
    assert with_secrets <= listed_names
    assert len(with_secrets) >= 8
