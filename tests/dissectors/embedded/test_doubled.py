"""Each bytes field written twice: the diagnosis can read such frames, so the payload decoders must as well."""

import gzip
import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from dissectors import embedded, schemas
from dissectors.embedded import redaction, tree, values
from dissectors.messages.message import Message, read_request, read_response, walk_message
from dissectors.wire.node import Node
from kproxy.inspection.explain import Explanation, explain
from tests.dissectors.embedded.samples import FRAMES, batch, fetch_response, read_row, with_length_prefix
from tests.dissectors.embedded.test_secrets import SALT, SCRAM

CORPUS = Path(__file__).parents[2] / "data" / "corpus-tame.jsonl.gz"

SAMPLED_MESSAGES = {
    "JoinGroupRequest",
    "SyncGroupResponse",
    "SaslAuthenticateRequest",
    "ProduceRequest",
    "EnvelopeResponse",
}


def leaves(nodes: list[Node]) -> Iterator[Node]:
    for node in nodes:
        yield from leaves(node.children) if node.children else (node,)


def frames_with_a_doubled_field(message: Message) -> Iterator[bytes]:
    """Yield the frame once for each of its bytes fields, with that field written twice."""
    for node in leaves(walk_message(message).nodes):
        if isinstance(node.value, bytes | memoryview) and len(node.value):
            yield with_length_prefix(message.frame[4 : node.end] + message.frame[node.start :])


def explain_message(message: Message, frame: bytes) -> Explanation:
    return explain(frame, answered_request=None if message.is_request else (message.api_key, message.version))


def corpus(*, all_frames: bool) -> Iterator[Message]:
    """Yield Kafka's own frames: all, or the last version of a few messages."""
    messages: dict[object, Message] = {}
    for row in map(json.loads, gzip.decompress(CORPUS.read_bytes()).splitlines()):
        is_request = row["api"].endswith("Request")
        api = schemas.api_by_name(row["api"].removesuffix("Request").removesuffix("Response"))
        if api is None or "frame_hex" not in row or not (all_frames or row["api"] in SAMPLED_MESSAGES):
            continue
        frame = bytes.fromhex(row["frame_hex"])
        key = len(messages) if all_frames else row["api"]
        messages[key] = read_request(frame) if is_request else read_response(frame, api.key, row["version"])
    yield from messages.values()


@pytest.mark.parametrize("name", FRAMES)
def test_payload_written_twice_is_explained(name: str) -> None:
    message = read_row(FRAMES[name])
    for frame in frames_with_a_doubled_field(message):
        assert explain_message(message, frame).rows


@pytest.mark.parametrize("name", ["confluent-3.9.1 SyncGroup v3 response", "sarama-4.3.1 JoinGroup v8 request"])
def test_both_copies_of_a_payload_are_decoded_in_the_tree(name: str) -> None:
    message = read_row(FRAMES[name])
    [diagnosed] = [
        explanation
        for frame in frames_with_a_doubled_field(message)
        if (explanation := explain_message(message, frame)).message.diagnosis
    ]
    assert diagnosed.message.diagnosis is not None
    assert diagnosed.message.diagnosis.edit.kind == "field_duplicated"
    assert sum(row.path.endswith("data.user_data") for row in diagnosed.rows) == 2


@pytest.mark.parametrize("all_frames", [False, pytest.param(True, marks=pytest.mark.wide)])
def test_opaque_bytes_written_twice_are_explained(*, all_frames: bool) -> None:
    count = 0
    for message in corpus(all_frames=all_frames):
        for frame in frames_with_a_doubled_field(message):
            assert explain_message(message, frame).rows
            count += 1
    assert count > (1000 if all_frames else 5)


def test_secret_records_written_twice_are_redacted_twice() -> None:
    message = fetch_response("__cluster_metadata", batch(SCRAM))
    kinds = set()
    for frame in frames_with_a_doubled_field(message):
        explanation = explain_message(message, frame)
        kinds.add(explanation.message.diagnosis and explanation.message.diagnosis.edit.kind)
        assert SALT not in explanation.frame
        assert "SALT" not in repr(explanation.rows) + repr(explanation.body)
        assert SALT not in redaction.redacted_frame(explanation.message)
    assert "field_duplicated" in kinds


@pytest.mark.slow
def test_payload_decoders_receive_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    """This holds whatever type contains the records, and however often a field occurs."""
    types_received = []

    def record_types(owner: object, name: str, position: int) -> None:
        original = getattr(owner, name)

        def recording_function(*args: object, **options: object) -> object:
            argument = args[position]
            data = args[0][args[1]] if isinstance(args[0], dict) else argument.value  # type: ignore[index, attr-defined]
            types_received.append(type(data))
            return original(*args, **options)

        monkeypatch.setattr(owner, name, recording_function)

    record_types(values, "_decode_payload", 0)
    record_types(tree.Expander, "_expand_payload", 1)
    for row in FRAMES.values():
        message = read_row(row)
        embedded.expand(message, lambda _: "__consumer_offsets")
        for frame in frames_with_a_doubled_field(message):
            explain_message(message, frame)
    assert len(types_received) > 500
    assert set(types_received) == {bytes}
