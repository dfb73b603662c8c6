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
    at,
    batch,
    every,
    fetched,
    framed,
    read,
    real,
    response,
    tree,
)

SALT, STORED, SERVER = b"SALTsaltSALT", b"STOREDkeySTOREDkey", b"SERVERkeySERVERkey"
SCRAM = b"\x01\x0b\x00" + encode(
    layout("UserScramCredentialRecord", 0),
    {"name": "alice", "mechanism": 1, "salt": SALT, "stored_key": STORED, "server_key": SERVER, "iterations": 4096},
)


def config(name: str, value: str | None) -> bytes:
    return b"\x01\x04\x00" + encode(
        layout("ConfigRecord", 0), {"resource_type": 4, "resource_name": "1", "name": name, "value": value}
    )


PASSWORD = config("ssl.key.password", "hunter2-hünter2")
PLAIN = config("log.cleaner.threads", "2")


def shown(message: Message) -> bytes:
    """All that any output could get to see of a message."""
    nodes, body = tree(message)
    unexpanded, _ = tree(message)
    redaction.redact_tree(message, unexpanded)
    embedded.expand_nodes(message, body)
    values = [node.value for node in every(nodes) if node.value is not None]
    values += [node.value for node in every(unexpanded) if node.value is not None]
    spans = redaction.redact_tree(message, nodes)
    hidden = bytearray(message.frame)
    for start, end in spans:
        hidden[start:end] = bytes(end - start)
    text = json.dumps(
        [embedded.presentable(message), embedded.expand(message), values],
        default=lambda data: bytes(data).decode("latin-1"),
        ensure_ascii=False,
    )
    frame = redaction.redacted_frame(message)
    assert len(frame) == len(message.frame)
    return text.encode("utf-8", "surrogateescape") + bytes(hidden) + frame


def value_of(message: Message) -> Any:
    [row] = embedded.presentable(message)["responses"]
    return row["partitions"][0]["records"][0]["records"][0]["value"]


def test_scram_credentials_are_withheld() -> None:
    message = fetched("__cluster_metadata", batch(SCRAM))
    assert value_of(message)["data"] == {
        "name": "alice",
        "mechanism": 1,
        "salt": "(redacted, 12 bytes)",
        "stored_key": "(redacted, 18 bytes)",
        "server_key": "(redacted, 18 bytes)",
        "iterations": 4096,
    }


def test_only_their_bytes_are_blank_in_the_frame() -> None:
    message = fetched("__cluster_metadata", batch(SCRAM))
    frame = redaction.redacted_frame(message)
    expected = message.frame
    for secret in (SALT, STORED, SERVER):
        expected = expected.replace(secret, bytes(len(secret)))
    assert frame == expected


def test_the_nodes_say_so() -> None:
    message = fetched("__cluster_metadata", batch(SCRAM))
    _, body = tree(message)
    spans = embedded.expand_nodes(message, body)
    assert [message.frame[start:end] for start, end in spans] == [SALT, STORED, SERVER]
    data = at(body.children, "responses.0.partitions.0.records")
    assert data.value == f"(redacted, {len(batch(SCRAM))} bytes)"
    value = at(data.children, "0.records.0.value")
    assert (value.value, value.meaning) == (f"(redacted, {len(SCRAM)} bytes)", "UserScramCredentialRecord")
    assert at(value.children, "data.salt").value == "(redacted, 12 bytes)"


def test_only_configurations_named_like_secrets_are_withheld() -> None:
    assert value_of(fetched("__cluster_metadata", batch(PASSWORD)))["data"]["value"] == "(redacted, 16 bytes)"
    assert value_of(fetched("__cluster_metadata", batch(PLAIN)))["data"]["value"] == "2"
    removed = fetched("__cluster_metadata", batch(config("ssl.key.password", None)))
    assert value_of(removed)["data"]["value"] is None


def test_a_frame_without_secrets_is_given_as_it_is() -> None:
    for message in (fetched("__cluster_metadata", batch(PLAIN)), fetched("orders", batch(SCRAM))):
        assert redaction.redacted_frame(message) == message.frame


def topics(data: bytes, **partition: Any) -> Message:
    rows = [{"name": "__cluster_metadata", "partitions": [{"unaligned_records": data, **partition}]}]
    return response("FetchSnapshot", 0, topics=rows)


