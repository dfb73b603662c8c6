"""Each field of bytes written twice: the diagnosis reads such frames, so the decoders of what is inside must too."""

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
from tests.dissectors.embedded.samples import FRAMES, batch, fetched, framed, read
from tests.dissectors.embedded.test_secrets import SALT, SCRAM

CORPUS = Path(__file__).parents[2] / "data" / "corpus-tame.jsonl.gz"

FEW = {"JoinGroupRequest", "SyncGroupResponse", "SaslAuthenticateRequest", "ProduceRequest", "EnvelopeResponse"}


def leaves(above: list[Node]) -> Iterator[Node]:
    for node in above:
        yield from leaves(node.children) if node.children else (node,)


def doubled(message: Message) -> Iterator[bytes]:
    """The frame with one of its fields of bytes written a second time, for each of them."""
    for node in leaves(walk_message(message).nodes):
        if isinstance(node.value, bytes | memoryview) and len(node.value):
            yield framed(message.frame[4 : node.end] + message.frame[node.start :])


def explained(message: Message, frame: bytes) -> Explanation:
    return explain(frame, answered=None if message.is_request else (message.api_key, message.version))


def corpus(*, every: bool) -> Iterator[Message]:
    """Kafka's own frames: all, or the last version of a few messages."""
    found: dict[object, Message] = {}
    for raw in map(json.loads, gzip.decompress(CORPUS.read_bytes()).splitlines()):
        is_request = raw["api"].endswith("Request")
        api = schemas.api_by_name(raw["api"].removesuffix("Request").removesuffix("Response"))
        if api is None or "frame_hex" not in raw or not (every or raw["api"] in FEW):
            continue
        frame = bytes.fromhex(raw["frame_hex"])
        key = len(found) if every else raw["api"]
        found[key] = read_request(frame) if is_request else read_response(frame, api.key, raw["version"])
    yield from found.values()


@pytest.mark.parametrize("name", FRAMES)
def test_a_payload_written_twice_is_read(name: str) -> None:
    message = read(FRAMES[name])
    for frame in doubled(message):
        assert explained(message, frame).rows


@pytest.mark.parametrize("name", ["confluent-3.9.1 SyncGroup v3 response", "sarama-4.3.1 JoinGroup v8 request"])
def test_both_copies_of_a_payload_are_decoded_in_the_tree(name: str) -> None:
    message = read(FRAMES[name])
    [read_twice] = [
        explanation for frame in doubled(message) if (explanation := explained(message, frame)).message.diagnosis
    ]
    assert read_twice.message.diagnosis is not None
    assert read_twice.message.diagnosis.edit.kind == "field_duplicated"
    assert sum(row.path.endswith("data.user_data") for row in read_twice.rows) == 2


@pytest.mark.parametrize("every", [False, pytest.param(True, marks=pytest.mark.wide)])
def test_opaque_bytes_written_twice_are_read(*, every: bool) -> None:
    count = 0
    for message in corpus(every=every):
        for frame in doubled(message):
            assert explained(message, frame).rows
            count += 1
    assert count > (1000 if every else 5)


def test_secret_records_written_twice_are_withheld_twice() -> None:
    message = fetched("__cluster_metadata", batch(SCRAM))
    kinds = set()
    for frame in doubled(message):
        explanation = explained(message, frame)
        kinds.add(explanation.message.diagnosis and explanation.message.diagnosis.edit.kind)
        assert SALT not in explanation.frame
        assert "SALT" not in repr(explanation.rows) + repr(explanation.body)
        assert SALT not in redaction.redacted_frame(explanation.message)
    assert "field_duplicated" in kinds


def test_decoders_of_payloads_get_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever the records are held in, and however often a field is there."""
    seen = []

    def watch(owner: object, name: str, position: int) -> None:
        plain = getattr(owner, name)

        def watched(*args: object, **options: object) -> object:
            spot = args[position]
            data = args[0][args[1]] if isinstance(args[0], dict) else spot.value  # type: ignore[index, attr-defined]
            seen.append(type(data))
            return plain(*args, **options)

        monkeypatch.setattr(owner, name, watched)

    watch(values, "_put_payload", 0)
    watch(tree.Expander, "_payload", 1)
    for row in FRAMES.values():
        message = read(row)
        embedded.expand(message, lambda _: "__consumer_offsets")
        for frame in doubled(message):
            explained(message, frame)
    assert len(seen) > 500
    assert set(seen) == {bytes}
