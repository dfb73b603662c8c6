"""Properties of any values and any bytes, for every message in every version."""

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
from tests.dissectors.spans import find_gap
from tests.strategies import API_VERSIONS, LAYOUTS, damaged, layouts, requests, responses, values


def is_nested(nodes: list[Node], start: int, end: int) -> bool:
    """Return whether nodes follow each other inside [start, end), and their children inside each of them."""
    for node in nodes:
        if not start <= node.start <= node.end <= end or not is_nested(node.children, node.start, node.end):
            return False
        start = node.end
    return True


def check_round_trip(shape: Layout, values_to_encode: dict[str, object]) -> None:
    data = encode(shape, values_to_encode)
    decoded = decode(shape, b"pre" + data + b"post", 3)
    assert decoded[:3] == (values_to_encode, 3 + len(data), None)
    walked = walk(shape, b"pre" + data + b"post", 3)
    assert walked.values == values_to_encode
    assert (walked.end, walked.error) == (3 + len(data), None)
    assert {warning.kind for warning in (*walked.decode_warnings, *decoded.decode_warnings)} <= {
        "implausible"
    }  # the values may be any numbers
    assert find_gap(walked.nodes, 3, walked.end) is None


@pytest.mark.parametrize("step", [4, pytest.param(1, marks=pytest.mark.wide)], ids=["sample", "all"])
@pytest.mark.parametrize("kind", sorted({schemas.message(name)["type"] for name, _ in LAYOUTS}))
def test_every_layout_reads_what_it_writes(kind: str, step: int) -> None:
    def check_layout(name: str, version: int) -> None:
        shape = layout(name, version)

        @settings(max_examples=3, phases=[Phase.generate], database=None)
        @given(values(shape))
        def reads_what_was_written(written: dict[str, object]) -> None:
            note(f"{name} v{version}")
            check_round_trip(shape, written)

        reads_what_was_written()

    for name, version in [name_version for name_version in LAYOUTS if schemas.message(name_version[0])["type"] == kind][
        ::step
    ]:
        check_layout(name, version)


@pytest.mark.slow
@given(st.data(), layouts())
def test_any_layout_reads_what_it_writes(data: st.DataObject, shape: Layout) -> None:
    check_round_trip(shape, data.draw(values(shape)))


@pytest.mark.slow
@given(st.data(), layouts())
def test_fast_path_decodes_exactly_the_regular_bytes(data: st.DataObject, shape: Layout) -> None:
    raw = data.draw(st.binary(max_size=64) | damaged(values(shape).map(lambda drawn: encode(shape, drawn))))
    walked = walk(shape, raw)
    try:
        compiled_result = decoder(shape)(raw, 0)
    except (ValueError, IndexError, struct.error):
        assert walked.error or walked.decode_warnings
        decoded_values, end, error, decode_warnings, _ = decode(shape, raw)
        assert (decoded_values, end, str(error), list(decode_warnings)) == (
            walked.values,
            walked.end,
            str(walked.error),
            walked.decode_warnings,
        )
    else:
        assert (walked.error, walked.decode_warnings) == (None, [])
        assert compiled_result[:2] == (walked.values, walked.end)


@pytest.mark.slow
@given(st.data(), layouts())
def test_any_bytes_give_a_consistent_tree(data: st.DataObject, shape: Layout) -> None:
    raw = data.draw(st.binary(max_size=64) | damaged(values(shape).map(lambda drawn: encode(shape, drawn))))
    walked = walk(shape, raw)
    assert is_nested(walked.nodes, 0, walked.end)
    assert walked.end <= len(raw)
    for warning in walked.decode_warnings:
        assert 0 <= warning.start < warning.end <= len(raw)
    if walked.error:
        assert walked.error.offset == walked.end
        assert walked.error.path
    elif not any(warning.kind == "tag_size" for warning in walked.decode_warnings):
        assert find_gap(walked.nodes, 0, walked.end) is None