def misshapen() -> dict[str, Message]:
    """Secrets where no record says so."""
    good = batch(SCRAM)
    first, tail = batch(PLAIN), SCRAM[3:]
    wrong_crc = bytearray(good)
    wrong_crc[-1] ^= 1
    wrong_type = bytearray(good)
    wrong_type[wrong_type.index(SCRAM) + 1] = 2  # a TopicRecord, by a changed byte
    whole = fetched("__cluster_metadata", good)
    with_header = {"value": PLAIN, "headers": [{"key": "h", "value": SCRAM}]}
    return {
        "of a type that is not known": fetched("__cluster_metadata", batch(b"\x01\x63\x00" + tail)),
        "of a version that is not known": fetched("__cluster_metadata", batch(b"\x01\x0b\x09" + tail)),
        "of a frame version that is not known": fetched("__cluster_metadata", batch(b"\x02\x0b\x00" + tail)),
        "too short for a type": fetched("__cluster_metadata", batch(b"\x01\x0b", key=SCRAM)),
        "cut off inside": fetched("__cluster_metadata", batch(SCRAM[:-8])),
        "behind a record": fetched("__cluster_metadata", batch(PLAIN + SCRAM)),
        "in a key": fetched("__cluster_metadata", batch(PLAIN, key=SCRAM)),
        "in a header": fetched("__cluster_metadata", encode_records([{"records": [with_header]}])),
        "in a control record": fetched("__cluster_metadata", batch(SCRAM, key=b"\x00\x00\x00\x09", is_control=True)),
        "in a batch whose CRC is wrong": fetched("__cluster_metadata", first + bytes(wrong_crc)),
        "called another type by a changed byte": fetched("__cluster_metadata", first + bytes(wrong_type)),
        "in a batch that is cut off": fetched("__cluster_metadata", first + good[:-1]),
        "in a first batch that is cut off": fetched("__cluster_metadata", good[:-1]),
        "in what is no batch": fetched("__cluster_metadata", b"\x00" * 16 + b"\x09" + good),
        "compressed": fetched("__cluster_metadata", batch(SCRAM, compression="gzip")),
        "compressed, of no known type": fetched("__cluster_metadata", batch(b"\x01\x63\x00", compression="gzip")),
        "in a later piece of a snapshot": topics(good[20:] + good, position=20),
        "named by the topic's id": fetched(METADATA_ID, good, version=17),
        "behind the last field": read_response(framed(whole.frame[4:] + SCRAM), 1, 12),
        "where the message cannot be read": read_response(whole.frame[:-40], 1, 12),
    }


@pytest.mark.parametrize("where", misshapen())
def test_no_output_shows_a_secret(where: str) -> None:
    seen = shown(misshapen()[where])
    for secret in (SALT, STORED, SERVER):
        for piece in (secret, secret[:8], secret[-8:]):
            assert piece not in seen


def test_compressed_secrets_are_blank_as_they_were_compressed() -> None:
    message = fetched("__cluster_metadata", batch(SCRAM, compression="gzip"))
    _, body = tree(message)
    packed = at(body.children, "responses.0.partitions.0.records")
    spans = embedded.expand_nodes(message, body)
    compressed = at(packed.children, "0.records")
    assert set(spans) == {(compressed.start, compressed.end)}
    assert not any(redaction.redacted_frame(message)[compressed.start : compressed.end])


def test_record_data_that_cannot_be_located_in_is_withheld_whole() -> None:
    body = embedded.presentable(real("snapshot from byte 100"))
    assert body["topics"][0]["partitions"][0]["unaligned_records"] == "(redacted, 2589 bytes)"


def test_a_real_snapshot_shows_no_secret() -> None:
    message = real("snapshot")
    _, body = tree(message)
    credentials = [message.frame[start:end] for start, end in embedded.expand_nodes(message, body)]
    assert [len(secret) for secret in credentials] == [15, 26, 32, 32]
    assert credentials[0] == b"hunter2-hunter2"
    seen = shown(message)
    assert not [secret for secret in credentials if secret in seen]


SNAPSHOT = bytes.fromhex(FRAMES["snapshot"]["frame"])
RECORDS_START = 73


@given(st.data())
def test_changed_bytes_in_record_data_show_no_secret(data: st.DataObject) -> None:
    frame = bytearray(SNAPSHOT)
    credentials = [SNAPSHOT[start:end] for start, end in embedded.secret_record_spans(real("snapshot"))]
    for _ in range(data.draw(st.integers(1, 3))):
        frame[data.draw(st.integers(RECORDS_START, len(frame) - 8))] = data.draw(st.integers(0, 255))
    seen = shown(read_response(bytes(frame), 59, 1))
    for secret in credentials:
        assert secret[:8] not in seen
        assert secret[-8:] not in seen


@given(st.sampled_from(sorted(FRAMES)), st.data())
def test_any_change_to_a_real_frame_is_taken(name: str, data: st.DataObject) -> None:
    row = FRAMES[name]
    frame = bytearray.fromhex(row["frame"])
    for _ in range(data.draw(st.integers(1, 4))):
        frame[data.draw(st.integers(12, len(frame) - 1))] = data.draw(st.integers(0, 255))
    cut = bytes(frame[: data.draw(st.integers(12, len(frame)))])
    message = read({**row, "frame": cut.hex()})
    if message.layout is not None and len(tree(message)[0]) == 3:
        assert shown(message)


def test_messages_with_nothing_inside_are_given_as_they_are() -> None:
    message = response("Heartbeat", 4)
    assert embedded.expand(message) is message.body
    assert embedded.presentable(message) is message.body
    assert embedded.secret_record_spans(message) == []


def test_secrets_of_the_message_itself_are_withheld() -> None:
    message = response("SaslAuthenticate", 2, auth_bytes=b"v=secret")
    assert embedded.presentable(message)["auth_bytes"] == "(redacted, 8 bytes)"
    assert embedded.expand(message)["auth_bytes"] == b"v=secret"


def test_what_no_schema_can_read_has_nothing_to_expand() -> None:
    message = read_response(unhex("00 00 00 06  00 00 00 07  00 00"), 1, 99)
    assert embedded.expand(message) == {}
    assert embedded.expand_nodes(message, Node("body", 8, 10)) == []
    assert embedded.presentable(message) == {}
    assert redaction.redacted_frame(message) == message.frame
