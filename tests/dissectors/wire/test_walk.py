import pytest

from dissectors.hexdump import unhex
from dissectors.wire.layout import Field, Layout
from dissectors.wire.node import Node
from dissectors.wire.walk import WalkResult, walk
from tests.dissectors.shapes import PORT, TAGGED, single_field

NAME = Layout("Name", (Field("name", "string", length="uvarint"),), flexible=True)
NAMES = Layout("Names", (Field("names", "struct", array=True, nullable=True, length="int32", struct=NAME),))


def outline(nodes: list[Node]) -> list[object]:
    """Return nodes as (name, start, end, value) or (name, start, end, [children])."""
    return [
        (node.name, node.start, node.end, outline(node.children) if node.children else node.value) for node in nodes
    ]


def warning_tuples(walked: WalkResult) -> list[tuple[str, str, int, int, tuple[str, ...]]]:
    return [
        (warning.kind, warning.message, warning.start, warning.end, warning.path) for warning in walked.decode_warnings
    ]


def test_every_field_has_the_span_of_its_bytes() -> None:
    frame = unhex("""
        ff ff ff ff        # not of this layout
        00 00 00 02        # names: 2
        03 68 69  00       # name "hi", no tags
        01        00       # name "", no tags
        ff
    """)
    walked = walk(NAMES, frame, 4)
    assert walked.values == {"names": [{"name": "hi"}, {"name": ""}]}
    assert outline(walked.nodes) == [
        ("names", 4, 14, [
            ("0", 8, 12, [("name", 8, 11, "hi"), ("_tags", 11, 12, None)]),
            ("1", 12, 14, [("name", 12, 13, ""), ("_tags", 13, 14, None)]),
        ]),
    ]  # fmt: skip
    assert (walked.end, walked.error, walked.decode_warnings) == (14, None, [])


def test_empty_and_null_arrays_are_distinguished() -> None:
    assert outline(walk(NAMES, unhex("00 00 00 00")).nodes) == [("names", 0, 4, [])]
    assert outline(walk(NAMES, unhex("ff ff ff ff")).nodes) == [("names", 0, 4, None)]
    assert walk(NAMES, unhex("00 00 00 00")).nodes[0].value == []
    assert walk(NAMES, unhex("ff ff ff ff")).values == {"names": None}


def test_tagged_field_spans_its_number_and_size() -> None:
    walked = walk(TAGGED, unhex("00 00  02  01 04 00 00 00 07  05 02 61 62"))
    assert walked.values == {"error_code": 0, "epoch": 7, "_tags": [[5, b"ab"]]}
    assert outline(walked.nodes) == [
        ("error_code", 0, 2, 0),
        ("_tags", 2, 13, [("epoch", 3, 9, [("epoch", 5, 9, 7)]), ("tag 5", 9, 13, b"ab")]),
    ]


def test_nullable_struct_has_a_presence_marker() -> None:
    shape = single_field("struct", nullable=True, length="int8", struct=PORT)
    assert outline(walk(shape, unhex("01 07")).nodes) == [("it", 0, 2, [("port", 1, 2, 7)])]
    assert outline(walk(shape, unhex("ff")).nodes) == [("it", 0, 1, None)]
    assert walk(shape, unhex("ff")).values == {"it": None}


def test_tagged_struct_with_marker_0_is_null() -> None:
    assert walk(TAGGED, unhex("00 00  01 02 01 00")).values == {"error_code": 0, "where": None}
    assert walk(TAGGED, unhex("00 00  01 02 02 01 09")).values == {"error_code": 0, "where": {"port": 9}}


def test_walk_stops_at_the_given_end() -> None:
    walked = walk(single_field("string", length="int16"), unhex("00 03 61 62 63"), 0, 4)
    assert str(walked.error) == "it at byte 0 (0x0000): length 3 does not fit: 2 bytes left"