def check_message(message: Message) -> None:
    """Check that every fact about a message is available, whatever bytes it was read from."""
    frame = message.frame
    assert message.trailing >= 0
    assert message.opaque or message.layout or message.error
    tree = walk_message(message)
    assert str(tree.error) == str(message.error)
    assert tuple(tree.decode_warnings) == message.decode_warnings
    if len(frame) >= 4:
        assert is_nested(tree.nodes, 0, len(frame))
        assert message.end <= len(frame)
    if message.error is None and not message.trailing and not message.decode_warnings and not message.opaque:
        assert find_gap(tree.nodes, 0, len(frame)) is None
    for error in summary.errors(message):
        assert error.code != 0
    assert isinstance(summary.topics(message), list)
    assert isinstance(summary.group_id(message), str | None)
    assert isinstance(summary.transactional_id(message), str | None)
    redacted = redaction.redacted_frame(message)
    assert len(redacted) == len(frame)
    assert (redaction.redacted(message) is message.body) == (not redaction.may_hold_secrets(message))
    for start, end in redaction.redact_tree(message, tree.nodes):
        assert not any(redacted[start:end])


@pytest.mark.slow
@given(damaged(requests()) | st.binary(max_size=64))
def test_any_bytes_are_read_as_a_request(frame: bytes) -> None:
    check_message(read_request(frame))


@pytest.mark.slow
@given(damaged(responses().map(lambda response: response[0])) | st.binary(max_size=64), st.sampled_from(API_VERSIONS))
def test_any_bytes_are_read_as_a_response(frame: bytes, api_version: tuple[int, int]) -> None:
    check_message(read_response(frame, *api_version))


@pytest.mark.slow
@given(st.data())
def test_damaged_response_is_read_as_far_as_possible(data: st.DataObject) -> None:
    frame, key, version = data.draw(responses())
    check_message(read_response(data.draw(damaged(st.just(frame))), key, version))


@given(st.binary(max_size=32), st.integers(-(1 << 15), (1 << 15) - 1), st.integers(-(1 << 15), (1 << 15) - 1))
def test_response_to_an_unknown_api_version_is_opaque(frame: bytes, key: int, version: int) -> None:
    assume((key, version) not in API_VERSIONS)
    message = read_response(frame, key, version)
    assert message.opaque or (key == 18 and frame[8:10] == b"\0\x23")
    check_message(message)


def prefixes_before_lengths(shape: Layout) -> list[tuple[bytes, str]]:
    """Return the bytes of a message before each field with a length, and the encoding of that length."""
    prefixes = []
    for index, field in enumerate(shape.fields):
        if field.length in ("int32", "uvarint") and (field.array or field.type != "struct"):
            prefixes.append((encode(Layout("before", shape.fields[:index]), {}), field.length))
    return prefixes


def peak_memory_of_reading(shape: Layout, data: bytes) -> int:
    tracemalloc.start()
    decode(shape, data)
    walk(shape, data)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return peak


@pytest.mark.slow
def test_huge_claimed_count_fails_without_allocation() -> None:
    count = 0
    for name, version in LAYOUTS:
        shape = layout(name, version)
        decode(shape, b"")  # compiles it
        for prefix, encoding in prefixes_before_lengths(shape):
            if len(prefix) > 35:
                continue
            huge_count = b"\x7f\xff\xff\xff" if encoding == "int32" else b"\xff\xff\xff\xff\x0f"
            frame = (prefix + huge_count).ljust(40, b"\0")
            decoded = decode(shape, frame)
            assert decoded.error is not None, f"{name} v{version} reads {frame.hex()}"
            assert decoded.error.offset == len(prefix), f"{name} v{version}: {decoded.error}"
            assert peak_memory_of_reading(shape, frame) < 20_000, f"{name} v{version} allocates for {frame.hex()}"
            count += 1
    assert count > 1000


@pytest.mark.parametrize("kind", ["uuid", "int64", "bool", "int8"])
def test_large_count_costs_no_more_than_the_bytes(kind: str) -> None:
    shape = Layout("One", (Field("it", kind, array=True, length="int32"),))
    frame = (1_000_000).to_bytes(4, "big") + bytes(40)
    decode(shape, frame)
    assert peak_memory_of_reading(shape, frame) < 20_000
