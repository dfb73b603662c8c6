import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dissectors import embedded
from dissectors.embedded import redaction
from dissectors.hexdump import unhex
from dissectors.messages.message import Message, read_response
from dissectors.records import encode as encode_records
from dissectors.wire.encode import encode
from dissectors.wire.layout import layout
from dissectors.wire.node import Node
from tests.dissectors.embedded.samples import (
    FRAMES,
    METADATA_ID,
    all_nodes,
    batch,
    fetch_response,
    node_at,
    read_row,
    real_message,
    response,
    tree,
    with_length_prefix,
)

SALT, STORED, SERVER = b"SALTsaltSALT", b"STOREDkeySTOREDkey", b"SERVERkeySERVERkey"
SCRAM = b"\x01\x0b\x00" + encode(
    layout("UserScramCredentialRecord", 0),
    {"name": "alice", "mechanism": 1, "salt": SALT, "stored_key": STORED, "server_key": SERVER, "iterations": 4096},
)


def config_record(name: str, value: str | None) -> bytes:
    return b"\x01\x04\x00" + encode(
        layout("ConfigRecord", 0), {"resource_type": 4, "resource_name": "1", "name": name, "value": value}
    )


PASSWORD = config_record("ssl.key.password", "hunter2-hünter2")
PLAIN = config_record("log.cleaner.threads", "2")


def visible_bytes(message: Message) -> bytes:
    """Return everything that any output could show of a message."""
    nodes, body = tree(message)
    unexpanded, _ = tree(message)
    redaction.redact_tree(message, unexpanded)
    embedded.expand_nodes(message, body)
    values = [node.value for node in all_nodes(nodes) if node.value is not None]
    values += [node.value for node in all_nodes(unexpanded) if node.value is not None]
    spans = redaction.redact_tree(message, nodes)
    blanked_frame = bytearray(message.frame)
    for start, end in spans:
        blanked_frame[start:end] = bytes(end - start)
    text = json.dumps(
        [embedded.presentable_body(message), embedded.expand(message), values],
        default=lambda data: bytes(data).decode("latin-1"),
        ensure_ascii=False,
    )
    frame = redaction.redacted_frame(message)
    assert len(frame) == len(message.frame)
    return text.encode("utf-8", "surrogateescape") + bytes(blanked_frame) + frame


def first_record_value(message: Message) -> Any:
    [row] = embedded.presentable_body(message)["responses"]
    return row["partitions"][0]["records"][0]["records"][0]["value"]


def test_scram_credentials_are_redacted() -> None:
    message = fetch_response("__cluster_metadata", batch(SCRAM))
    assert first_record_value(message)["data"] == {
        "name": "alice",
        "mechanism": 1,
        "salt": "(redacted, 12 bytes)",
        "stored_key": "(redacted, 18 bytes)",
        "server_key": "(redacted, 18 bytes)",
        "iterations": 4096,
    }


def test_only_secret_bytes_are_blanked_in_the_frame() -> None:
    message = fetch_response("__cluster_metadata", batch(SCRAM))
    frame = redaction.redacted_frame(message)
    expected = message.frame
    for secret in (SALT, STORED, SERVER):
        expected = expected.replace(secret, bytes(len(secret)))
    assert frame == expected


def test_nodes_of_secrets_are_redacted() -> None:
    message = fetch_response("__cluster_metadata", batch(SCRAM))
    _, body = tree(message)
    spans = embedded.expand_nodes(message, body)
    assert [message.frame[start:end] for start, end in spans] == [SALT, STORED, SERVER]
    record_data = node_at(body.children, "responses.0.partitions.0.records")
    assert record_data.value == f"(redacted, {len(batch(SCRAM))} bytes)"
    value = node_at(record_data.children, "0.records.0.value")
    assert (value.value, value.meaning) == (f"(redacted, {len(SCRAM)} bytes)", "UserScramCredentialRecord")
    assert node_at(value.children, "data.salt").value == "(redacted, 12 bytes)"


