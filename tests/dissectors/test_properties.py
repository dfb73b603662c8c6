"""What holds of any values and any bytes, over every message at every version."""

import struct
import tracemalloc

import pytest
from hypothesis import Phase, assume, given, note, settings
from hypothesis import strategies as st

from dissectors import schemas
from dissectors.embedded import redaction
from dissectors.messages import summary
from dissectors.messages.message import Message, read_request, read_response, walk_message
from dissectors.wire.compiled import decoder
from dissectors.wire.decode import decode
from dissectors.wire.encode import encode
from dissectors.wire.layout import Field, Layout, layout
from dissectors.wire.node import Node
from dissectors.wire.walk import walk
from tests.dissectors.spans import hole
from tests.strategies import API_VERSIONS, LAYOUTS, damaged, layouts, requests, responses, values


def nested(nodes: list[Node], start: int, end: int) -> bool:
    """Whether nodes follow each other inside [start, end), and so in each of them."""
    for node in nodes:
        if not start <= node.start <= node.end <= end or not nested(node.children, node.start, node.end):
            return False
        start = node.end
    return True


def round_trip(shape: Layout, given_values: dict[str, object]) -> None:
    data = encode(shape, given_values)
    decoded = decode(shape, b"pre" + data + b"post", 3)
    assert decoded[:3] == (given_values, 3 + len(data), None)
    walked = walk(shape, b"pre" + data + b"post", 3)
    assert walked.values == given_values
    assert (walked.end, walked.error) == (3 + len(data), None)
    assert {odd.kind for odd in (*walked.decode_warnings, *decoded.decode_warnings)} <= {
        "implausible"
    }  # any number may stand there
    assert hole(walked.nodes, 3, walked.end) is None


@pytest.mark.parametrize("step", [4, pytest.param(1, marks=pytest.mark.wide)], ids=["sample", "all"])
@pytest.mark.parametrize("kind", sorted({schemas.message(name)["type"] for name, _ in LAYOUTS}))
def test_every_layout_reads_what_was_written_in_it(kind: str, step: int) -> None:
    def check(name: str, version: int) -> None:
        shape = layout(name, version)

        @settings(max_examples=3, phases=[Phase.generate], database=None)
        @given(values(shape))
        def reads_what_was_written(written: dict[str, object]) -> None:
            note(f"{name} v{version}")
            round_trip(shape, written)

        reads_what_was_written()

    for name, version in [each for each in LAYOUTS if schemas.message(each[0])["type"] == kind][::step]:
        check(name, version)


@given(st.data(), layouts())
def test_any_layout_reads_what_was_written_in_it(data: st.DataObject, shape: Layout) -> None:
    round_trip(shape, data.draw(values(shape)))


@given(st.data(), layouts())
def test_the_fast_path_takes_exactly_what_the_walk_finds_regular(data: st.DataObject, shape: Layout) -> None:
    raw = data.draw(st.binary(max_size=64) | damaged(values(shape).map(lambda given: encode(shape, given))))
    walked = walk(shape, raw)
    try:
        fast = decoder(shape)(raw, 0)
    except (ValueError, IndexError, struct.error):
        assert walked.error or walked.decode_warnings
        said, end, error, decode_warnings, _ = decode(shape, raw)
        assert (said, end, str(error), list(decode_warnings)) == (
            walked.values,
            walked.end,
            str(walked.error),
            walked.decode_warnings,
        )
    else:
        assert (walked.error, walked.decode_warnings) == (None, [])
        assert fast[:2] == (walked.values, walked.end)


@given(st.data(), layouts())
def test_any_bytes_give_a_tree_and_if_need_be_the_byte_where_it_ends(data: st.DataObject, shape: Layout) -> None:
    raw = data.draw(st.binary(max_size=64) | damaged(values(shape).map(lambda given: encode(shape, given))))
    walked = walk(shape, raw)
    assert nested(walked.nodes, 0, walked.end)
    assert walked.end <= len(raw)
    for odd in walked.decode_warnings:
        assert 0 <= odd.start < odd.end <= len(raw)
    if walked.error:
        assert walked.error.offset == walked.end
        assert walked.error.path
    elif not any(odd.kind == "tag_size" for odd in walked.decode_warnings):
        assert hole(walked.nodes, 0, walked.end) is None