@pytest.mark.parametrize(
    ("shape", "text", "message"),
    [
        pytest.param(single_field("int32"), "00 00", "it at byte 0 (0x0000): int32 needs 4 bytes, 2 left", id="number"),
        pytest.param(single_field("bool"), "", "it at byte 0 (0x0000): bool needs 1 byte, 0 left", id="boolean"),
        pytest.param(
            single_field("string", length="int16"),
            "00 05 61",
            "it at byte 0 (0x0000): length 5 does not fit: 1 byte left",
            id="string",
        ),
        pytest.param(
            single_field("string", length="int16"),
            "ff fe",
            "it at byte 0 (0x0000): length of string is -2",
            id="negative length",
        ),
        pytest.param(
            single_field("bytes", length="int32"),
            "00 00",
            "it at byte 0 (0x0000): length of bytes needs 4 bytes, 2 left",
            id="length cut off",
        ),
        pytest.param(
            single_field("string", length="uvarint"),
            "ff",
            "it at byte 1 (0x0001): length of string needs 1 byte, 0 left",
            id="varint cut off",
        ),
        pytest.param(
            single_field("string", length="uvarint"),
            "ff ff ff ff ff 00",
            "it at byte 0 (0x0000): length of string is a varint of more than 5 bytes",
            id="varint of six bytes",
        ),
        pytest.param(
            single_field("string", length="uvarint"),
            "ff ff ff ff 7f",
            "it at byte 0 (0x0000): length of string is a varint of more than 32 bits",
            id="varint of 35 bits",
        ),
        pytest.param(
            NAMES,
            "7f ff ff ff 01 00",
            "names at byte 0 (0x0000): array of 2147483647 elements cannot fit in 2 bytes",
            id="array of 2^31",
        ),
        pytest.param(
            NAMES,
            "00 00 00 02 03 68 69 00 09 00",
            "names[1].name at byte 8 (0x0008): length 8 does not fit: 1 byte left",
            id="second element",
        ),
        pytest.param(
            single_field("int16", array=True, length="int32"),
            "00 00 00 02 00 01 00",
            "it[1] at byte 6 (0x0006): int16 needs 2 bytes, 1 left",
            id="second number",
        ),
        pytest.param(
            single_field("struct", nullable=True, length="int8", struct=PORT),
            "",
            "it at byte 0 (0x0000): presence marker needs 1 byte, 0 left",
            id="no mark",
        ),
        pytest.param(
            TAGGED, "00 00 7f 00", "_tags at byte 2 (0x0002): 127 tagged fields cannot fit in 1 byte", id="127 tags"
        ),
        pytest.param(
            TAGGED, "00 00", "_tags at byte 2 (0x0002): count of tagged fields needs 1 byte, 0 left", id="no tags"
        ),
        pytest.param(
            TAGGED,
            "00 00 01 05 09 00",
            "_tags at byte 3 (0x0003): tag 5 of 9 bytes does not fit: 1 byte left",
            id="long tag",
        ),
        pytest.param(
            TAGGED,
            "00 00 01 01 02 00 00 00 07",
            "_tags.epoch at byte 5 (0x0005): int32 needs 4 bytes, 2 left",
            id="tag too short for its value",
        ),
    ],
)
def test_error_names_the_byte_where_reading_stopped(shape: Layout, text: str, message: str) -> None:
    walked = walk(shape, unhex(text))
    assert str(walked.error) == message
    assert walked.error is not None
    assert walked.end == walked.error.offset


def test_fields_before_an_invalid_one_are_kept() -> None:
    walked = walk(NAMES, unhex("00 00 00 02 03 68 69 00 09 00"))
    assert walked.values == {"names": [{"name": "hi"}]}
    assert outline(walked.nodes) == [
        ("names", 0, 8, [("0", 4, 8, [("name", 4, 7, "hi"), ("_tags", 7, 8, None)])]),
    ]
    walked = walk(single_field("int16", array=True, length="int32"), unhex("00 00 00 02 00 01 00"))
    assert walked.values == {"it": [1]}
    assert outline(walked.nodes) == [("it", 0, 6, [("0", 4, 6, 1)])]