def test_only_configs_with_secret_names_are_redacted() -> None:
    assert (
        first_record_value(fetch_response("__cluster_metadata", batch(PASSWORD)))["data"]["value"]
        == "(redacted, 16 bytes)"
    )
    assert first_record_value(fetch_response("__cluster_metadata", batch(PLAIN)))["data"]["value"] == "2"
    removal_message = fetch_response("__cluster_metadata", batch(config_record("ssl.key.password", None)))
    assert first_record_value(removal_message)["data"]["value"] is None


def test_frame_without_secrets_is_unchanged() -> None:
    for message in (fetch_response("__cluster_metadata", batch(PLAIN)), fetch_response("orders", batch(SCRAM))):
        assert redaction.redacted_frame(message) == message.frame


def snapshot_response(data: bytes, **partition: Any) -> Message:
    rows = [{"name": "__cluster_metadata", "partitions": [{"unaligned_records": data, **partition}]}]
    return response("FetchSnapshot", 0, topics=rows)


def malformed_messages() -> dict[str, Message]:
    """Return messages with secrets in records that cannot be recognised as holding secrets."""
    valid_batch = batch(SCRAM)
    first, rest = batch(PLAIN), SCRAM[3:]
    wrong_crc = bytearray(valid_batch)
    wrong_crc[-1] ^= 1
    wrong_type = bytearray(valid_batch)
    wrong_type[wrong_type.index(SCRAM) + 1] = 2  # a TopicRecord, by a changed byte
    valid_message = fetch_response("__cluster_metadata", valid_batch)
    with_header = {"value": PLAIN, "headers": [{"key": "h", "value": SCRAM}]}
    return {
        "of a type that is not known": fetch_response("__cluster_metadata", batch(b"\x01\x63\x00" + rest)),
        "of a version that is not known": fetch_response("__cluster_metadata", batch(b"\x01\x0b\x09" + rest)),
        "of a frame version that is not known": fetch_response("__cluster_metadata", batch(b"\x02\x0b\x00" + rest)),
        "too short for a type": fetch_response("__cluster_metadata", batch(b"\x01\x0b", key=SCRAM)),
        "cut off inside": fetch_response("__cluster_metadata", batch(SCRAM[:-8])),
        "behind a record": fetch_response("__cluster_metadata", batch(PLAIN + SCRAM)),
        "in a key": fetch_response("__cluster_metadata", batch(PLAIN, key=SCRAM)),
        "in a header": fetch_response("__cluster_metadata", encode_records([{"records": [with_header]}])),
        "in a control record": fetch_response(
            "__cluster_metadata", batch(SCRAM, key=b"\x00\x00\x00\x09", is_control=True)
        ),
        "in a batch whose CRC is wrong": fetch_response("__cluster_metadata", first + bytes(wrong_crc)),
        "called another type by a changed byte": fetch_response("__cluster_metadata", first + bytes(wrong_type)),
        "in a batch that is cut off": fetch_response("__cluster_metadata", first + valid_batch[:-1]),
        "in a first batch that is cut off": fetch_response("__cluster_metadata", valid_batch[:-1]),
        "in what is no batch": fetch_response("__cluster_metadata", b"\x00" * 16 + b"\x09" + valid_batch),
        "compressed": fetch_response("__cluster_metadata", batch(SCRAM, compression="gzip")),
        "compressed, of no known type": fetch_response(
            "__cluster_metadata", batch(b"\x01\x63\x00", compression="gzip")
        ),
        "in a later piece of a snapshot": snapshot_response(valid_batch[20:] + valid_batch, position=20),
        "named by the topic's id": fetch_response(METADATA_ID, valid_batch, version=17),
        "behind the last field": read_response(with_length_prefix(valid_message.frame[4:] + SCRAM), 1, 12),
        "where the message cannot be read": read_response(valid_message.frame[:-40], 1, 12),
    }