def check_message(message: Message) -> None:
    """Whatever it was read from, all that is asked of a message can be had."""
    frame = message.frame
    assert message.trailing >= 0
    assert message.opaque or message.layout or message.error
    tree = walk_message(message)
    assert str(tree.error) == str(message.error)
    assert tuple(tree.decode_warnings) == message.decode_warnings
    if len(frame) >= 4:
        assert nested(tree.nodes, 0, len(frame))
        assert message.end <= len(frame)
    if message.error is None and not message.trailing and not message.decode_warnings and not message.opaque:
        assert hole(tree.nodes, 0, len(frame)) is None
    for error in summary.errors(message):
        assert error.code != 0
    assert isinstance(summary.topics(message), list)
    assert isinstance(summary.group_id(message), str | None)
    assert isinstance(summary.transactional_id(message), str | None)
    hidden = redaction.redacted_frame(message)
    assert len(hidden) == len(frame)
    assert (redaction.redacted(message) is message.body) == (not redaction.may_hold_secrets(message))
    for start, end in redaction.redact_tree(message, tree.nodes):
        assert not any(hidden[start:end])


@given(damaged(requests()) | st.binary(max_size=64))
def test_any_bytes_are_read_as_a_request(frame: bytes) -> None:
    check_message(read_request(frame))


@given(damaged(responses().map(lambda response: response[0])) | st.binary(max_size=64), st.sampled_from(API_VERSIONS))
def test_any_bytes_are_read_as_a_response_to_anything(frame: bytes, asked: tuple[int, int]) -> None:
    check_message(read_response(frame, *asked))


@given(st.data())
def test_a_damaged_response_is_read_as_far_as_it_goes(data: st.DataObject) -> None:
    frame, key, version = data.draw(responses())
    check_message(read_response(data.draw(damaged(st.just(frame))), key, version))


@given(st.binary(max_size=32), st.integers(-(1 << 15), (1 << 15) - 1), st.integers(-(1 << 15), (1 << 15) - 1))
def test_a_response_to_what_does_not_exist_is_opaque(frame: bytes, key: int, version: int) -> None:
    assume((key, version) not in API_VERSIONS)
    message = read_response(frame, key, version)
    assert message.opaque or (key == 18 and frame[8:10] == b"\0\x23")
    check_message(message)


def up_to_each_length(shape: Layout) -> list[tuple[bytes, str]]:
    """The bytes of a message up to each field that has a length, with that length's encoding."""
    found = []
    for index, field in enumerate(shape.fields):
        if field.length in ("int32", "uvarint") and (field.array or field.type != "struct"):
            found.append((encode(Layout("before", shape.fields[:index]), {}), field.length))
    return found


def peak_of_reading(shape: Layout, data: bytes) -> int:
    tracemalloc.start()
    decode(shape, data)
    walk(shape, data)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return peak


def test_a_claim_of_2_31_elements_fails_before_anything_is_allocated() -> None:
    tried = 0
    for name, version in LAYOUTS:
        shape = layout(name, version)
        decode(shape, b"")  # compiles it
        for before, encoding in up_to_each_length(shape):
            if len(before) > 35:
                continue
            claim = b"\x7f\xff\xff\xff" if encoding == "int32" else b"\xff\xff\xff\xff\x0f"
            frame = (before + claim).ljust(40, b"\0")
            decoded = decode(shape, frame)
            assert decoded.error is not None, f"{name} v{version} reads {frame.hex()}"
            assert decoded.error.offset == len(before), f"{name} v{version}: {decoded.error}"
            assert peak_of_reading(shape, frame) < 20_000, f"{name} v{version} allocates for {frame.hex()}"
            tried += 1
    assert tried > 1000


@pytest.mark.parametrize("kind", ["uuid", "int64", "bool", "int8"])
def test_a_claim_of_as_many_elements_as_there_are_bytes_costs_no_more_than_the_bytes(kind: str) -> None:
    shape = Layout("One", (Field("it", kind, array=True, length="int32"),))
    frame = (1_000_000).to_bytes(4, "big") + bytes(40)
    decode(shape, frame)
    assert peak_of_reading(shape, frame) < 20_000