def test_fields_of_an_incomplete_element_are_kept() -> None:
    pair = Layout("Pair", (Field("a", "int8"), Field("b", "int16")))
    walked = walk(single_field("struct", array=True, length="uvarint", struct=pair), unhex("02 07 00"))
    assert walked.values == {"it": [{"a": 7}]}
    assert outline(walked.nodes) == [("it", 0, 2, [("0", 1, 2, [("a", 1, 2, 7)])])]


def test_bytes_of_an_incomplete_length_are_kept() -> None:
    walked = walk(single_field("string", length="uvarint"), unhex("ff"))
    assert (walked.values, outline(walked.nodes)) == ({}, [("it", 0, 1, None)])


@pytest.mark.parametrize(
    ("shape", "text", "value", "warning"),
    [
        pytest.param(
            single_field("string", length="int16"),
            "ff ff",
            None,
            ("null", "null where the protocol allows none", 0, 2),
            id="null",
        ),
        pytest.param(
            single_field("int8", array=True, length="uvarint"),
            "00",
            None,
            ("null", "null where the protocol allows none", 0, 1),
            id="null array",
        ),
        pytest.param(single_field("bool"), "02", True, ("bool", "boolean is 2, not 0 or 1", 0, 1), id="boolean"),
        pytest.param(
            single_field("string", length="int16"),
            "00 02 68 ff",
            "h\udcff",
            ("utf8", "string is not UTF-8", 0, 4),
            id="text",
        ),
        pytest.param(
            single_field("string", length="uvarint"),
            "82 00 68",
            "h",
            ("varint", "length of string takes 2 bytes where fewer suffice", 0, 2),
            id="long varint",
        ),
        pytest.param(
            single_field("struct", nullable=True, length="int8", struct=PORT),
            "02 07",
            {"port": 7},
            ("length", "presence marker is 2, not 1", 0, 1),
            id="mark",
        ),
        pytest.param(
            single_field("struct", nullable=True, length="int8", struct=PORT),
            "fe",
            None,
            ("length", "presence marker is -2, not 1", 0, 1),
            id="negative mark",
        ),
    ],
)
def test_irregular_bytes_are_read_with_a_warning(
    shape: Layout, text: str, value: object, warning: tuple[str, str, int, int]
) -> None:
    walked = walk(shape, unhex(text))
    assert walked.error is None
    assert walked.values == {"it": value}
    assert warning_tuples(walked) == [(*warning, ("it",))]


def test_unordered_tags_give_a_warning() -> None:
    walked = walk(TAGGED, unhex("00 00  02  06 00  05 00"))
    assert walked.values == {"error_code": 0, "_tags": [[6, b""], [5, b""]]}
    assert warning_tuples(walked) == [("tag_order", "tag 5 follows tag 6", 5, 6, ("_tags",))]


def test_tag_larger_than_its_value_gives_a_warning() -> None:
    walked = walk(TAGGED, unhex("00 00  01  01 05 00 00 00 07 ff"))
    assert walked.values == {"error_code": 0, "epoch": 7}
    assert walked.end == 10
    assert warning_tuples(walked) == [("tag_size", "tag 1 says 5 bytes, its value has 4", 3, 9, ("_tags", "epoch"))]


def test_irregular_presence_marker_in_a_tag_is_read_as_a_varint() -> None:
    walked = walk(TAGGED, unhex("00 00  01  02 03 81 00 09"))
    assert walked.values == {"error_code": 0, "where": {"port": 9}}
    assert [warning.kind for warning in walked.decode_warnings] == ["varint"]


def test_warning_in_a_tag_has_the_path_of_its_field() -> None:
    walked = walk(TAGGED, unhex("00 00  01  00 02 02 ff"))
    assert warning_tuples(walked) == [("utf8", "string is not UTF-8", 5, 7, ("_tags", "cluster_id"))]