@pytest.mark.parametrize("description", malformed_messages())
def test_no_output_shows_a_secret(description: str) -> None:
    visible = visible_bytes(malformed_messages()[description])
    for secret in (SALT, STORED, SERVER):
        for piece in (secret, secret[:8], secret[-8:]):
            assert piece not in visible


def test_compressed_records_with_secrets_are_blanked() -> None:
    message = fetch_response("__cluster_metadata", batch(SCRAM, compression="gzip"))
    _, body = tree(message)
    batch_node = node_at(body.children, "responses.0.partitions.0.records")
    spans = embedded.expand_nodes(message, body)
    compressed = node_at(batch_node.children, "0.records")
    assert set(spans) == {(compressed.start, compressed.end)}
    assert not any(redaction.redacted_frame(message)[compressed.start : compressed.end])


def test_record_data_without_a_locatable_start_is_redacted_entirely() -> None:
    body = embedded.presentable_body(real_message("snapshot from byte 100"))
    assert body["topics"][0]["partitions"][0]["unaligned_records"] == "(redacted, 2589 bytes)"


def test_real_snapshot_shows_no_secret() -> None:
    message = real_message("snapshot")
    _, body = tree(message)
    credentials = [message.frame[start:end] for start, end in embedded.expand_nodes(message, body)]
    assert [len(secret) for secret in credentials] == [15, 26, 32, 32]
    assert credentials[0] == b"hunter2-hunter2"
    visible = visible_bytes(message)
    assert not [secret for secret in credentials if secret in visible]


SNAPSHOT = bytes.fromhex(FRAMES["snapshot"]["frame"])
RECORDS_START = 73


@pytest.mark.slow
@given(st.data())
def test_changed_record_data_shows_no_secret(data: st.DataObject) -> None:
    frame = bytearray(SNAPSHOT)
    credentials = [SNAPSHOT[start:end] for start, end in embedded.secret_record_spans(real_message("snapshot"))]
    for _ in range(data.draw(st.integers(1, 3))):
        frame[data.draw(st.integers(RECORDS_START, len(frame) - 8))] = data.draw(st.integers(0, 255))
    visible = visible_bytes(read_response(bytes(frame), 59, 1))
    for secret in credentials:
        assert secret[:8] not in visible
        assert secret[-8:] not in visible


@given(st.sampled_from(sorted(FRAMES)), st.data())
def test_changed_real_frame_is_shown_without_an_exception(name: str, data: st.DataObject) -> None:
    row = FRAMES[name]
    frame = bytearray.fromhex(row["frame"])
    for _ in range(data.draw(st.integers(1, 4))):
        frame[data.draw(st.integers(12, len(frame) - 1))] = data.draw(st.integers(0, 255))
    truncated = bytes(frame[: data.draw(st.integers(12, len(frame)))])
    message = read_row({**row, "frame": truncated.hex()})
    if message.layout is not None and len(tree(message)[0]) == 3:
        assert visible_bytes(message)


def test_message_without_payloads_is_unchanged() -> None:
    message = response("Heartbeat", 4)
    assert embedded.expand(message) is message.body
    assert embedded.presentable_body(message) is message.body
    assert embedded.secret_record_spans(message) == []


def test_secrets_of_the_message_itself_are_redacted() -> None:
    message = response("SaslAuthenticate", 2, auth_bytes=b"v=secret")
    assert embedded.presentable_body(message)["auth_bytes"] == "(redacted, 8 bytes)"
    assert embedded.expand(message)["auth_bytes"] == b"v=secret"


def test_message_with_an_unknown_version_is_left_unexpanded() -> None:
    message = read_response(unhex("00 00 00 06  00 00 00 07  00 00"), 1, 99)
    assert embedded.expand(message) == {}
    assert embedded.expand_nodes(message, Node("body", 8, 10)) == []
    assert embedded.presentable_body(message) == {}
    assert redaction.redacted_frame(message) == message.frame
